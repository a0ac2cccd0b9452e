import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers import optimizer_examples as examples
from ut_keras.optimizers import adam, gradient_descent
from ut_keras.optimizers import optimizer as optimizer_lib


def _noise(mode="graph", seed=0, **fields):
    """Return the changes of a weight in two updates whose gradients are zero."""
    keras.utils.set_random_seed(seed)
    optimizer = gradient_descent.GradientDescent(1.0, grad_noise_scale=0.5, **fields)
    variable = keras.Variable(np.zeros((200, 100), "float32"))
    optimizer.build([variable])
    apply = optimizer.apply
    if mode != "eager":
        apply = tf.function(
            lambda batch: optimizer.apply(batch), jit_compile=mode == "xla", autograph=False
        )
    drawn = []
    for _ in range(2):
        before = variable.numpy()
        apply([tf.zeros(variable.shape)])
        drawn.append(variable.numpy() - before)
    return drawn


def test_graph_of_an_update_is_freed():
    def traced():
        optimizer = gradient_descent.GradientDescent(1.0)
        variable = keras.Variable(np.zeros(3, "float32"))
        optimizer.build([variable])
        update = tf.function(lambda gradient: optimizer.apply([gradient]), autograph=False)
        return weakref.ref(update.get_concrete_function(tf.ones(3)).graph)

    graph = traced()
    gc.collect()
    assert graph() is None


@pytest.mark.parametrize("mode", examples.MODES)
def test_noise_is_a_truncated_normal_distribution(mode):
    first, second = _noise(mode)
    assert first.std() == pytest.approx(0.5 * 0.8796, rel=0.02)
    assert 0.95 < np.abs(first).max() <= 1.0
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


def test_noise_depends_on_the_seed():
    np.testing.assert_array_equal(_noise(seed=1), _noise(seed=1))
    assert np.abs(_noise(seed=1)[0] - _noise(seed=2)[0]).max() > 0.1


def test_noise_is_clipped_too():
    first, _ = _noise(clip_grad_norm=1.0)
    assert np.linalg.norm(first) == pytest.approx(1.0, rel=1e-4)


def test_noise_continues_after_a_checkpoint():
    """The seed of the noise is a variable of the optimizer, so checkpoints contain the seed."""
    optimizer = adam.Adam(grad_noise_scale=1.0)
    optimizer.build([keras.Variable(np.zeros(3, "float32"))])
    assert any(variable.path.endswith("noise_seed") for variable in optimizer.variables)


def _one_without_gradient(**fields):
    """Return the value of a variable before and after the second of two updates.

    The variable has a gradient only in the first update.
    """
    variables = [keras.Variable([1.0, 2.0], name=name) for name in ("kernel", "bias")]
    optimizer = adam.Adam(0.1, **fields)
    optimizer.build(variables)
    ones = tf.ones(2)
    optimizer.apply([ones, ones], variables)
    before = variables[1].numpy()
    optimizer.apply([ones, None], variables)
    return before, variables[1].numpy()


# Keras warns about variables without gradients.
@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_variable_without_gradient_is_skipped():
    before, after = _one_without_gradient()
    np.testing.assert_array_equal(before, after)


def test_zero_grads_applies_momentum_without_gradient():
    before, after = _one_without_gradient(zero_grads=True)
    assert (after < before - 0.01).all()


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_weight_decay_applies_without_gradient():
    kernel, bias = (keras.Variable([[1.0]], name="kernel"), keras.Variable([1.0], name="bias"))
    other = keras.Variable([1.0], name="other")
    optimizer = gradient_descent.GradientDescent(1.0, l2_rate=0.25)
    optimizer.build([other, kernel, bias])
    optimizer.apply([tf.zeros(1), None, None])
    assert (float(other[0]), float(kernel[0, 0]), float(bias[0])) == (0.75, 0.75, 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: adam.AdamW(0.1, decay=0.2),
        lambda: gradient_descent.GradientDescent(0.1, l2_rate=0.2),
        lambda: adam.Adam(0.1, l2_rate=0.2),
    ],
)
def test_excluded_weights_do_not_decay(make):
    """`exclude_from_weight_decay` applies to the L2 loss and to T2T's decay."""
    optimizer = make()
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    still = [{name: 0.0 * value for name, value in examples.values(0).items()}]
    trained = examples.train(optimizer, "eager", still)
    np.testing.assert_array_equal(trained["kernel"], examples.values(0)["kernel"])
    assert np.abs(trained["weights"] - examples.values(0)["weights"]).max() > 1e-3


@pytest.mark.parametrize("by", ["var_names", "var_list"])
def test_excluded_weights_do_not_decay_after_loading(by, tmp_path):
    """Keras does not store the exclusions, so the weights of a loaded model would decay."""
    optimizer = adam.AdamW(0.1, decay=0.2)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1), keras.layers.Dense(1)])
    kernel = model.layers[0].kernel
    excluded = {"var_list": [kernel], "var_names": [f"{model.layers[0].name}/kernel"]}
    optimizer.exclude_from_weight_decay(**{by: excluded[by]})
    model.compile(optimizer, "mse", run_eagerly=True)
    optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.train_on_batch(np.zeros((2, 1)), np.zeros((2, 1)))
    before, after = model.get_weights(), loaded.get_weights()
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_allclose(after[2], 0.8 * before[2], rtol=1e-6)


def test_dense_sums_rows_of_a_bfloat16_variable_in_float32():
    variable = keras.Variable(np.zeros((2, 3)), dtype="bfloat16")
    slices = tf.IndexedSlices(tf.ones([1000, 3], tf.bfloat16), tf.ones([1000], tf.int32))
    found = optimizer_lib.dense_gradient(slices, variable).numpy().astype("float32")
    np.testing.assert_array_equal(found, [[0.0] * 3, [1000.0] * 3])
