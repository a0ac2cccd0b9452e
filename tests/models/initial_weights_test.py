"""Initial weights have the distributions of T2T's initializers."""

import math

import numpy as np
import pytest

from tests import t2t_golden_test as t2t
from ut_keras import hparam_schema, models, t2t_import

# Together, these models have every kind of weight.
VARIANTS = (
    "aut_basic",
    "lstm_bahdanau_multi",
    "transformer_conv_relu_conv",
    "transformer_lm_relative_v2",
    "transformer_parameter_attention",
    "transformer_posemb",
    "transformer_relative",
    "ut_concat",
    "ut_dwa",
    "ut_encoder_class_sepconv",
    "ut_gru",
    "ut_highway_uncoupled",
    "ut_sru",
)
SIZES = {"hidden_size": 64, "filter_size": 128}
NOISE = 0.1  # the golden files add noise of this deviation to T2T's initial values


def _constant(name, hp):
    """Return the constant initial value of a weight, or None if the value is random."""
    if name.endswith("layer_norm_scale"):
        return 1.0
    if not name.endswith("bias"):
        return None
    if "pondering" in name:
        return hp.act_halting_bias_init
    owner = name.split("/")[-2]
    if "/gru/" in name:
        return 0.0 if owner == "candidate" else 1.0
    if "/dcgru_" in name:
        return {"reset_single": 0.5, "gate_single": 0.7}.get(owner, 0.0)
    if "/cgru_" in name:
        return 0.0 if owner == "candidate_single" else 1.0
    return {"transform": -1.0, "carry": 1.0}.get(owner, 0.0)


def _deviation(name, shape, hp):
    """Return the standard deviation of a random initial weight."""
    if "/weights_" in name:
        return hp.hidden_size**-0.5
    if name.endswith("parameter_attention/k"):
        return (hp.num_heads / hp.hidden_size) ** 0.5
    if name.endswith("parameter_attention/v"):
        return 1.0
    if name.endswith(("layer_embedding", "depth_embedding", "_relative_embeddings")):
        return shape[-1] ** -0.5
    # The other weights use the initializer `uniform_unit_scaling`.
    if len(shape) == 1:
        return (hp.initializer_gain / shape[0]) ** 0.5
    field = math.prod(shape[:-2])
    return (hp.initializer_gain / (field * (shape[-2] + shape[-1]) / 2)) ** 0.5


def _pooled(variables):
    """Return the weights after joining the shards of each table."""
    tables = {}
    for name, value in variables.items():
        tables.setdefault(
            name.split("/weights_")[0] + "/weights_" * ("/weights_" in name), []
        ).append(value)
    return {name: np.concatenate(values) for name, values in tables.items()}


def _check(variables, hp, noise=0.0):
    kinds = set()
    for name, value in _pooled(variables).items():
        constant = _constant(name, hp)
        if constant is not None:
            assert np.abs(value - constant).max() <= 6 * noise, name
            continue
        expected = math.hypot(_deviation(name, value.shape, hp), noise)
        # The tolerance is six standard errors of the estimated deviation.
        tolerance = 6 * expected * (2 * value.size) ** -0.5
        assert np.sqrt(np.mean(value**2)) == pytest.approx(expected, abs=tolerance), name
        kinds.add(name.split("/")[-1])
    return kinds


def _fresh(name, overrides):
    setting, arrays = t2t._load("model", name + ".a")
    specs = t2t_import._read_specs(setting["model"], t2t._group(arrays, "var/"))
    values = t2t._t2t_hparams(setting)
    sizes = {key: size for key, size in SIZES.items() if key in values}
    hp = hparam_schema.from_dict({**values, **sizes, **overrides})
    return models.from_specs(setting["model"], hp, specs, target_space_id=1)


@pytest.mark.parametrize("name", t2t._configurations("model"))
def test_formulas_match_t2t(name):
    """T2T's initial values have the expected deviations."""
    setting, arrays = t2t._load("model", name)
    variables = t2t._group(arrays, "var/")
    for kernel in [key for key in variables if key.endswith("pondering/dense/kernel")]:
        del variables[kernel]  # the golden files scale these kernels down
    _check(variables, hparam_schema.from_dict(t2t._t2t_hparams(setting)), noise=NOISE)


@pytest.mark.parametrize("name", VARIANTS)
def test_initial_weights_match_formulas(name):
    model = _fresh(name, {"initializer_gain": 0.5})
    assert _check(t2t_import.export_variables(model), model.hparams)
    drawn = [v.numpy() for v in model.trainable_variables if np.std(v.numpy()) > 0]
    for number, value in enumerate(drawn):
        for other in drawn[:number]:
            assert value.shape != other.shape or np.abs(value - other).max() > 1e-3


def _kernel(initializer):
    overrides = {"initializer": initializer, "initializer_gain": 0.5}
    variables = t2t_import.export_variables(_fresh("ut_basic_fc", overrides))
    table = "universal_transformer/body/target_space_embedding/kernel"  # its shape is [32, 64]
    ffn = "universal_transformer/body/encoder/universal_transformer_basic/rec_layer_0/ffn/conv1"
    return variables[f"{ffn}/kernel"], variables[table]


@pytest.mark.parametrize(
    ("initializer", "deviations", "bound"),
    [
        # The deviations are (0.5 / ((64 + 128) / 2))^0.5 and (0.5 / ((32 + 64) / 2))^0.5. The bound
        # is the largest absolute value in the kernel.
        ("uniform_unit_scaling", (0.0722, 0.1021), 0.0722 * 3**0.5),
        ("normal_unit_scaling", (0.0722, 0.1021), 0.0722 / 0.8796 * 2),
        ("uniform", (0.0289, 0.0289), 0.05),
        ("xavier", (0.1021, 0.1443), 0.1021 * 3**0.5),
    ],
)
def test_initializers_match_t2t(initializer, deviations, bound):
    kernel, table = _kernel(initializer)
    assert np.std(kernel) == pytest.approx(deviations[0], rel=0.04)
    assert np.std(table) == pytest.approx(deviations[1], rel=0.08)
    assert 0.95 * bound < np.abs(kernel).max() <= 1.001 * bound
    within_half = np.mean(np.abs(kernel) < bound / 2)  # a uniform distribution gives 0.5
    assert within_half == pytest.approx(
        0.715 if initializer.startswith("normal") else 0.5, abs=0.03
    )


def test_orthogonal_initializer():
    kernel, table = _kernel("orthogonal")
    for value in (kernel, table):
        np.testing.assert_allclose(value @ value.T, 0.25 * np.eye(len(value)), atol=1e-5)
