import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from ut_keras.errors import UserError
from ut_keras.layers.basic import dropout
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import act, recompute, recurrence, stack
from ut_keras.layers.halting import halting
from ut_keras.layers.position import timing_signal

B, S, D, N = 2, 5, 8, 6


def _recurrence(block=None, adaptive=False, dtype="float32", **arguments):
    block = block or layer_checks.make_block(D, dtype, dropout_rate=0.2)
    timing = timing_signal.StepTimingSignal(N, dtype=dtype)
    arguments = {"recompute_grad": True, "dtype": dtype, **arguments}
    if adaptive:
        rule = halting.ACTHalting(N, bias_init=-3.0)
        return act.AdaptiveComputationTime(block, timing, rule, **arguments)
    return recurrence.BasicRecurrence(block, timing, N, **arguments)


def _gradients(layer, x):
    with tf.GradientTape() as tape:
        output = layer.forward(x, StepInputs(training=True)).output
        loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
    return tape.gradient(loss, layer.trainable_variables)


def _kept_shapes(layer):
    """Return the shapes of the float tensors that each step keeps for the gradient."""
    traced = tf.function(lambda x: _gradients(layer, x), autograph=False)
    graph = traced.get_concrete_function(tf.TensorSpec([B, S, D], layer.compute_dtype)).graph
    (loop,) = [op for op in graph.get_operations() if op.type == "While"]
    body = graph._get_function(loop.get_attr("body").name).graph
    kept = [op.inputs[1] for op in body.get_operations() if op.type == "TensorListPushBack"]
    return sorted(tuple(tensor.shape) for tensor in kept if tensor.dtype.is_floating)


def test_loop_keeps_only_the_state_of_each_step():
    layer = _recurrence()
    layer.build((None, None, D))
    assert _kept_shapes(layer) == [(B, S, D)]
    plain = _recurrence(recompute_grad=False)
    plain.build((None, None, D))
    assert len(_kept_shapes(plain)) > 10


def test_adaptive_loop_keeps_only_its_state():
    """Each step keeps the state and the output, both [B, S, D].

    It also keeps at most four halting values per position.
    """
    layer = _recurrence(adaptive=True)
    layer.build((None, None, D))
    kept = _kept_shapes(layer)
    assert kept.count((B, S, D)) == 2
    assert set(kept) == {(B, S), (B, S, D)} and len(kept) <= 6


def test_recomputation_runs_each_step_twice_in_training():
    for training, runs in ((True, 2 * N), (False, N)):
        calls = []

        def square(x, training, calls=calls):
            count = tf.numpy_function(lambda: calls.append(1) or np.float32(0), [], tf.float32)
            return x * x + count

        layer = _recurrence(layer_checks.StubBlock(square, count=False))
        layer.build((None, None, D))

        @tf.function(autograph=False)
        def run(x, layer=layer, training=training):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer.forward(x, StepInputs(training=training)).output
            return tape.gradient(y, x)

        run(tf.ones([B, S, D]))
        assert len(calls) == runs


def test_layers_are_recomputed_after_the_gradient_arrives():
    """If recomputation did not wait, TensorFlow would keep the tensors of all layers."""
    block = layer_checks.make_block(D, num_layers=3, dropout_rate=0.2)
    layer = stack.LayeredDepth(block, recompute_grad=True)
    layer.build((None, None, D))
    traced = tf.function(lambda x: _gradients(layer, x), autograph=False)
    operations = traced.get_concrete_function(tf.TensorSpec([B, S, D])).graph.get_operations()
    waiting = [op for op in operations if op.type == "Identity" and op.control_inputs]
    assert len(waiting) > 3 * 10


def test_xla_computes_layers_again():
    """XLA removes duplicate operations unless they depend on the upstream gradient."""

    def count_products(recompute_grad):
        layer = stack.LayeredDepth(layer_checks.make_block(D, num_layers=2), recompute_grad)
        layer.build((None, None, D))
        traced = tf.function(lambda x: _gradients(layer, x), autograph=False, jit_compile=True)
        text = traced.experimental_get_compiler_ir(tf.ones([B, S, D]))(stage="optimized_hlo")
        return text.count(" dot(")

    plain, recomputed = count_products(False), count_products(True)
    # A layer has 8 matrix products. The gradient does not need the results of the last products.
    assert recomputed >= plain + 2 * 6


def test_recomputation_of_a_compiled_function_has_the_same_dropout():
    layer = dropout.Dropout(0.5, seed=2)
    x = tf.ones([50])
    compiled = tf.function(
        lambda x: recompute.Recomputation(layer)(lambda x: layer(x, training=True), x),
        autograph=False,
        jit_compile=True,
    )

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        return tape.gradient(y, x), y

    np.testing.assert_array_equal(*run())


def test_gradients_are_summed_in_float32_in_a_call_under_bfloat16():
    """During the call of a layer, Keras casts every variable that the layer reads."""
    found = []
    for recompute_grad in (False, True):
        seeds.set_seed(0)
        layer = _recurrence(dtype="mixed_bfloat16", recompute_grad=recompute_grad)
        layer.build((None, None, D))
        with tf.GradientTape() as tape:
            output = layer(layer_checks.normal(B, S, D), training=True)
            loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
        found.append(tape.gradient(loss, layer.trainable_variables))
    for got, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


class _NormalizesBatch(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x, training=None):
        return self.norm(x, training=training)


class _BuildsLate(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(D)

    def build(self, shape):
        del shape

    def call(self, x, training=None):
        return self.dense(x)


class _SamplesOtherwise(keras.layers.Layer):
    def build(self, shape):
        del shape

    def call(self, x, training=None):
        return x + tf.random.normal(tf.shape(x))


class _ReadsTensorFlowVariable(keras.layers.Layer):
    def build(self, shape):
        self.raw = tf.Variable(tf.ones(shape[-1]))

    def call(self, x, training=None):
        return x * self.raw


class _Block(layer_checks.StubBlock):
    """A block that applies one layer."""

    def __init__(self, layer):
        super().__init__(lambda x, training: layer(x, training=training), count=False)
        self.layer = layer

    def build(self, shape):
        self.layer.build(shape)


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (_NormalizesBatch, "moving_mean"),
        (_BuildsLate, "dense"),
        (_SamplesOtherwise, "RandomStandardNormal"),
        (_ReadsTensorFlowVariable, "Received"),
    ],
)
def test_recomputation_rejects_layers_that_cannot_be_repeated(make, received):
    layer = _recurrence(_Block(make()))
    layer.build((None, None, D))
    run = tf.function(lambda x: layer.forward(x, StepInputs(training=True)), autograph=False)
    with pytest.raises(UserError, match=received) as caught:
        run(tf.ones([B, S, D]))
    assert "recompute_grad" in str(caught.value) and "\n" not in str(caught.value)


def test_recomputation_rejects_tensors_that_are_no_arguments():
    layer = dropout.Dropout(0.2)
    x = tf.ones([B, D])

    @tf.function(autograph=False)
    def run(x):
        hidden = 2 * x
        return recompute.Recomputation(layer)(lambda x: layer(x, training=True) * hidden, x)

    with pytest.raises(UserError, match="Received: mul"):
        run(x)


def test_recomputation_adds_the_losses_of_layers():
    """A sublayer may add a loss. The gradient of this loss passes through the recomputation."""

    class AddsLoss(keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x, padding_mask=None, cache=None, training=None):
            self.add_loss(tf.reduce_sum(x * self.kernel))
            return x

    found = []
    for recompute_grad in (False, True):
        seeds.set_seed(0)
        block = layer_checks.make_block(D)
        (layer,) = block.layers
        block = stack.TransformerBlock(
            [type(layer)(layer.self_attention, AddsLoss(), preprocess_sequence="none")]
        )
        depth = stack.LayeredDepth(block, recompute_grad=recompute_grad)
        depth.build((None, None, D))
        layer_checks.shake(depth)

        @tf.function(autograph=False)
        def run(x, depth=depth):
            with tf.GradientTape() as tape:
                tape.watch(x)
                depth.forward(x, StepInputs(training=True))
                (loss,) = depth.losses
            return loss, tape.gradient(loss, x)

        found.append(run(layer_checks.normal(B, S, D)))
    for got, expected in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_recomputation_in_a_condition_may_return_an_argument():
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    layer.build((None, 1))

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            recomputed = recompute.Recomputation(layer)

            def add():
                product, same = recomputed(lambda x: (layer(x) ** 2, x), x)
                return product + same

            y = tf.cond(tf.reduce_sum(x) > 0.0, add, lambda: x)
        return y, tape.gradient(y, x)

    for x, y, dx in [(3.0, 12.0, 7.0), (-3.0, -3.0, 1.0)]:
        found = gradient(tf.constant([[x]]))
        assert [value.numpy().item() for value in found] == [y, dx]
