import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.layers.position import randomized_position_test
from tests.models import examples
from ut_keras import hparam
from ut_keras.layers.position import ends_position, timing_signal

S, D, L = 4, 6, 40
_WITHOUT = "attention_dropout=0,relu_dropout=0,layer_prepostprocess_dropout=0"
_TRANSFORMER = f"pos=randomized_ends,{_WITHOUT}"
_UNIVERSAL = f"{_TRANSFORMER},add_position_timing_signal=False"


def _layer(dtype="float32"):
    return ends_position.EndsPosition(L, dtype=dtype)


def _signals(first, last):
    """[S, D] of places [S]."""
    halves = [timing_signal.sinusoid(np.array(places), D // 2) for places in (first, last)]
    return np.concatenate(halves, axis=-1)


def test_layer_behaviors():
    layer_checks.check_layer(_layer, {"x": layer_checks.normal(2, S, D)}, num_weights=0)


def test_matches_reference():
    layer, x = _layer(), layer_checks.normal(2, S, D)
    alone = _signals([0, 2, 4, 6], [0, 2, 4, 6])
    np.testing.assert_allclose(layer(x), x + alone, atol=1e-6)
    np.testing.assert_allclose(layer(x[:, 2:3], tf.constant([2])), x[:, 2:3] + alone[2], atol=1e-6)
    # Of a source, a row of four and a row of three.
    real = np.array([[True] * 4, [True] * 3 + [False]])
    found = layer(x, padding_mask=real)
    np.testing.assert_allclose(found[0], x[0] + _signals([0, 2, 4, 6], [6, 4, 2, 0]), atol=1e-6)
    np.testing.assert_allclose(found[1, :3], x[1, :3] + _signals([0, 2, 4], [4, 2, 0]), atol=1e-6)
    # Padding in front, or before the question of a story: the real ones behind a position count.
    gaps = np.array([[False, True, True, True], [True, True, False, True]])
    found = layer(x, padding_mask=gaps)
    padded = (x[0] + _signals([0, 2, 4, 6], [0, 4, 2, 0]))[1:]
    np.testing.assert_allclose(found[0, 1:], padded, atol=1e-6)
    gapped = (x[1] + _signals([0, 2, 4, 6], [4, 2, 0, 0]))[[0, 1, 3]]
    np.testing.assert_allclose(tf.gather(found[1], [0, 1, 3]), gapped, atol=1e-6)
    drawn = layer(x, places=tf.constant([1, 2, 20, 39]), padding_mask=real)
    np.testing.assert_allclose(drawn[0], x[0] + _signals([1, 2, 20, 39], [39, 20, 2, 1]), atol=1e-6)
    layer.draw = lambda length: tf.constant([3, 4, 5, 6])
    np.testing.assert_allclose(
        layer(x, training=True), x + _signals([3, 4, 5, 6], [3, 4, 5, 6]), atol=1e-6
    )


def test_distribution():
    """As often near each other as far apart, and anywhere."""
    layer = _layer()
    drawn = randomized_position_test.many_draws(layer, S, rounds=2000)
    assert drawn.min() == 0 and drawn.max() == L - 1 and np.all(np.diff(drawn) > 0)
    # Of R places, S reach over (S - 1) / (S + 1) (R + 1) on average.
    reach = (drawn[:, -1] - drawn[:, 0]).mean()
    ranges = 2 * S * (L / 2 / S) ** ((np.arange(1000) + 0.5) / 1000)
    wanted = ((S - 1) / (S + 1) * (ranges.astype(int) + 1)).mean()
    np.testing.assert_allclose(reach, wanted, atol=0.8)
    np.testing.assert_allclose(drawn.mean(), (L - 1) / 2, atol=0.8)
    xla = tf.function(lambda x: layer.draw(tf.shape(x)[0]), jit_compile=True)
    among = xla(tf.zeros(S)).numpy()
    assert among.shape == (S,) and np.all(np.diff(among) > 0) and 0 <= among[0] <= among[-1] < L
    np.testing.assert_array_equal(layer.draw(tf.constant(50)), np.arange(50))
    assert layer.draw(tf.constant(L)).numpy().tolist() == list(range(L))


@pytest.mark.parametrize("kind", ["transformer", "universal", "encoder"])
def test_both_sides_of_a_model_have_the_places_that_were_drawn(kind, monkeypatch):
    model = examples.make(kind, _TRANSFORMER if kind == "transformer" else _UNIVERSAL)
    features = examples.features(kind)
    first, second = (model(features, training=True) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(model(features), model(features))
    # As many places as positions at inference: the same function.
    asked = []

    def draw(length):
        asked.append(int(length))
        return tf.range(length) * 2

    monkeypatch.setattr(model.source_position, "draw", draw)
    np.testing.assert_allclose(model(features, training=True), model(features), atol=1e-5)
    longest = max(features[name].shape[1] for name in model.input_features)
    assert asked == [longest]


def test_a_source_that_looks_back_only_is_refused():
    with pytest.raises(hparam.HParamError, match="needs unidirectional_encoder=False"):
        examples.make("transformer", f"{_TRANSFORMER},unidirectional_encoder=True")


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_each_end_needs_a_sine_and_a_cosine(width):
    overrides = f"{_TRANSFORMER},hidden_size={width},num_heads=1"
    if width >= 4:
        assert np.all(
            np.isfinite(examples.make("transformer", overrides)(examples.features("universal")))
        )
        return
    with pytest.raises(hparam.HParamError, match=f"width of 4 at least.* Received: {width}."):
        examples.make("transformer", overrides)
    with pytest.raises(hparam.HParamError, match="width of 4 at least"):
        _layer()(layer_checks.normal(2, S, width))


def test_packed_examples_are_refused():
    model = examples.make("transformer", _TRANSFORMER)
    ids = {"inputs": np.array([[2, 1, 3, 1]]), "targets": np.array([[3, 1, 2, 1]])}
    packed = {
        f"{name}_{kind}": np.array([values])
        for name in ids
        for kind, values in (("segmentation", [1, 1, 2, 2]), ("position", [0, 1, 0, 1]))
    }
    with pytest.raises(ValueError, match="one example in each. Received: packed examples"):
        model({**ids, **packed})
