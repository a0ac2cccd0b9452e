"""Checks that apply to every layer, and helpers that several tests of layers use."""

import json

import keras
import numpy as np
import tensorflow as tf

from ut_keras.layers.attention import attention
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import stack, transformer_layer
from ut_keras.layers.transition import transition


def check_layer(
    make,
    arguments,
    num_weights,
    build_shape=None,
    call=None,
    mixed_dtypes=("bfloat16",),
    mixed_tolerance=0.05,
    tolerance=1e-5,
):
    """Check the properties that every layer must have.

    - A new layer that is made from the config, after a round trip through JSON, has the same
      output.
    - The number of trainable weights is `num_weights`.
    - Eager mode, one graph for all batch sizes and lengths, and XLA give the same results.
    - A gradient step changes every weight.
    - Under mixed_bfloat16, weights are float32 and results are close to those under float32.

    Args:
        make: function that maps the name of a dtype policy to a new layer.
        arguments: dict from name to array. Axes 0 and 1 are batch and length.
        num_weights: int. Expected number of trainable weights.
        build_shape: shape for `build`. Default: the shape of the first argument.
        call: function (layer, **arguments) -> output. Default: the layer itself.
        mixed_dtypes: dtype of each tensor of the output under mixed_bfloat16.
        mixed_tolerance: float or None. Largest allowed difference under mixed_bfloat16, relative to
            the largest value. If None, values are not compared, because a small difference may
            change a decision.
        tolerance: float. Largest allowed difference between eager mode, graph and XLA.

    Returns:
        The built float32 layer.
    """
    call = call or (lambda layer, **arguments: layer(**arguments))
    first = next(iter(arguments.values()))
    build_shape = (None, *first.shape[1:]) if build_shape is None else build_shape

    layer = make("float32")
    layer.build(build_shape)
    assert len(layer.trainable_variables) == num_weights
    expected = _tensors(call(layer, **arguments))
    assert all(np.isfinite(value).all() for value in expected)

    _check_config(layer, build_shape, lambda again: call(again, **arguments), expected)
    _check_graphs(layer, arguments, call, expected, tolerance)
    _check_gradients(layer, arguments, call)

    mixed = make("mixed_bfloat16")
    mixed.build(build_shape)
    mixed.set_weights(layer.get_weights())
    assert {variable.dtype for variable in mixed.trainable_variables} <= {"float32"}
    got = _raw_tensors(call(mixed, **arguments))
    assert tuple(value.dtype.name for value in got) == tuple(mixed_dtypes)
    for value, want in zip(got, expected, strict=True):
        value = tf.cast(value, tf.float32)
        assert np.isfinite(value).all()
        if mixed_tolerance is not None:
            np.testing.assert_allclose(value, want, atol=mixed_tolerance * np.abs(want).max())
    return layer


def _check_config(layer, build_shape, call, expected):
    config = _through_json(keras.saving.serialize_keras_object(layer))
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(layer)
    assert _through_json(again.get_config()) == _through_json(layer.get_config())
    if not again.built:  # A layer whose config contains the build shape is already built.
        again.build(build_shape)
    again.set_weights(layer.get_weights())
    for value, want in zip(_tensors(call(again)), expected, strict=True):
        np.testing.assert_array_equal(value, want)


def _through_json(config):
    return json.loads(json.dumps(config))


def _check_graphs(layer, arguments, call, expected, tolerance):
    def run(arguments):
        return _raw_tensors(call(layer, **arguments))

    def free(value):
        shape = [None if axis < 2 else size for axis, size in enumerate(np.shape(value))]
        return tf.TensorSpec(shape, tf.as_dtype(np.asarray(value).dtype))

    signature = [{name: free(value) for name, value in arguments.items()}]
    graph = tf.function(run, input_signature=signature, autograph=False)
    xla = tf.function(run, jit_compile=True, autograph=False)
    for function in (graph, xla):
        for value, want in zip(function(arguments), expected, strict=True):
            np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance)
    # The same graph must also work for another batch size and another length.
    smaller = {
        name: value[:-1] if value.ndim == 1 else value[:-1, :-1]
        for name, value in arguments.items()
    }
    want = _tensors(call(layer, **smaller))
    for value, want_value in zip(graph(smaller), want, strict=True):
        np.testing.assert_allclose(value, want_value, rtol=tolerance, atol=tolerance)


def _check_gradients(layer, arguments, call):
    before = layer.get_weights()
    with tf.GradientTape() as tape:
        outputs = _raw_tensors(call(layer, **arguments, training=True))
        random = np.random.RandomState(1)
        loss = tf.add_n(
            [
                tf.reduce_sum(tf.cast(value, tf.float32) * random.normal(size=value.shape))
                for value in outputs
            ]
        )
    variables = layer.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        assert gradient is not None, variable.path
        gradient = tf.convert_to_tensor(gradient)
        assert np.isfinite(gradient).all(), variable.path
        assert np.any(gradient != 0), variable.path
        old = variable.numpy()
        variable.assign_sub(0.01 * gradient)
        assert np.any(variable.numpy() != old), variable.path
    layer.set_weights(before)


def _raw_tensors(output):
    return [tensor for tensor in tf.nest.flatten(output) if tensor is not None]


def _tensors(output):
    return [np.asarray(tensor) for tensor in _raw_tensors(output)]


def shake(layer, seed=0, scale=0.3):
    """Add noise to all weights. Initial values, such as biases of 0, would hide mistakes."""
    random = np.random.RandomState(seed)
    for variable in layer.trainable_variables:
        variable.assign_add(scale * random.normal(size=variable.shape))
    return layer


def normal(*shape, seed=0):
    """Return a float32 array of normally distributed random numbers."""
    return np.random.RandomState(seed).normal(size=shape).astype("float32")


def make_block(
    hidden_size, dtype="float32", num_layers=1, decoder=False, dropout_rate=0.0, num_heads=2
):
    """Return a `TransformerBlock` with fully connected transitions."""

    def make_attention():
        return attention.MultiHeadAttention(num_heads, hidden_size, dtype=dtype)

    layers = [
        transformer_layer.TransformerLayer(
            make_attention(),
            transition.FeedForward(2 * hidden_size, hidden_size, dtype=dtype),
            make_attention() if decoder else None,
            dropout_rate=dropout_rate,
            dtype=dtype,
        )
        for _ in range(num_layers)
    ]
    return stack.TransformerBlock(layers, dtype=dtype)


def decode(layer, state, memory, memory_mask, training=False, **arguments):
    """Run the causal forward pass of a decoder's layer, block or stack."""
    may_attend = attention.padding_attention_mask(memory_mask)
    state, memory = (tf.cast(x, layer.compute_dtype) for x in (state, memory))
    inputs = StepInputs(
        attention.causal_attention_mask(tf.shape(state)[1]),
        memory=layer.project_memory(memory, may_attend),
        training=training,
        **arguments,
    )
    return layer.forward(state, inputs)


def call_with_mask(layer, x, padding_mask, training=False):
    """Run the forward pass of an encoder's layer. Attention sees only real tokens."""
    may_attend = attention.padding_attention_mask(padding_mask)
    inputs = StepInputs(may_attend, padding_mask, training=training)
    return layer.forward(tf.cast(x, layer.compute_dtype), inputs)


class StubBlock(keras.layers.Layer):
    """A stub for `TransformerBlock`. It applies a function to the state and counts the calls."""

    mixes_by_attention_alone = False  # A stub has no keys and values.

    def __init__(self, function, count=True, **kwargs):
        super().__init__(**kwargs)
        self.function = function
        self.calls = tf.Variable(0, trainable=False) if count else None  # XLA tests count no calls.

    def build(self, state_shape):
        del state_shape

    def forward(self, state, inputs):
        if self.calls is not None:
            self.calls.assign_add(1)
        new = self.function(state, inputs.training)
        if inputs.running is not None:
            new = tf.where(inputs.running[..., tf.newaxis], new, state)
        return stack.BlockOutput(new, (), ())

    def start_auxiliary_loss_stats(self, state):
        return ()
