"""Learned positions in front of an encoder's sequence."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparam, losses
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import memory_tokens
from ut_keras.layers.depth.depth import StackOutput

_TOKENS = "num_memory_tokens=2"
# Kind of example, overrides.
VARIANTS = {
    "basic": ("universal", "recurrence_supervised_every=1"),
    "act": ("adaptive", "act_halting_bias_init=-3,act_mask_padding=True"),
    "copy": ("adaptive", "act_halted_state=copy,act_halting_bias_init=-1"),
    "ponder_net": ("encoder", "act_type=ponder_net"),
    "q_halt": ("tagger", "recurrence_type=act,act_type=q_halt"),
}


def _make(name):
    kind, overrides = VARIANTS[name]
    return examples.make(kind, f"{overrides},{_TOKENS}"), examples.features(kind)


class _Sums(keras.layers.Layer):
    """Stands for a recurrence: each position gets the sum of those that may be attended to."""

    block = None

    def forward(self, state, inputs):
        self.seen = tf.cast(inputs.attention_mask[:, 0, 0], state.dtype)[..., tf.newaxis]
        self.real = inputs.padding_mask
        total = tf.reduce_sum(state * self.seen, axis=1, keepdims=True)
        count = tf.ones(tf.shape(state)[:2]) * tf.range(5.0)
        return StackOutput(state + total, count, None, None, None, count[:, 0])


def test_matches_reference():
    """They are read as real positions are, in front, and are gone behind."""
    sums = _Sums()
    layer = memory_tokens.MemoryTokens(sums, 2)
    layer.build((None, None, 4))
    state = np.random.RandomState(0).normal(size=(2, 3, 4)).astype("float32")
    real = np.array([[True, True, True], [True, False, False]])
    result = layer.forward(state, StepInputs(real[:, None, None], real))
    total = layer.tokens.numpy().sum(0) + (state * real[..., None]).sum(1)
    np.testing.assert_allclose(result.output, state + total[:, None], rtol=1e-5)
    np.testing.assert_array_equal(sums.real, np.pad(real, [(0, 0), (2, 0)], constant_values=True))
    np.testing.assert_array_equal(result.ponder_times, [[2, 3, 4]] * 2)
    assert result.ponder_cost.shape == (2,)  # of whole examples


@pytest.mark.parametrize("name", VARIANTS)
def test_shapes_and_gradients(name):
    """All there is, is of the sequence alone; the tokens learn."""
    model, features = _make(name)
    length = features["inputs"].shape[1]
    with tf.GradientTape() as tape:
        output = model.forward(features, training=True, record_attention=True)
        loss = losses.total(model.loss_terms(output, features["targets"], True))
    found = output.encoder
    assert found.output.shape == (examples.B, length, 16)
    assert found.attention_weights.shape[-2:] == (length, length)
    assert np.all(np.sum(found.attention_weights, axis=-1) < 0.999)
    if found.ponder_times is not None:
        assert found.ponder_times.shape == found.ponder_cost.shape == (examples.B, length)
    if name == "ponder_net":
        assert found.steps.weights.shape[1:] == (examples.B, length)
    if name == "q_halt":
        assert found.steps.confidence.shape[1:] == (examples.B, length)
    assert np.any(tape.gradient(loss, model.encoder.depth.tokens) != 0)


@pytest.mark.parametrize("name", ["basic", "copy"])
def test_padding_has_no_effect(name):
    model, features = _make(name)
    before = model(features)
    wider = {**features, "inputs": np.pad(features["inputs"], [(0, 0), (0, 2)])}
    np.testing.assert_allclose(model(wider), before, atol=1e-5)
    model.encoder.depth.tokens.assign(model.encoder.depth.tokens[:, ::-1])
    assert np.abs(model(features) - before).max() > 1e-3


def test_save_and_load(tmp_path):
    model, features = _make("copy")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(features), model(features))
    np.testing.assert_array_equal(loaded.with_steps(2)(features), model.with_steps(2)(features))


def test_refuses():
    for kind, more in (
        ("adaptive_language_model", ""),
        ("universal", ",mix_with_transformer=before_ut"),
        ("universal", ",unidirectional_encoder=True"),
    ):
        with pytest.raises(hparam.HParamError, match="num_memory_tokens needs .*Received: num_mem"):
            examples.make(kind, _TOKENS + more)
    with pytest.raises(ValueError, match="num_tokens must be at least 1. Received: 0"):
        memory_tokens.MemoryTokens(None, 0)
    layer = memory_tokens.MemoryTokens(_Sums(), 1)
    layer.build((None, None, 4))
    with pytest.raises(ValueError, match=r"attention_mask must be the same .*\(2, 1, 3, 3\)"):
        layer.forward(tf.zeros([2, 3, 4]), StepInputs(tf.ones([2, 1, 3, 3], tf.bool)))
