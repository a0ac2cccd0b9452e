import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.basic import dropout


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: dropout.Dropout(0.25, (1,), seed=3, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights=0,
    )


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_dropout_zeroes_expected_share(rate, mode):
    layer = dropout.Dropout(rate, seed=1)
    call = layer
    if mode != "eager":
        call = tf.function(layer, jit_compile=mode == "xla")
    size = 40000
    values = np.asarray(call(tf.ones([200, 200]), training=True))
    share = np.mean(values == 0)
    assert abs(share - rate) < 5 * np.sqrt(rate * (1 - rate) / size)
    (scaled,) = np.unique(values[values != 0])
    np.testing.assert_allclose(scaled, 1 / (1 - rate), rtol=1e-3)


def test_mask_rows_and_columns_differ():
    kept = dropout.Dropout(0.5, seed=1)(tf.ones([200, 200]), training=True).numpy() > 0
    for axis in (0, 1):
        assert len(np.unique(kept, axis=axis)) == 200


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_is_identity_at_inference(rate):
    layer, x = dropout.Dropout(rate), layer_checks.normal(10, 10)
    for training in (False, None):
        np.testing.assert_array_equal(layer(x, training=training), x)
    same = np.array_equal(layer(x, training=True), x)
    assert same == (rate == 0)


def test_mask_differs_between_calls():
    layer, x = dropout.Dropout(0.5, seed=1), tf.ones([10, 10])
    graph = tf.function(lambda x: layer(x, training=True))
    masks = [layer(x, training=True), layer(x, training=True), graph(x), graph(x)]
    assert len({np.asarray(mask).tobytes() for mask in masks}) == 4


def test_seed_determines_masks():
    x = tf.ones([10, 10])
    first, second = dropout.Dropout(0.5, seed=1), dropout.Dropout(0.5, seed=1)
    for _ in range(2):
        np.testing.assert_array_equal(first(x, training=True), second(x, training=True))
    assert np.any(dropout.Dropout(0.5, seed=2)(x, training=True) != first(x, training=True))


@pytest.mark.parametrize("dims", [(1,), (0, 2), (-1,), (4, -5)])
def test_broadcast_dims_share_decisions(dims):
    kept = dropout.Dropout(0.5, dims, seed=1)(tf.ones([6, 7, 8]), training=True).numpy() > 0
    shared = {axis % 3 for axis in dims if -3 <= axis < 3}  # T2T also ignores axes out of range.
    for axis in range(3):
        constant = np.all(kept == np.take(kept, [0], axis=axis))
        assert constant == (axis in shared)


def test_random_state_is_one_variable():
    (state,) = dropout.Dropout(0.5).non_trainable_variables
    assert state.path.endswith("seed_generator_state")


def test_gradient_passes_kept_elements_only():
    x = tf.ones([50])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = dropout.Dropout(0.5)(x, training=True)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_gradient_outside_of_a_compiled_function_has_the_same_mask():
    layer, x = dropout.Dropout(0.5, seed=2), tf.ones([50])
    compiled = tf.function(lambda x: layer(x, training=True), autograph=False, jit_compile=True)

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        return tape.gradient(y, x), y

    np.testing.assert_array_equal(*run())


@pytest.mark.parametrize("method", ["__call__", "after_relu"])
def test_xla_compiles_a_loop_over_unknown_shapes(method):
    layer = dropout.Dropout(0.5, (1,), seed=2)
    arguments = {"training": True} if method == "__call__" else {}

    def body(i, x):
        return i + 1, getattr(layer, method)(x, **arguments)

    @tf.function(input_signature=[tf.TensorSpec([None, None])], autograph=False, jit_compile=True)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            _, y = tf.while_loop(lambda i, _: i < 2, body, (0, x), maximum_iterations=2)
        return tape.gradient(y, x), y

    gradient, y = run(tf.ones([50, 2]))
    np.testing.assert_array_equal(gradient, y)
    assert set(np.unique(y)) == {0, 4}


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_dropout_rejects_rate_out_of_range(rate):
    with pytest.raises(ValueError, match=rf"rate must be in \[0, 1\). Received: {rate}"):
        dropout.Dropout(rate)


def test_rate_close_to_one_gives_finite_output():
    """The layer does not round the rate to 1. A rate of 1 would keep no element."""
    layer = dropout.Dropout(1 - 1e-7, seed=0)
    assert np.isfinite(layer(np.ones((64, 64), "float32"), training=True)).all()


@pytest.mark.parametrize("shape", [(3, 5, 7), (3, 4, 8)])
@pytest.mark.parametrize("broadcast_dims", [(), (1,)])
def test_mask_does_not_depend_on_known_sizes(shape, broadcast_dims):
    layer, masks = dropout.Dropout(0.5, broadcast_dims, seed=1), []
    for known in (shape, [None, *shape[1:]], [None] * 3):
        layer.seed_generator.state.assign([1, 0])
        run = tf.function(
            lambda x: layer(x, training=True), [tf.TensorSpec(known)], autograph=False
        )
        masks.append(run(tf.ones(shape)).numpy())
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])
    assert masks[0].min() == 0 < masks[0].max()
