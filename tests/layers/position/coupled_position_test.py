import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.models import examples
from ut_keras import hparam_schema
from ut_keras.layers.position import coupled_position

S, D, L, SEPARATOR = 4, 6, 20, 5
_WITHOUT = "attention_dropout=0,relu_dropout=0,layer_prepostprocess_dropout=0"


def _layer(dtype="float32", **kwargs):
    return coupled_position.CoupledPosition(L, dtype=dtype, **kwargs)


def _added(layer, **call):
    """Return the position ids, [B, S], whose vectors the layer adds."""
    ids = call.get("ids")
    x = np.zeros((1, S, D) if ids is None else (*np.shape(ids), D), np.float32)
    signals = layer(x, **call).numpy()
    table = np.array(layer.embedding)
    return np.abs(signals[:, :, np.newaxis] - table).sum(-1).argmin(-1)


def test_layer_behaviors():
    layer_checks.check_layer(_layer, {"x": layer_checks.normal(2, S, D)}, num_weights=1)


def test_matches_reference():
    layer, x = _layer(), layer_checks.normal(2, S, D)
    found = layer(x)
    np.testing.assert_allclose(found, x + np.array(layer.embedding)[:S], atol=1e-6)
    at = layer(x[:, 2:3], tf.constant([[2]]))  # as in a decoding step
    np.testing.assert_allclose(at, found[:, 2:3], atol=1e-6)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("same", [[0, 1, 2, 0, 1, 2, 0], [0, 1, 0, 1, 2, 3, 4]]),
        ("reversed", [[1, 0, 2, 1, 0, 2, 0], [0, 1, 2, 1, 0, 3, 3]]),
    ],
)
def test_source_ids_restart_in_each_segment(order, expected):
    """In both orders, a separator or EOS ends its segment and has the largest id in it."""
    ids = tf.constant([[7, 8, SEPARATOR, 9, 8, 1, 0], [7, SEPARATOR, 8, 8, 9, 1, 0]])
    found = _added(_layer(order=order, separator=SEPARATOR), ids=ids)
    real = ids.numpy() != 0
    np.testing.assert_array_equal(found[real], np.array(expected)[real])


def test_position_ids_repeat_after_the_last():
    assert _added(_layer(), positions=tf.constant([[L - 1, L, L + 1, 2 * L]])).tolist() == [
        [L - 1, 0, 1, 0]
    ]


def test_training_permutes_position_ids():
    layer = _layer()
    layer.build((None, None, D))
    sampled = layer.sample_position_ids(400).numpy()
    np.testing.assert_array_equal(np.sort(sampled, axis=-1), np.tile(np.arange(L), (400, 1)))
    # The first id of a permutation is uniformly distributed.
    counts = np.bincount(sampled[:, 0], minlength=L)
    assert counts.min() > 5 and counts.max() < 45
    backwards = tf.range(L)[tf.newaxis, ::-1]
    assert _added(layer, training=True, position_ids=backwards).tolist() == [[19, 18, 17, 16]]
    first, second = (_added(layer, training=True) for _ in range(2))
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("kind", ["transformer", "universal", "encoder"])
def test_both_sides_of_a_model_share_sampled_ids(kind, monkeypatch):
    overrides = f"pos=coupled,{_WITHOUT}"
    if kind != "transformer":
        overrides += ",add_position_timing_signal=False"
    model, features = examples.make(kind, overrides), examples.features(kind)
    first, second = (model(features, training=True) for _ in range(2))
    assert np.abs(first - second).max() > 1e-3
    lists = {name: np.asarray(ids).tolist() for name, ids in features.items()}
    np.testing.assert_array_equal(model(features), model.inspect(lists).logits)
    # If training uses the position ids of inference, training and inference give the same result.
    asked = []

    def sample(batch_size):
        asked.append(int(batch_size))
        return tf.tile(tf.range(model.source_position.places)[tf.newaxis], [batch_size, 1])

    monkeypatch.setattr(model.source_position, "sample_position_ids", sample)
    np.testing.assert_allclose(model(features, training=True), model(features), atol=1e-5)
    assert asked == [len(features["targets"])]


@pytest.mark.parametrize("last", [1, 3])  # An input ends with EOS (1) or without EOS (3).
def test_padding_has_no_effect(last):
    layer = _layer(order="reversed")
    ids = np.array([[7, 8, 9, last]])
    padded = np.pad(ids, [(0, 0), (0, 3)])
    np.testing.assert_array_equal(_added(layer, ids=padded)[:, :S], _added(layer, ids=ids))


@pytest.mark.parametrize("pos", ["order='up'", "separator=-1", "places=0"])
def test_coupled_position_rejects_bad_arguments(pos):
    message = f"The hparams must fit .*{pos.partition('=')[0]} must be .*Received: .*"
    with pytest.raises(hparam_schema.HParamError, match=message):
        examples.make("transformer", f'pos="coupled({pos})"')


def test_coupled_position_rejects_packed_examples_and_sentences():
    model = examples.make("transformer", "pos=coupled")
    ids = {"inputs": np.array([[2, 1, 3, 1]]), "targets": np.array([[3, 1, 2, 1]])}
    packed = {
        f"{name}_{kind}": np.array([values])
        for name in ids
        for kind, values in (("segmentation", [1, 1, 2, 2]), ("position", [0, 1, 0, 1]))
    }
    with pytest.raises(ValueError, match="Received: inputs_position"):
        model({**ids, **packed})
    with pytest.raises(ValueError, match=r"inputs must .*Received: \(1, 2, 3\)"):
        _layer()(np.zeros((1, 2, D), np.float32), ids=np.ones((1, 2, 3), np.int32))
