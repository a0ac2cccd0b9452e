"""Tests of sample weights in `fit`, `evaluate` and the trainer.

The loss is sum(weights * loss) / sum(weights).
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import metrics
from ut_keras.metrics import keras_metrics, losses
from ut_keras.models import universal_transformer
from ut_keras.training import evaluation, train_step

KINDS = ("universal", "adaptive", "encoder", "lstm_classifier")
NO_DROPOUT = "layer_prepostprocess_dropout=0.0,attention_dropout=0.0,relu_dropout=0.0"
# The targets are [3, 8, 2, 1], [6, 1, 0, 0], [2, 12, 1, 0]. Weights of padding must have no effect.
ROWS = np.float32([2, 0, 0.5])
TOKENS = np.float32([[1, 0, 3, 1], [0.5, 2, 9, 9], [0, 0, 0, 9]])


@functools.cache
def _compiled(kind):
    """Return a model and its initial weights.

    The model runs eagerly, because tracing is slow.
    """
    size = "dropout=0.0" if "lstm" in kind else NO_DROPOUT
    model = examples.make(kind, size + ",label_smoothing=0.1")
    model.compile(optimizer=keras.optimizers.SGD(0.5), run_eagerly=True)
    return model, model.get_weights()


def _batch(kind):
    features = examples.features(kind)
    return features, features["targets"]


def _update(kind, batch=None, **weights):
    """Return the results of `train_on_batch`, and the variables after the update."""
    model, start = _compiled(kind)
    model.set_weights(start)
    logs = model.train_on_batch(*(batch or _batch(kind)), return_dict=True, **weights)
    return logs, [variable.numpy() for variable in model.trainable_variables]


def _assert_same(one, other, atol=0.0):
    assert one[0] == pytest.approx(other[0], abs=atol)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def _differ(one, other):
    return any(np.abs(a - b).max() > 1e-3 for a, b in zip(one[1], other[1], strict=True))


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k == "universal")) for k in KINDS]
)
def test_sample_weight_of_examples(kind):
    plain = _update(kind)
    _assert_same(_update(kind, sample_weight=np.ones(3)), plain)
    _assert_same(_update(kind, sample_weight=np.ones((3, 1))), plain)
    _assert_same(_update(kind, sample_weight=4 * np.ones(3)), plain)  # scaling by 4 is exact

    weighted = _update(kind, sample_weight=ROWS)
    assert _differ(weighted, plain)
    assert _differ(weighted, _update(kind, sample_weight=ROWS[::-1].copy()))
    # An example with weight 0 has no effect, even if its ids change or if it is removed.
    features, targets = ({**_batch(kind)[0]}, _batch(kind)[1].copy())
    targets[1] = targets[0]
    changed = {name: ids.copy() for name, ids in features.items()}
    for ids in changed.values():
        ids[1] = ids[0]
    _assert_same(_update(kind, (changed, targets), sample_weight=ROWS), weighted)
    kept = ({name: ids[[0, 2]] for name, ids in features.items()}, _batch(kind)[1][[0, 2]])
    _assert_same(_update(kind, kept, sample_weight=ROWS[[0, 2]]), weighted, atol=1e-6)


def test_sample_weight_of_tokens():
    plain = _update("adaptive")
    _assert_same(_update("adaptive", sample_weight=np.ones((3, 4))), plain)
    weighted = _update("adaptive", sample_weight=TOKENS)
    assert _differ(weighted, plain)
    real = _batch("adaptive")[1] != 0
    _assert_same(_update("adaptive", sample_weight=TOKENS * real), weighted)


def _reference(model, features, targets, weights):
    """Return the expected loss and accuracy. NumPy computes the weighted means."""
    output = model.forward(features, training=False)
    log_probs = np.float64(tf.nn.log_softmax(output.logits))
    values = -np.take_along_axis(log_probs, targets[..., np.newaxis], -1)[..., 0]
    correct = log_probs.argmax(-1) == targets
    weights, ponder = weights * (targets != 0), 0.0
    rows = weights.max(axis=1, keepdims=True)
    for stack in (output.encoder, output.decoder):
        cost = stack.ponder_times.numpy() + stack.remainders.numpy()
        ponder += 0.01 * (cost * rows).sum() / (rows * np.ones_like(cost)).sum()
    loss = (values * weights).sum() / weights.sum() + ponder
    return {"loss": loss, "accuracy": (correct * weights).sum() / weights.sum()}


@pytest.mark.parametrize("weights", [ROWS, TOKENS])
def test_evaluate_weighs_over_all_batches(weights):
    """The weighted mean is over all targets. The division into batches has no effect."""
    model, start = _compiled("adaptive")
    model.set_weights(start)
    assert model.hparams.act_loss_weight == 0.01
    features, targets = _batch("adaptive")
    by_token = np.broadcast_to(weights.reshape(3, -1), (3, 4))
    expected = _reference(model, features, targets, by_token)
    got = model.evaluate(
        features, targets, sample_weight=weights, batch_size=2, verbose=0, return_dict=True
    )
    assert {name: got[name] for name in expected} == pytest.approx(expected, rel=1e-5)

    dataset = tf.data.Dataset.from_tensor_slices((features, targets, weights)).batch(2)
    functions = {name: metrics.get(name) for name in metrics.names()}
    evaluate = evaluation.Evaluator(model, tf.distribute.get_strategy(), functions)
    results = evaluate(dataset)
    assert {name: results[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    # For every metric, an example with weight 0 has no effect. The test does not compare BLEU,
    # because BLEU depends on the division into batches.
    real = (by_token * (targets != 0)).any(axis=1)
    kept = tf.nest.map_structure(lambda x: x[real], (features, targets, weights))
    without = evaluate(tf.data.Dataset.from_tensors(kept))
    del results["approx_bleu_score"], without["approx_bleu_score"]
    del results["ponder_time"], without["ponder_time"]  # ponder time measures the model's work
    assert results == pytest.approx(without, rel=1e-5)


def test_weighted_metrics():
    features, targets = _batch("universal")
    model = examples.make("universal")
    model.compile(
        metrics=[keras_metrics.SumOverCount("accuracy")],
        weighted_metrics=[keras_metrics.SumOverCount("accuracy_top5")],
    )
    got = model.evaluate(features, targets, sample_weight=TOKENS, verbose=0, return_dict=True)
    logits = model(features)
    for name, weights in (("accuracy", None), ("accuracy_top5", TOKENS)):
        total, count = metrics.get(name)(logits, targets, weights)
        assert got[name] == pytest.approx(float(total / count), rel=1e-5)


def test_class_weight_of_ids():
    """A class weight applies to each token whose id is the class.

    Keras itself would treat an example of several tokens as one class.
    """
    weights = {1: 3.0, 2: 0.0}
    targets = _batch("universal")[1]
    by_token = np.select([targets == 1, targets == 2], [3.0, 0.0], 1.0)
    expected = _update("universal", sample_weight=by_token)
    _assert_same(_update("universal", class_weight=weights), expected)
    # Keras itself raises an error for a class without a weight.
    classes = examples.CLASSES[:, 0]
    expected = _update("encoder", sample_weight=np.where(classes == 0, 5.0, 1.0))
    _assert_same(_update("encoder", class_weight={0: 5.0}), expected)

    model, start = _compiled("universal")
    model.set_weights(start)
    model.fit(*_batch("universal"), None, 1, 0, None, 0.0, None, False, weights)
    fitted = [variable.numpy() for variable in model.trainable_variables]
    for a, b in zip(fitted, _update("universal", sample_weight=by_token)[1], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    with pytest.raises(ValueError, match=r"ids in \[0, 13\). Received: 13"):
        model.fit(*_batch("universal"), class_weight={13: 1.0}, verbose=0)
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match="class_weight and sample_weight"):
            train(*_batch("universal"), sample_weight=np.ones(3), class_weight=weights)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_negative_or_infinite_weights_raise(wrong):
    """With the default loss, weights of -1 would train as weights of 1."""
    model, _ = _compiled("universal")
    weights = np.array([1.0, 0.0, wrong])
    match = rf"sample_weight must be finite and at least 0.*Received: {wrong}\."
    for method in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match=match):
            method(*_batch("universal"), sample_weight=weights)
    for method in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match=rf"class_weight must be .*Received: {wrong}\."):
            method(*_batch("universal"), class_weight={3: wrong})
    model = examples.make("universal", NO_DROPOUT)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile("sgd", loss, metrics=[], run_eagerly=True)
    for sign in (-1.0, 1.0):
        got = model.test_on_batch(*_batch("universal"), sample_weight=np.full(3, sign))
        assert np.sign(got) == sign


_FEWER = r"weight for each of the 3 examples\. Received: an array of shape"


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.array([1, None, 0]), "real numbers .*Received: NoneType and int, dtype object"),
        (np.array(["1", "2", "0"]), "real numbers .*Received: str, dtype <U1"),
        (np.array([1, 2, 1j]), "real numbers .*Received: complex, dtype complex128"),
        (np.array([1, 2, 1e39]), "be finite .*Received: inf"),
        (np.ones((1, 4)), _FEWER),
        (np.ones(1), _FEWER),
        (np.ones(()), _FEWER),
        (tf.ragged.constant([[1.0], [1, 2], [3]]), "Received: a RaggedTensor"),
    ],
)
def test_invalid_sample_weights_raise(weights, match):
    """TensorFlow would use a single weight for all examples. With 1e39, the loss would be NaN."""
    model, _ = _compiled("universal")
    for method in (model.fit, model.evaluate, model.train_on_batch, model.test_on_batch):
        with pytest.raises(ValueError, match=f"^sample_weight must .*{match}"):
            method(*_batch("universal"), sample_weight=weights)


@pytest.mark.parametrize(
    "dtype", ["int64", "uint8", "bool", "float16", "object", tf.bfloat16.as_numpy_dtype]
)
def test_sample_weights_may_have_every_numeric_dtype(dtype):
    weights = np.array([1, 0, 1]).astype(dtype)
    expected = _update("universal", sample_weight=np.float32([1, 0, 1]))
    _assert_same(_update("universal", sample_weight=weights), expected)


@pytest.mark.parametrize(
    ("class_weight", "match"),
    [
        ([1.0, 2.0], "must be a dict .*Received: list"),
        ({"3": 2.0}, "must have ints as keys. Received: '3'"),
        ({1.5: 2.0}, "must have ints as keys. Received: 1.5"),
        ({3: "2"}, "must contain real numbers .*Received: str"),
        ({3: None}, "must contain real numbers .*Received: NoneType"),
    ],
)
def test_invalid_class_weights_raise(class_weight, match):
    model, _ = _compiled("universal")
    for method in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match=f"^class_weight {match}"):
            method(*_batch("universal"), class_weight=class_weight)


def test_negative_weight_in_a_dataset_gives_nan():
    """A graph cannot raise an error on every device. Weights of padding have no effect."""
    targets = tf.constant([[3, 1, 0], [4, 1, 0]])
    logits = tf.zeros([2, 3, 13])
    for negative, is_nan in (([[1.0, -1, 1], [1, 1, 1]], True), ([[1.0, 1, -1], [1, 1, 1]], False)):
        term = losses.target_term(logits, targets, 0.0, False, tf.constant(negative))
        assert bool(tf.math.is_nan(term.numerator)) == is_nan


class OwnTrainStep(universal_transformer.UniversalTransformerEncoder):
    """A model with a train step as in the guides of Keras."""

    def train_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self.compute_loss(x, y, logits, weights)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.compute_metrics(x, y, logits, weights)


def test_train_step_of_a_subclass_gets_class_weights():
    plain = examples.make("tagger", NO_DROPOUT)
    features, targets = _batch("tagger")
    by_token = np.where(targets == 3, 5.0, 1.0)
    losses_of_fit = []
    for weights in ({"class_weight": {3: 5.0}}, {"sample_weight": by_token}, {}):
        model = OwnTrainStep.from_hparams(plain.hparams, plain.specs)
        model.set_weights(plain.get_weights())
        model.compile("sgd", run_eagerly=True)
        history = model.fit(features, targets, verbose=0, **weights)
        losses_of_fit += history.history["loss"]
    assert losses_of_fit[0] == pytest.approx(losses_of_fit[1], rel=1e-6)
    assert losses_of_fit[0] != pytest.approx(losses_of_fit[2], rel=1e-2)
    with pytest.raises(ValueError, match="class_weight and sample_weight"):
        model.fit(features, targets, sample_weight=by_token, class_weight={3: 5.0}, verbose=0)
    assert "train_step" not in vars(model)


def test_fit_and_trainer_accept_weights_in_dataset():
    """A dataset of (features, targets, weights) gives the same update in fit and trainer."""
    model, start = _compiled("language_model")
    model.run_eagerly = False
    model.train_function = None
    dataset = tf.data.Dataset.from_tensor_slices((*_batch("language_model"), TOKENS)).batch(3)
    model.set_weights(start)
    model.fit(dataset, verbose=0, shuffle=False)
    fitted = [variable.numpy() for variable in model.trainable_variables]
    model.run_eagerly = True
    model.train_function = None
    expected = _update("language_model", sample_weight=TOKENS)[1]

    model.set_weights(start)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    step = train_step.make_train_step(model, model.optimizer, strategy, dataset.element_spec)
    result = step(next(iter(dataset)))
    assert (
        float(result.sequences)
        == TOKENS.max(axis=1, where=_batch("language_model")[1] != 0, initial=0).sum()
    )
    trained = [variable.numpy() for variable in model.trainable_variables]
    for a, b, c in zip(expected, fitted, trained, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-6)
        np.testing.assert_allclose(c, a, atol=1e-6)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean_with_sample_weight"])
def test_sample_weight_with_keras_losses(reduction):
    """Each weight applies to one example. Keras itself would multiply [B, T] by [B]."""
    model = examples.make("universal")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=reduction)
    # The test uses one reduction in eager mode and the other reduction in a graph.
    model.compile(loss=loss, metrics=[], run_eagerly="weight" in reduction)
    features, _ = _batch("universal")
    square = {
        name: ids[[0, 1, 2, 0]] for name, ids in features.items()
    }  # the batch has as many examples as positions
    rows, tokens = np.float32([2, 0, 0.5, 1]), np.concatenate([TOKENS, TOKENS[:1]])
    log_probs = np.float64(tf.nn.log_softmax(model(square)))
    values = -np.take_along_axis(log_probs, square["targets"][..., np.newaxis], -1)[..., 0]
    for weights in (rows, tokens):
        by_token = np.broadcast_to(weights.reshape(4, -1), (4, 4))
        divisor = by_token.sum() if "weight" in reduction else values.size
        got = model.evaluate(square, square["targets"], sample_weight=weights, verbose=0)
        assert got == pytest.approx((values * by_token).sum() / divisor, rel=1e-5)


def test_targets_and_weights_in_containers():
    """Keras accepts a list, tuple or dict of one array. Weights [1, B] are not weights [B, T]."""
    features, _ = _batch("universal")
    square = {name: ids[[0, 1, 2, 0]] for name, ids in features.items()}
    targets, rows = square["targets"], np.float32([2, 0, 0.5, 1])
    expected = _update("universal", (square, targets), sample_weight=rows)
    for y, weights in ((targets, [rows]), ([targets], (rows,)), (targets, {"output": rows})):
        _assert_same(_update("universal", (square, y), sample_weight=weights), expected)
    with pytest.raises(ValueError, match="y must be an array.* Received: a list with 2 elements"):
        _update("universal", (square, [targets, targets]), sample_weight=rows)

    model = examples.make("universal")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, metrics=[], run_eagerly=True)
    expected = model.test_on_batch(square, targets, rows)
    assert model.test_on_batch(square, [targets], [rows]) == expected


@pytest.mark.parametrize("shape", [(3, 5), (3, 4, 1)])
def test_sample_weight_rejects_shapes(shape):
    with pytest.raises(ValueError, match="Weights must have the shape"):
        _update("universal", sample_weight=np.ones(shape))


@pytest.mark.parametrize(
    ("kind", "overrides", "make"),
    [
        ("encoder", "", lambda targets: np.eye(4, dtype=int)[targets[:, 0]]),
        ("encoder", "act_type=ponder_net", lambda targets: np.eye(4, dtype=int)[targets[:, 0]]),
        ("tagger", "", lambda targets: targets[:, :2]),
        ("tagger", "act_type=ponder_net", lambda targets: targets[:, 0]),
    ],
)
def test_fit_rejects_shapes_of_targets(kind, overrides, make):
    model, features = examples.make(kind, overrides), examples.features(kind)
    model.compile("sgd")
    expected = 1 if kind == "encoder" else 5
    advice = "np.argmax" if kind == "encoder" else ""
    message = rf"Targets must be \[batch, {expected}\] ids.* Received.*{advice}"
    with pytest.raises(ValueError, match=message):
        model.fit({"inputs": features["inputs"]}, make(features["targets"]), verbose=0)


def test_sample_weight_of_several_ranks():
    """Keras traces a function with an unknown rank if calls have several shapes."""
    model, _ = _compiled("encoder")
    features, targets = _batch("encoder")
    logits = model(features)

    @tf.function(
        input_signature=[tf.TensorSpec(None, tf.int32), tf.TensorSpec(None)], autograph=False
    )
    def measure(targets, weights):
        loss = losses.PaddedCrossEntropy(class_labels=True)(targets, logits, weights)
        return (loss, *metrics.get("accuracy")(logits, targets, weights))

    expected = measure(targets, ROWS[:, np.newaxis])
    for some, weights in ((targets[:, 0], ROWS), (targets, ROWS)):
        np.testing.assert_array_equal(measure(some, weights), expected)


def test_targets_of_classes_may_be_vectors():
    """Targets [B] and [B, 1] give the same result."""
    features, targets = _batch("encoder")
    flat = ({**features, "targets": targets[:, 0]}, targets[:, 0])
    _assert_same(_update("encoder", flat), _update("encoder"))
    _assert_same(
        _update("encoder", flat, sample_weight=ROWS), _update("encoder", sample_weight=ROWS)
    )
    for kind in ("encoder", "classifier"):
        model = examples.shared(kind)
        whole = model.inspect(features)
        without = model.inspect(flat[0])
        np.testing.assert_array_equal(whole.logits, without.logits)
        assert float(whole.losses["training"]) == float(without.losses["training"])
        for name in ("accuracy", "accuracy_top5", "neg_log_perplexity"):
            metric = metrics.get(name)
            assert metric(whole.logits, targets) == metric(whole.logits, flat[1])
