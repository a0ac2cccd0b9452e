import numpy as np
import pytest

from tests.layers import layer_checks
from ut_keras.layers.basic import normalization, prepostprocess


@pytest.mark.parametrize(("sequence", "num_weights"), [("none", 0), ("n", 2), ("dan", 2)])
def test_layer_behaviors(sequence, num_weights):
    def call(layer, x, training=False):
        return layer(x, residual=x[:, :, ::-1], training=training)

    layer_checks.check_layer(
        lambda dtype: prepostprocess.PrePostProcess(sequence, dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4)},
        num_weights,
        call=call,
    )


def test_letters_are_applied_in_order():
    x, residual = layer_checks.normal(2, 3, 4), layer_checks.normal(2, 3, 4, seed=1)
    norm = normalization.LayerNormalization()
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


def test_dropout_comes_before_the_residual():
    x = np.ones((20, 20, 4), "float32")
    got = prepostprocess.PrePostProcess("da", 0.5)(x, residual=10 * x, training=True).numpy()
    assert set(np.unique(got)) == {10.0, 12.0}


def test_dropout_may_be_shared_by_positions():
    x = np.ones((20, 20, 4), "float32")
    layer = prepostprocess.PrePostProcess("d", 0.5, dropout_broadcast_dims=(1,))
    got = layer(x, training=True).numpy()
    np.testing.assert_array_equal(got, np.tile(got[:, :1], (1, 20, 1)))
    assert len(np.unique(got)) == 2


def test_unknown_letter():
    with pytest.raises(ValueError, match="made of 'n', 'd' and 'a'. Received: 'nx'"):
        prepostprocess.PrePostProcess("nx")
