"""Tests of layers in Sequential and functional Keras models: masks, ponder loss, files."""

import operator

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic import dense
from ut_keras.layers.depth import (
    act,
    depthwise_attention,
    gate,
    gated_recurrence,
    gated_unit_recurrence,
    mixed_depth,
    recurrence,
    stack,
    state_layer,
    transformer_layer,
)
from ut_keras.layers.halting import halting, q_halt
from ut_keras.layers.position import timing_signal
from ut_keras.layers.transition import transition

B, S, T, C, D, N = 3, 5, 4, 2, 8, 2
REAL = np.arange(S) < np.array([[5], [3], [1]])
SERIES = np.where(REAL[..., None], layer_checks.normal(B, S, C), 0.0)


def _timing(step="learned"):
    return timing_signal.StepTimingSignal(N, step=step)


def _adaptive(halted_state="transform", act_loss_weight=0.5, **rule):
    return act.AdaptiveComputationTime(
        layer_checks.make_block(D),
        _timing(),
        halting.ACTHalting(N, **{"bias_init": -0.5, **rule}),
        halted_state,
        act_loss_weight,
    )


LAYERS = {
    "layer": lambda: transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, D), transition.FeedForward(2 * D, D)
    ),
    "block": lambda: layer_checks.make_block(D, num_layers=2),
    "layers": lambda: stack.LayeredDepth(layer_checks.make_block(D)),
    "basic": lambda: recurrence.BasicRecurrence(layer_checks.make_block(D), _timing(), N),
    "act": _adaptive,
    "act, copy": lambda: _adaptive(halted_state="copy"),
    "act, global": lambda: _adaptive(act_type="global", mask_padding=True),
    "highway": lambda: gated_recurrence.HighwayRecurrence(
        layer_checks.make_block(D), _timing(), N, transform_gate=gate.Gate(dense.Dense(D))
    ),
    "dwa": lambda: depthwise_attention.DepthwiseAttentionRecurrence(
        layer_checks.make_block(D), _timing(), N
    ),
    "gru": lambda: gated_unit_recurrence.GRURecurrence(
        layer_checks.make_block(D), _timing(None), N, unit=gated_unit_recurrence.GRUUnit()
    ),
    "mixed": lambda: mixed_depth.MixedDepth(
        _adaptive(), before=stack.LayeredDepth(layer_checks.make_block(D))
    ),
    "stack": lambda: stack.Stack(_adaptive()),
}


def test_stack_rejects_a_block():
    with pytest.raises(ValueError, match="depth must be a recurrence.* Received: TransformerBlock"):
        stack.Stack(layer_checks.make_block(D))


def _model(layer):
    """Return a model that maps a time series to states. Zeros in the series are padding."""
    return keras.Sequential(
        [
            keras.Input((None, C)),
            keras.layers.Masking(),
            dense.Dense(D),
            timing_signal.SinusoidPosition(),
            layer,
        ]
    )


@pytest.mark.parametrize("name", LAYERS)
def test_padding_has_no_effect_in_a_keras_model(name, tmp_path):
    layer = LAYERS[name]()
    assert isinstance(layer, state_layer.StateLayer)
    model = layer_checks.shake(_model(layer))
    assert model.output_shape == (None, None, D)
    states = model(SERIES)
    np.testing.assert_array_equal(states._keras_mask, REAL)
    for row, length in enumerate(REAL.sum(axis=1)):
        alone = model(SERIES[row : row + 1, :length])
        np.testing.assert_allclose(states[row, :length], alone[0], atol=1e-5)

    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(SERIES), states)
    lines = []
    again.summary(print_fn=lines.append)
    assert f"(None, None, {D})" in "".join(lines)


class UnbuiltTransition(keras.layers.Layer):
    """A user's transition without `build`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(D, "tanh")

    def call(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.Bidirectional(keras.layers.GRU(D // 2, return_sequences=True)),
        lambda: keras.Sequential(
            [
                keras.layers.Dense(D),
                keras.layers.Bidirectional(keras.layers.GRU(D // 2, return_sequences=True)),
            ]
        ),
    ],
)
def test_transition_of_keras_gets_the_padding_mask(make, tmp_path):
    """Layers of Keras have the argument `mask` instead of `padding_mask`."""
    transformer = transformer_layer.TransformerLayer(attention.MultiHeadAttention(2, D), make())
    block = stack.TransformerBlock([transformer])
    depth = recurrence.BasicRecurrence(block, _timing(), N)
    model = layer_checks.shake(_model(stack.Stack(depth)))
    states = model(SERIES)
    for row, length in enumerate(REAL.sum(axis=1)):
        alone = model(SERIES[row : row + 1, :length])
        np.testing.assert_allclose(states[row, :length], alone[0], atol=1e-5)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(SERIES), states)
    model.compile("sgd", "mse")
    model.fit(SERIES, np.zeros((B, S, D)), verbose=0)


def test_transition_of_keras_with_softmax_gets_no_mask():
    """The mask of Keras' `Softmax` must have the shape of its input."""
    layers = [keras.layers.Dense(2 * D), keras.layers.Softmax(), keras.layers.Dense(D)]
    transition = keras.Sequential(layers)
    transformer = transformer_layer.TransformerLayer(attention.MultiHeadAttention(2, D), transition)
    model = layer_checks.shake(_model(transformer))
    states = model(SERIES)
    for row, length in enumerate(REAL.sum(axis=1)):
        alone = model(SERIES[row : row + 1, :length])
        np.testing.assert_allclose(states[row, :length], alone[0], atol=1e-5)


def test_statistics_of_batch_normalization_exclude_padding():
    transformer = transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, D), keras.layers.BatchNormalization()
    )
    model = _model(transformer)
    states = model(SERIES, training=True)
    padded = model(np.pad(SERIES, [[0, 0], [0, 2], [0, 0]]), training=True)[:, :S]
    np.testing.assert_allclose(padded[REAL], states[REAL], atol=1e-5)


@pytest.mark.filterwarnings("ignore:`build")  # Keras warns when it loads such a layer
@pytest.mark.parametrize(
    "make",
    [
        stack.LayeredDepth,
        lambda block: act.AdaptiveComputationTime(block, _timing(), halting.ACTHalting(N)),
    ],
)
def test_part_without_build_is_loaded(make, tmp_path):
    """A functional model has all weights before its first call. Keras loads only such weights."""
    transformer = transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, D), UnbuiltTransition()
    )
    layer = stack.Stack(make(stack.TransformerBlock([transformer])))
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, layer(inputs))
    count = len(model.trainable_variables)
    x = layer_checks.normal(B, S, D)
    outputs = model(x)
    assert len(model.trainable_variables) == count
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"UnbuiltTransition": UnbuiltTransition}
    )
    np.testing.assert_array_equal(loaded(x), outputs)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (recurrence.BasicRecurrence, {"num_steps": N, "supervised_every": 1}),
        (act.AdaptiveComputationTime, {"halting": q_halt.QHalting(N)}),
    ],
)
def test_training_call_rejects_losses_of_several_steps(kind, given):
    """Without the error, training would silently ignore the losses of several steps."""
    model = _model(stack.Stack(kind(layer_checks.make_block(D), _timing(), **given)))
    model(SERIES)
    with pytest.raises(ValueError, match="losses of several steps.*Received: a call of stack"):
        model(SERIES, training=True)


def test_ponder_loss_is_absent_without_weight():
    model = _model(_adaptive(act_loss_weight=0.0))
    model(SERIES)
    assert not model.losses


def test_inference_call_has_gradients():
    """A skipped position has no gradient, so a call under a gradient tape skips none."""
    layer = stack.Stack(_adaptive("copy"))
    state = tf.constant(layer_checks.normal(B, S, D))

    def gradient(training):
        with tf.GradientTape() as tape:
            tape.watch(state)
            loss = tf.reduce_sum(layer(state, training=training) ** 2)
        return tape.gradient(loss, state)

    np.testing.assert_allclose(gradient(False), gradient(True), rtol=1e-5)
    spec = [tf.TensorSpec([None, None, D])]

    @tf.function(input_signature=spec, autograph=False)
    def traced(state):
        with tf.GradientTape() as tape:
            tape.watch(state)
            loss = tf.reduce_sum(layer(state) ** 2)
        return tape.gradient(loss, state)

    np.testing.assert_allclose(traced(state), gradient(True), rtol=1e-5)


def test_masks_may_have_number_dtypes():
    layer = stack.Stack(_adaptive())
    state = layer_checks.normal(B, S, D)
    mask = np.float32(REAL)
    expected = layer(state, mask=REAL, attention_mask=np.ones([1, 1, S, S], bool))
    found = layer(state, mask=mask, attention_mask=np.ones([1, 1, S, S], int))
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match=r"mask must be \[batch, length\]. Received: \(3, 5, 1\)"):
        layer(state, mask=mask[..., None])


@pytest.mark.parametrize("part", ["depth.halting", "depth.block", "depth"])
def test_frozen_parts_stay_frozen_in_a_keras_file(part, tmp_path):
    state = keras.Input((None, D))
    layer = stack.Stack(_adaptive())
    model = keras.Model(state, layer(state))
    operator.attrgetter(part)(layer).trainable = False
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert len(model.weights) - len(model.trainable_weights) > 0
    assert [v.trainable for v in again.weights] == [v.trainable for v in model.weights]


def test_fit_trains_the_ponder_loss():
    """If the ponder loss is the only loss, training increases the halting probabilities."""
    layer = _adaptive(bias_init=1.0)
    model = _model(layer)
    model.compile(keras.optimizers.SGD(0.1), loss=lambda y_true, y_pred: 0.0 * y_pred[..., 0])
    model.fit(SERIES, np.zeros((B, S, D)), verbose=0)
    assert layer.halting.bias.numpy() > 1.0


@pytest.mark.parametrize("floatx", ["float64", "bfloat16"])
def test_ponder_loss_is_added_to_a_loss_of_any_dtype(floatx):
    earlier = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        model = _model(_adaptive(act_loss_weight=0.5))
        model.compile("sgd", "mse", run_eagerly=True)
        loss = model.evaluate(SERIES, np.zeros((B, S, D)), verbose=0)
        model.compile("sgd", lambda y_true, y_pred: 0.0 * y_pred[..., 0], run_eagerly=True)
        cost = model.evaluate(SERIES, np.zeros((B, S, D)), verbose=0)
    finally:
        keras.config.set_floatx(earlier)
    assert 0.5 <= cost < loss


@pytest.mark.parametrize("name", LAYERS)
def test_call_rejects_state_of_other_width(name):
    """A layer checks the width of its state at every call, also before it has weights."""
    layer, wide = LAYERS[name](), layer_checks.normal(B, S, D + 1)
    expected = rf"state must be \[batch, length, {D}\]. Received: \(.*\)\.$"
    for x in (wide, wide[0, :, :D], wide.tolist(), keras.Input((None, D + 1)), keras.Input((D,))):
        with pytest.raises(ValueError, match="^" + expected):
            layer(x)
    with pytest.raises(ValueError, match=expected):
        keras.Sequential([layer]).predict(wide, verbose=0)
    layer(wide[..., :D])
    for call in (layer, tf.function(layer, autograph=False)):
        with pytest.raises(ValueError, match="^" + expected):
            call(tf.constant(wide))


def test_call_rejects_memory_of_other_width():
    depth = recurrence.BasicRecurrence(layer_checks.make_block(D, decoder=True), _timing(), N)
    state = layer_checks.normal(B, T, D)
    for memory in (layer_checks.normal(B, S, D + 1), layer_checks.normal(B, D)):
        with pytest.raises(
            ValueError, match=rf"^memory must be \[batch, length, {D}\]. Received: "
        ):
            depth(state, memory=memory)
        with pytest.raises(ValueError, match="^memory must be "):
            depth(state, memory)


def test_decoder_works_in_a_functional_model():
    """Attention to the memory uses the memory's mask, and self-attention is causal."""
    source, target = keras.Input((None, C)), keras.Input((None, D))
    memory = dense.Dense(D)(keras.layers.Masking()(source))
    depth = recurrence.BasicRecurrence(layer_checks.make_block(D, decoder=True), _timing(), N)
    states = depth(target, memory=memory, use_causal_mask=True)
    model = layer_checks.shake(keras.Model([source, target], states))

    x, changed = layer_checks.normal(B, T, D), layer_checks.normal(B, T, D)
    changed[:, 2:] += 1.0
    got = model([SERIES, x]).numpy()
    np.testing.assert_allclose(model([SERIES, changed])[:, :2], got[:, :2], atol=1e-6)
    assert np.abs(model([SERIES, changed])[:, 2:] - got[:, 2:]).max() > 1e-3
    for row, length in enumerate(REAL.sum(axis=1)):
        alone = model([SERIES[row : row + 1, :length], x[row : row + 1]])
        np.testing.assert_allclose(alone[0], got[row], atol=1e-5)


def test_masks_of_state_and_memory_are_distinguished():
    """If a call has two tensor arguments, Keras names each mask after its argument."""
    depth = recurrence.BasicRecurrence(layer_checks.make_block(D, decoder=True), _timing(), N)
    masked = keras.layers.Masking()
    wide = np.tile(SERIES, (1, 1, D // C))
    memory = layer_checks.normal(B, T, D)
    got = depth(masked(wide), memory=memory)
    for row, length in enumerate(REAL.sum(axis=1)):
        alone = depth(wide[row : row + 1, :length], memory=memory[row : row + 1])
        np.testing.assert_allclose(got[row, :length], alone[0], atol=1e-5)


PONDER_TIMES = np.float32([[2, 3, 5], [1, 4, 5]])
REMAINDERS = np.float32([[0.5, 0.25, 0], [1, 0.5, 0]])
COST = PONDER_TIMES + REMAINDERS


def _ponder_value(*arguments, **keywords):
    term = state_layer.ponder_term(*arguments, **keywords)
    return term.numerator / term.denominator


def test_ponder_cost_is_mean_over_positions():
    np.testing.assert_allclose(_ponder_value(COST, 0.01), 0.01 * 22.25 / 6, rtol=1e-6)
    of_examples = _ponder_value(COST[:, 0], 0.1)
    np.testing.assert_allclose(of_examples, 0.1 * 4.5 / 2, rtol=1e-6)


def test_ponder_cost_can_exclude_padding():
    real = np.array([[True, True, True], [True, False, False]])
    np.testing.assert_allclose(_ponder_value(COST, 0.01, real), 0.01 * (10.75 + 2) / 4, rtol=1e-6)


def test_ponder_term_uses_example_weights():
    weights = np.float32([3, 1])
    expected = 0.01 * (3 * 10.75 + 11.5) / (3 * 3 + 3)
    np.testing.assert_allclose(
        _ponder_value(COST, 0.01, example_weights=weights), expected, rtol=1e-6
    )
    np.testing.assert_allclose(
        _ponder_value(COST[:, 0], 0.1, example_weights=weights), 0.1 * (3 * 2.5 + 2) / 4
    )


def test_layer_rejects_a_mask_that_is_added_to_logits():
    """As bool, 0 would forbid attention and -1e9 would allow it."""
    block, x = layer_checks.make_block(D), layer_checks.normal(B, S, D)
    may_attend = np.tril(np.ones((1, 1, S, S), "float32"))
    found = block(x, attention_mask=may_attend)
    np.testing.assert_allclose(found, block(x, use_causal_mask=True), atol=1e-6)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="(?s)1 at the positions .* x >= 0 did not hold"
    ):
        block(x, attention_mask=-1e9 * (1 - may_attend))


def test_xla_returns_nan_for_a_mask_that_is_added_to_logits():
    """XLA ignores assertions. Masks of 0 and 1 in float32 are still right."""
    block, x = layer_checks.make_block(D), layer_checks.normal(B, S, D)
    may_attend = np.tril(np.ones((1, 1, S, S), "float32"))

    @tf.function(jit_compile=True)
    def compiled(mask):
        return block(x, attention_mask=mask)

    expected = block(x, use_causal_mask=True)
    np.testing.assert_allclose(compiled(tf.constant(may_attend)), expected, atol=1e-5)
    assert np.isnan(compiled(tf.constant(-1e9 * (1 - may_attend)))).all()
