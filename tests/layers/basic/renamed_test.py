"""Old names of attributes still work in this version, with a deprecation warning."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras import layers
from ut_keras.layers.attention import attention
from ut_keras.layers.halting import halting
from ut_keras.layers.transition import sigma_moe
from ut_keras.models import transformer

X = layer_checks.normal(2, 3, 4)


def _warns(old, new):
    return pytest.warns(DeprecationWarning, match=f"{old} has been renamed to {new}")


def test_halting_rule_old_method_name_warns_and_works():
    rule = halting.ACTHalting(3)
    with _warns("ACTHalting.may_step", "should_continue"):
        may_step = rule.may_step
    assert may_step(rule.start(tf.constant(X)), 3, 0.01)


def test_halting_rule_override_of_old_name_is_used():
    with _warns("Own.counted", "pondering_mask"):

        class Own(halting.ACTHalting):
            def counted(self, padding_mask):
                return padding_mask[:, ::-1]

    rule = Own(3)
    with _warns("Own.by_example", "per_example"):
        rule.by_example = True
    assert rule.per_example
    np.testing.assert_array_equal(rule.pondering_mask(np.array([[True, False]])), [[False, True]])


def test_attention_override_of_old_name_is_used():
    with _warns("Own.places_matter", "cache_order_matters"):

        class Own(attention.MultiHeadAttention):
            places_matter = True

    layer = layers.TransformerLayer(Own(2, 4), layers.FeedForward(8, 4))
    assert layer.cache_order_matters


def test_attention_override_of_old_method_name_is_used():
    with _warns("Own.place", "encode_positions"):

        class Own(attention.MultiHeadAttention):
            def place(self, projected, cache=None):
                return projected * 0.0

    np.testing.assert_allclose(Own(2, 4)(X).weights, 1 / 3, atol=1e-6)


class _OldPositionSignal(keras.layers.Layer):
    """A user's position signal with the old names, for the inputs and the targets of a model."""

    def draw_places(self, rows):
        return tf.ones([rows, 1], tf.int32)

    def call(self, x, training=None, places=None, ids=None):
        return x + tf.cast(places, x.dtype)[..., tf.newaxis]


def test_position_signal_with_old_names_is_used():
    signal, x = _OldPositionSignal(), tf.zeros([2, 3, 4])
    model = types.SimpleNamespace(encoder=None, target_position=signal)
    with _warns("_OldPositionSignal.draw_places", "sample_position_ids"):
        features = transformer.Transformer._with_position_ids(model, {"targets": X})
        result = transformer.Transformer._add_position(signal, x, features, "targets", True)
    np.testing.assert_array_equal(result, np.ones([2, 3, 4]))


def test_unknown_attribute_raises_attribute_error():
    with pytest.raises(AttributeError, match="'ACTHalting' object has no attribute 'may_stop'"):
        halting.ACTHalting(3).may_stop  # noqa: B018


class _OldMixture(sigma_moe.SigmaMoE):
    """A transition with only the old names. A user's Keras layer may look like this one."""

    renamed_attributes = {}

    def __getattribute__(self, name):
        if name.startswith("auxiliary_loss"):
            raise AttributeError(name)
        return super().__getattribute__(name)

    @property
    def tally_width(self):
        return self.num_experts

    def cost(self, tally):
        return sigma_moe.SigmaMoE.auxiliary_loss(self, tally)


def test_transition_with_old_names_has_its_auxiliary_loss():
    results = []
    for transition_class in (sigma_moe.SigmaMoE, _OldMixture):
        transition = transition_class(8, 4, num_experts=4, k=2)
        layer = layers.TransformerLayer(layers.MultiHeadAttention(2, 4), transition)
        layer.build((None, None, 4))
        layer.set_weights([layer_checks.normal(*w.shape) for w in layer.get_weights()])
        if transition_class is _OldMixture:
            with _warns("_OldMixture.cost", "auxiliary_loss"):
                layer(X, training=True)
        else:
            layer(X, training=True)
        results.append(float(layer.losses[0]))
    assert results[0] == results[1] != 0


def test_sigma_moe_old_names_warn_and_work():
    layer = layers.SigmaMoE(8, 4, num_experts=4, k=2)
    layer.build((None, None, 4))
    result = layer(X, training=True)
    with _warns("MixtureOutput.tally", "auxiliary_loss_stats"):
        tally = result.tally
    with _warns("SigmaMoE.cost", "auxiliary_loss"):
        cost = layer.cost
    np.testing.assert_array_equal(cost(tally), layer.auxiliary_loss(result.auxiliary_loss_stats))
    with _warns("SigmaMoE.tally_width", "auxiliary_loss_width"):
        assert layer.tally_width == 4
