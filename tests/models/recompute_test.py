"""`recompute_grad` does not change the loss, the gradients or the random numbers of a model."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from ut_keras import hparams, models, parts
from ut_keras.hparam_schema import HParamError

_HPARAMS_OF_TRANSFORMER = (
    "hidden_size=8,filter_size=16,num_heads=2,num_hidden_layers=2,layer_prepostprocess_dropout=0.2"
)
_HPARAMS = (
    "hidden_size=8,filter_size=16,num_heads=2,num_rec_steps=3,act_max_steps=3,"
    "act_halting_bias_init=-1.0,layer_prepostprocess_dropout=0.2,attention_dropout=0.2,"
    "relu_dropout=0.2"
)
_UNIT = "add_step_timing_signal=False"
_UNIVERSAL = {
    "basic": "num_inrecurrence_layers=1",
    "act": "recurrence_type=act",
    "act_random": "recurrence_type=act,act_type=random,act_mask_padding=1",
    "ponder_net": "recurrence_type=act,act_type=ponder_net",
    "highway": (
        "recurrence_type=highway,gates_inputs=sti,gate_ffn_layer=dense_dropconnect,"
        "dropconnect_dropout=0.2"
    ),
    "skip": "recurrence_type=skip",
    "dwa": "recurrence_type=dwa",
    "gru": f"recurrence_type=gru,{_UNIT}",
    "lstm": f"recurrence_type=lstm,use_memory_as_final_state=1,{_UNIT}",
    "mixed": "mix_with_transformer='before_ut,after_ut',num_mixedin_layers=1",
    "supervised": "recurrence_supervised_every=2",
    "sampled": "num_rec_steps_sampling=uniform,position_start_index=random",
    "sampled_act": "recurrence_type=act,num_rec_steps_sampling='lognormal_poisson(mean=2)'",
    "by_length": "num_rec_steps_sampling='by_length(factor=0.7)'",
    "injection": "recurrence_input_injection=add",
    "random_start": (
        "recurrence_input_injection=concat,recurrence_initial_state=normal,"
        "recurrence_residual_scale=0.5,recurrence_fixed_point_loss_weight=0.5"
    ),
    "experts": "ffn_layer='sigma_moe(num_experts=4, k=2)',copy_gate=1",
    "sru": "add_sru=1",
    "bfloat16": "activation_dtype=bfloat16",
}
# "act" runs the recurrence and "transformer" runs the layers that "mixed" combines.
_IN_EVERY_RUN = ("act", "transformer")
_WITH_XLA = ("basic", "act", "lstm", "mixed", "transformer")
_IDS = np.array([[3, 4, 5, 6], [7, 8, 2, 0]], np.int32)


def _model(name, extra, kind="universal_transformer"):
    seeds.set_seed(1)
    if name == "transformer":
        hp, kind = hparams.get("transformer_tiny", f"{_HPARAMS_OF_TRANSFORMER},{extra}"), name
    else:
        hp = hparams.get("universal_transformer_tiny", f"{_HPARAMS},{_UNIVERSAL[name]},{extra}")
    return models.get(kind, hp, vocab_sizes={"inputs": 9, "targets": 9})


def _train(name, extra, mode):
    """Return the loss, the gradients and the random generator states after a forward pass."""
    model = _model(name, extra)

    def run():
        with tf.GradientTape() as tape:
            output = model.forward({"inputs": _IDS, "targets": _IDS}, True)
            terms = model.loss_terms(output, _IDS, True)
            loss = tf.add_n([term.value() for parts in terms.values() for term in parts])
        found = tape.gradient(loss, model.trainable_variables)
        return loss, [tf.convert_to_tensor(gradient) for gradient in found]

    if mode != "eager":
        run = tf.function(run, autograph=False, jit_compile=mode == "xla")
    loss, gradients = run()
    states = [v.numpy() for v in model.non_trainable_variables]
    return loss.numpy(), [gradient.numpy() for gradient in gradients], states


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "graph") for name in _IN_EVERY_RUN),
        *(
            pytest.param(name, "graph", marks=pytest.mark.slow)
            for name in _UNIVERSAL
            if name == "lstm" or name not in (*_IN_EVERY_RUN, *_WITH_XLA)  # XLA compiles a graph
        ),
        *(
            pytest.param(name, mode, marks=pytest.mark.slow)
            for mode in ("eager", "xla")
            for name in _WITH_XLA
        ),
    ],
)
def test_recomputation_equals_plain_training(name, mode):
    loss, gradients, states = _train(name, "", mode)
    got_loss, got_gradients, got_states = _train(name, "recompute_grad=True", mode)
    tolerance = 1e-2 if name == "bfloat16" else 1e-6
    np.testing.assert_allclose(got_loss, loss, rtol=tolerance)
    for got, expected in zip(got_gradients, gradients, strict=True):
        scale = max(np.abs(expected).max(), 1.0)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)
    assert any(np.abs(gradient).max() > 1e-3 for gradient in gradients)
    for got, expected in zip(got_states, states, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert any(state[1] > 0 for state in states)


@functools.cache
def _fitted(settings):
    """Return the losses of two epochs of an encoder, and the weights after them.

    `test_recomputation_equals_plain_training` trains models that also have a decoder.
    """
    model = _model("basic", settings, "universal_transformer_encoder")
    model.compile()
    data = {"inputs": _IDS, "targets": _IDS}
    history = model.fit(data, _IDS, epochs=2, shuffle=False, verbose=0)
    return history.history["loss"], model.get_weights()


@pytest.mark.parametrize("settings", ["recompute_grad=True", "recurrence_backprop_steps=3"])
def test_fit_trains_as_without_these_settings(settings):
    """`recurrence_backprop_steps=3` has no effect, because the model has 3 steps."""
    (loss, weights), (got_loss, got_weights) = _fitted(""), _fitted(settings)
    np.testing.assert_allclose(got_loss, loss, rtol=1e-5)
    for got, expected in zip(got_weights, weights, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ("recurrence_backprop_steps=0", "recurrence_backprop_steps=0"),
        ("recurrence_backprop_steps=4", "num_rec_steps=3. Received: recurrence_backprop_steps=4"),
        (
            "recurrence_type=act,recurrence_backprop_steps=4",
            "act_max_steps=3. Received: recurrence_backprop_steps=4",
        ),
        (
            "recurrence_backprop_steps=2,recurrence_supervised_every=1",
            "recurrence_backprop_steps=2, recurrence_supervised_every=1",
        ),
        (
            "recurrence_backprop_steps=2,recurrence_type=act,act_type=ponder_net",
            "recurrence_backprop_steps=2 with act_type='ponder_net'",
        ),
    ],
)
def test_bad_settings_are_rejected_when_the_model_is_made(settings, values):
    with pytest.raises(HParamError, match=values) as caught:
        _model("basic", settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", ["recompute_grad=True", "recurrence_backprop_steps=2"])
def test_recurrences_that_ignore_these_settings_are_rejected(setting, monkeypatch):
    """A user's recurrence may have its own loop, which ignores the settings."""
    make = parts.recurrences.get("basic")
    without = dict(recompute_grad=False, recurrence_backprop_steps=None)
    monkeypatch.setattr(
        parts.recurrences,
        "get",
        lambda name: lambda hp, side: make(dataclasses.replace(hp, **without), side),
    )
    name, _, value = setting.partition("=")
    with pytest.raises(HParamError, match=f"Received: {name}={value} with recurrence_type='basic'"):
        _model("basic", setting)


def test_settings_do_not_change_names_of_weights(tmp_path):
    """A file of weights can be loaded into models with and without these settings."""
    plain = _model("act", "")
    other = _model("act", "recompute_grad=True,recurrence_backprop_steps=2")
    assert [v.path for v in plain.weights] == [v.path for v in other.weights]
    plain.save_weights(tmp_path / "plain.weights.h5")
    other.load_weights(tmp_path / "plain.weights.h5")
    for a, b in zip(plain.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
