"""Tests of every variant as a complete model.

`t2t_golden_test.py` compares the variants with T2T.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparam_schema, hparams, models
from ut_keras.metrics import losses
from ut_keras.ops import devices

# `VARIANTS` maps a name to (kind of model, overrides).
VARIANTS = {
    "highway": (
        "universal",
        "recurrence_type=highway,gates_inputs=sti,couple_carry_transform_gates=0,"
        "gate_ffn_layer=dense_dropconnect,dropconnect_dropout=0.2",
    ),
    "skip": ("universal", "recurrence_type=skip,gate_ffn_layer=dense_relu_dense"),
    "dwa": ("universal", "recurrence_type=dwa"),
    "gru": (
        "universal",
        "recurrence_type=gru,add_step_timing_signal=0,add_ffn_unit_to_the_transition_function=1",
    ),
    "lstm": (
        "universal",
        "recurrence_type=lstm,add_step_timing_signal=0,use_memory_as_final_state=1",
    ),
    "mixed": ("adaptive", "mix_with_transformer='before_ut,after_ut',num_mixedin_layers=1"),
    "sru": ("adaptive", "add_sru=1,num_inrecurrence_layers=2"),
    "relative": (
        "universal",
        "self_attention_type=dot_product_relative,max_relative_position=2,hard_attention_k=3",
    ),
    "causal_relative": (
        "language_model",
        "self_attention_type=dot_product_relative_v2,max_relative_position=2",
    ),
    "local": (
        "transformer",
        "self_attention_type=local_unmasked,block_length=2,ffn_layer=conv_relu_conv",
    ),
    "local_causal": ("adaptive", "self_attention_type=local_mask_right,block_length=2"),
    "parameters": ("transformer", "ffn_layer=parameter_attention"),
    "sru_transition": ("language_model", "ffn_layer=sru"),
    "injection": ("adaptive", "recurrence_input_injection=add,act_halted_state=copy"),
    "random_start": (
        "adaptive",
        "recurrence_input_injection=concat,recurrence_initial_state='normal(sigma=0.5)',"
        "recurrence_residual_scale=1/sqrt(N),layer_postprocess_sequence=dan,"
        "recurrence_fixed_point_loss_weight=0.1,act_halted_state=copy,"
        "num_rec_steps_sampling='lognormal_poisson(mean=2, sigma=0.5)'",
    ),
    "steps_by_length": ("adaptive", "num_rec_steps_sampling='by_length(factor=0.5)'"),
    "randomized_position": ("transformer", "pos=randomized,max_length=30"),
    "coupled": ("adaptive", "pos=coupled,add_position_timing_signal=0"),
    "rotary": ("universal", "pos=rotary,add_position_timing_signal=0"),
    "relative_xl": ("adaptive", "self_attention_type=dot_product_relative_xl"),
    "copy_gate": ("universal", "copy_gate=True,copy_gate_dropout=0.1"),
    "data_router": (
        "universal",
        "self_attention_type=geometric,geometric_normalize_score=0,copy_gate=1,"
        "copy_gate_activation=relu,ffn_postprocess_sequence=n,layer_preprocess_sequence=none,"
        "layer_postprocess_sequence=dan",
    ),
    "geometric": ("adaptive", "self_attention_type=geometric,act_halted_state=copy"),
    "modern": ("adaptive", "norm_type=rms,ffn_layer=swiglu"),
}


@functools.cache
def _shared(name):
    return examples.make(*VARIANTS[name])


def _features(name):
    return examples.features(VARIANTS[name][0])


# The tests of these variants are slow tests. The default run tests other variants with the same
# kind of loop, and the layers of these variants.
_LIKE_OTHERS = (
    *("skip", "gru", "relative", "local_causal", "parameters", "sru_transition", "steps_by_length"),
    *("randomized_position", "rotary", "relative_xl", "copy_gate", "modern"),
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in _LIKE_OTHERS)) for n in VARIANTS],
)
def test_variant_is_causal_and_ignores_length(name):
    """Later targets and padding have no effect, and single examples match the batch."""
    model, features = _shared(name), _features(name)
    before = model(features, training=False)
    assert model.decoder_is_causal
    targets = features["targets"].copy()
    targets[:, 2:] = (targets[:, 2:] + 5) % examples.V
    after = model({**features, "targets": targets}, training=False)
    np.testing.assert_allclose(before[:, :3], after[:, :3], atol=1e-5)
    assert np.abs(before[:, 3:] - after[:, 3:]).max() > 1e-3
    wider = {key: np.pad(value, [(0, 0), (0, 2)]) for key, value in features.items()}
    np.testing.assert_allclose(model(wider)[:, :4], before, atol=1e-5)
    row = {key: value[1:2] for key, value in features.items()}
    np.testing.assert_allclose(model(row)[0], before[1], atol=1e-5)


# These variants are slow tests, because keras_file_test.py covers similar models in the default
# run.
_KEPT_THERE = (
    *("dwa", "gru", "mixed", "sru", "local", "local_causal", "injection", "rotary", "modern"),
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in _KEPT_THERE)) for n in VARIANTS],
)
def test_variant_save_and_load(name, tmp_path):
    model, features = _shared(name), _features(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    paths = [variable.path for variable in model.trainable_variables]
    assert [variable.path for variable in loaded.trainable_variables] == paths
    np.testing.assert_array_equal(loaded(features), model(features))


@pytest.mark.slow
def test_variant_trains_with_xla():
    """A loop over positions inside the loop over steps is the most difficult case for XLA."""
    model = _shared("sru")
    features = {key: tf.constant(value) for key, value in _features("sru").items()}

    def gradients(features):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(features, training=False)))
        return tape.gradient(loss, model.trainable_variables)

    compiled = tf.function(gradients, jit_compile=True, autograph=False)(features)
    for variable, got, want in zip(
        model.trainable_variables, compiled, gradients(features), strict=True
    ):
        want = tf.convert_to_tensor(want)
        largest = np.abs(want).max()
        np.testing.assert_allclose(got, want, atol=1e-4 * largest, err_msg=variable.path)


def test_gates_carry_padding():
    """Coupled gates are 0 at padding, so the state of padding does not change.

    Separate gates are not 0 at padding.
    """
    for overrides, zero in (("", True), (",couple_carry_transform_gates=0", False)):
        model = examples.make("universal", "recurrence_type=highway" + overrides)
        assert model.encoder.depth.transform_gate.zero_at_padding is zero
        assert model.decoder.depth.transform_gate.zero_at_padding is False


def test_gates_start_by_carrying():
    hp = hparams.get("universal_transformer_highway_base", examples.SIZE)
    hp = hp.override("transform_bias_init=-2,couple_carry_transform_gates=0")
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 7})
    depth = model.decoder.depth
    np.testing.assert_array_equal(depth.transform_gate.map.bias, np.full(16, -2.0))
    np.testing.assert_array_equal(depth.carry_gate.map.bias, np.full(16, 2.0))


def test_hard_attention_layers_match_t2t():
    """Only the attention to the encoder is hard, not the causal relative self-attention."""
    overrides = "self_attention_type=dot_product_relative_v2,max_relative_position=2"
    model = examples.make("transformer", overrides + ",hard_attention_k=3")
    out = model.inspect(examples.features("transformer"))
    assert np.all(np.count_nonzero(out.decoder.attention_weights[..., 3, :], axis=-1) == 4)
    assert np.count_nonzero(out.decoder.memory_attention_weights, axis=-1).max() == 2


@pytest.mark.parametrize("recurrence_type", ["gru", "lstm"])
def test_recurrent_units_reject_step_signal(recurrence_type):
    with pytest.raises(hparam_schema.HParamError, match="add_step_timing_signal=False.*Received"):
        examples.make("universal", f"recurrence_type={recurrence_type}")


# With random numbers, XLA and TensorFlow compute other losses.
_RANDOM = ("highway", "random_start", "randomized_position", "coupled", "copy_gate")
_WITHOUT_DROPOUT = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,"


@pytest.mark.slow
@pytest.mark.parametrize("for_gpu", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in _RANDOM])
def test_xla_gives_the_same_loss_and_gradients(name, for_gpu, monkeypatch):
    """Under XLA, many layers compute values again in their gradients.

    In programs for a GPU, the loop over the steps is unrolled. A CPU runs these programs here.
    """
    kind, overrides = VARIANTS[name]
    model = examples.make(kind, _WITHOUT_DROPOUT + overrides)
    features = {key: tf.constant(value) for key, value in _features(name).items()}

    def step(features):
        with tf.GradientTape() as tape:
            output = model.forward(features, training=True)
            terms = model.loss_terms(output, features["targets"], True)
            loss = losses.total(terms)
        return [loss, *map(tf.convert_to_tensor, tape.gradient(loss, model.trainable_variables))]

    expected = tf.function(step, autograph=False)(features)
    monkeypatch.setattr(devices, "has_gpu", lambda: for_gpu)
    found = tf.function(step, autograph=False, jit_compile=True)(features)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-4 * np.abs(y).max() + 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("for_gpu", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize(
    "kind, overrides",
    [
        ("transformer", ""),
        ("universal", ""),
        ("adaptive", "act_halting_bias_init=5"),  # all positions halt before the last step
    ],
)
def test_xla_records_attention_and_residuals(kind, overrides, for_gpu, monkeypatch):
    model = examples.make(kind, overrides)
    features = {key: tf.constant(value) for key, value in examples.features(kind).items()}

    def recorded(features):
        output = model.inspect(features, training=False)
        decoder = output.decoder
        tensors = decoder.attention_weights, decoder.memory_attention_weights, decoder.residuals
        return [output.logits, *(x for x in tensors if x is not None)]

    expected = recorded(features)
    monkeypatch.setattr(devices, "has_gpu", lambda: for_gpu)
    found = tf.function(recorded, autograph=False, jit_compile=True)(features)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, atol=1e-5)
    num_steps = len(expected[-1])
    assert num_steps < 3 if kind == "adaptive" else num_steps == len(expected[1])


@pytest.mark.slow
def test_xla_computes_the_gradient_of_a_loop_that_records_attention():
    model = examples.make("universal", _WITHOUT_DROPOUT)
    features = {key: tf.constant(value) for key, value in examples.features("universal").items()}

    def gradients(features):
        with tf.GradientTape() as tape:
            loss = model.inspect(features, training=True).losses["training"]
        return tape.gradient(loss, model.trainable_variables)

    compiled = tf.function(gradients, autograph=False, jit_compile=True)(features)
    for found, want in zip(compiled, gradients(features), strict=True):
        want = tf.convert_to_tensor(want)
        np.testing.assert_allclose(found, want, atol=1e-4 * np.abs(want).max() + 1e-7)
