import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.basic import prepostprocess
from ut_keras.ops import devices


@pytest.mark.parametrize(
    ("sequence", "num_weights"), [("none", 0), ("n", 2), ("dan", 2), ("nn", 4)]
)
def test_layer_behaviors(sequence, num_weights):
    def call(layer, x, training=False):
        return layer(x, residual=x[:, :, ::-1], training=training)

    layer_checks.check_layer(
        lambda dtype: prepostprocess.PrePostProcess(sequence, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights,
        call=call,
    )


def test_operations_are_applied_in_order():
    x, residual = layer_checks.normal(2, 3, 4), layer_checks.normal(2, 3, 4, seed=1)
    norm = prepostprocess.LayerNormalization()
    expected = {
        "none": x,
        "": x,
        "a": x + residual,
        "n": norm(x),
        "an": norm(x + residual),
        "na": norm(x) + residual,
        "da": x + residual,
    }
    for sequence, value in expected.items():
        got = prepostprocess.PrePostProcess(sequence, 0.5)(x, residual, training=False)
        np.testing.assert_allclose(got, value, atol=1e-6, err_msg=sequence)


@pytest.mark.parametrize("norm_type", ["layer", "rms"])
def test_norms_have_different_paths(norm_type):
    """A checkpoint names each variable by its path."""
    layer = prepostprocess.PrePostProcess("nan", norm_type=norm_type)
    layer.build((None, None, 4))
    folders = {variable.path.split("/")[-2] for variable in layer.variables}
    assert folders == {f"{norm_type}_norm", f"{norm_type}_norm_1"}


def test_dropout_precedes_residual():
    x = np.ones((20, 20, 4), "float32")
    got = prepostprocess.PrePostProcess("da", 0.5)(x, residual=10 * x, training=True).numpy()
    assert set(np.unique(got)) == {10.0, 12.0}


def test_dropout_broadcasts_over_positions():
    x = np.ones((20, 20, 4), "float32")
    layer = prepostprocess.PrePostProcess("d", 0.5, dropout_broadcast_dims=(1,))
    got = layer(x, training=True).numpy()
    np.testing.assert_array_equal(got, np.tile(got[:, :1], (1, 20, 1)))
    assert len(np.unique(got)) == 2


def test_sequence_rejects_unknown_letter():
    with pytest.raises(ValueError, match="sequence must .*'n', 'd' and 'a'. Received: 'nx'"):
        prepostprocess.PrePostProcess("nx")


def test_layer_norm_behaviors():
    layer_checks.check_layer(
        lambda dtype: prepostprocess.LayerNormalization(1e-3, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights=2,
        call=lambda layer, x, training=None: layer(x),
    )


def test_layer_norm_matches_reference():
    layer = prepostprocess.LayerNormalization(epsilon=0.1)
    layer.build((None, None, 5))
    layer_checks.shake(layer)
    x = 3 + 2 * layer_checks.normal(2, 3, 5)
    scale, bias = layer.get_weights()
    variance = ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True)
    expected = scale * (x - x.mean(-1, keepdims=True)) / np.sqrt(variance + 0.1) + bias
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_layer_norm_statistics_are_float32():
    # In bfloat16, the error of the mean would be larger than the standard deviation.
    x = 100 + np.float32([[0, 0.5, 1, 1.5] * 64])
    layer = prepostprocess.LayerNormalization(dtype="mixed_bfloat16")
    expected = (x - x.mean()) / x.std()
    np.testing.assert_allclose(np.float32(layer(x)), expected, atol=0.3)
    assert layer(x).dtype == "bfloat16"


def test_rms_norm_behaviors():
    layer_checks.check_layer(
        lambda dtype: prepostprocess.RMSNormalization(1e-3, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights=1,
        call=lambda layer, x, training=None: layer(x),
    )


def test_rms_norm_matches_reference():
    layer = prepostprocess.RMSNormalization(epsilon=0.1)
    layer.build((None, None, 5))
    layer_checks.shake(layer)
    x = 3 + 2 * layer_checks.normal(2, 3, 5)
    (scale,) = layer.get_weights()
    expected = scale * x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_rms_norm_mean_square_is_float32():
    x = np.float32([[256, 1] * 512])  # In bfloat16, 256² + 1 is rounded to 256².
    layer = prepostprocess.RMSNormalization(dtype="mixed_bfloat16")
    expected = x / np.sqrt((x**2).mean())
    np.testing.assert_allclose(np.float32(layer(x)), expected, rtol=0.01)
    assert layer(x).dtype == "bfloat16"


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_norm_for_gpus_has_few_casts(norm, monkeypatch):
    layer = prepostprocess.NORMS[norm](dtype="mixed_bfloat16")
    x = tf.constant([[2.0, -2.0] * 2], tf.bfloat16)
    layer.build(x.shape)
    layer.scale.assign([1.5] * 4)
    outputs, casts = [], []
    for has_gpu in (False, True):
        monkeypatch.setattr(devices, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        traced = tf.function(lambda: layer(x), autograph=False).get_concrete_function()
        outputs.append(float(traced()[0, 0]))
        casts.append([node.type for node in traced.graph.get_operations()].count("Cast"))
    assert outputs == [1.5, 1.5]
    assert casts[1] == 2 < casts[0]
