import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.metrics import losses

B, T, V = 3, 4, 7
TARGETS = np.array([[3, 5, 1, 0], [6, 1, 0, 0], [0, 0, 0, 0]], "int32")


def _smoothed_loss(logits, targets, smoothing):
    """Return the cross-entropy with smoothed labels minus the entropy of these labels.

    This is the loss of T2T.
    """
    confidence, low = 1 - smoothing, smoothing / (logits.shape[-1] - 1)
    labels = np.where(np.eye(logits.shape[-1])[targets] > 0, confidence, low)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    entropy = -(labels * np.log(labels + 1e-20)).sum(-1)
    return -(labels * log_probs).sum(-1) - entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("graph", [False, True])
def test_cross_entropy_matches_reference(smoothing, graph):
    logits = 3 * layer_checks.normal(B, T, V)
    weights = np.float32([[1, 2, 0.5, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    function = tf.function(losses.cross_entropy) if graph else losses.cross_entropy
    got = function(logits, tf.constant(TARGETS), smoothing, weights)
    expected = (_smoothed_loss(logits.astype("float64"), TARGETS, smoothing) * weights).sum()
    np.testing.assert_allclose(got.numerator, expected, rtol=1e-5)
    np.testing.assert_allclose(got.denominator, weights.sum())
    np.testing.assert_allclose(got.value(), expected / weights.sum(), rtol=1e-5)


def test_best_loss_is_zero():
    smoothing, targets = 0.1, tf.constant([[3]])
    best = np.where(np.arange(V) == 3, 0.9, 0.1 / (V - 1))
    term = losses.cross_entropy(np.float32(np.log(best))[None, None], targets, smoothing, 1.0)
    np.testing.assert_allclose(term.numerator, 0, atol=1e-5)
    for other in ([0.95, 0.05], [0.8, 0.2]):
        probs = np.where(np.arange(V) == 3, other[0], other[1] / (V - 1))
        logits = np.float32(np.log(probs))[None, None]
        assert losses.cross_entropy(logits, targets, smoothing, 1.0).numerator > 0.01


def test_bfloat16_logits_are_scored_in_float32():
    logits = tf.cast(3 * layer_checks.normal(B, T, V), tf.bfloat16)
    term = losses.cross_entropy(logits, tf.constant(TARGETS), 0.1, np.ones((B, T), "float32"))
    expected = _smoothed_loss(np.float64(tf.cast(logits, tf.float32)), TARGETS, 0.1).sum()
    assert term.numerator.dtype == "float32"
    np.testing.assert_allclose(term.numerator, expected, rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_xla_gives_the_same_loss_and_gradient(smoothing, dtype):
    logits = tf.cast(3 * layer_checks.normal(B, T, V), dtype)
    weights = layer_checks.normal(B, T) + 3

    def run():
        with tf.GradientTape() as tape:
            tape.watch(logits)
            term = losses.cross_entropy(logits, tf.constant(TARGETS), smoothing, weights)
        gradient = tape.gradient(term.numerator, logits)
        return term.numerator, tf.cast(gradient, tf.float32)

    loss, gradient = tf.function(run, autograph=False, jit_compile=True)()
    np.testing.assert_allclose(loss, run()[0], rtol=1e-5)
    tolerance = 1e-5 if dtype == "float32" else 2**-8
    np.testing.assert_allclose(gradient, run()[1], rtol=tolerance, atol=1e-6)


def test_padding_has_no_weight():
    logits = layer_checks.normal(B, T, V)
    changed = np.where((TARGETS != 0)[..., None], logits, 100 * logits)
    first, second = (losses.target_term(x, TARGETS, 0.1, False) for x in (logits, changed))
    np.testing.assert_array_equal(first.numerator, second.numerator)
    assert first.denominator == 5


def test_loss_of_padding_is_zero():
    term = losses.target_term(layer_checks.normal(B, T, V), np.zeros((B, T), "int32"), 0.1, False)
    assert term.denominator == 0
    assert term.value() == 0


def test_loss_counts_class_zero():
    logits, targets = layer_checks.normal(B, V), np.array([[0], [4], [0]])
    term = losses.target_term(logits, targets, 0.1, class_labels=True)
    np.testing.assert_allclose(
        term.numerator, _smoothed_loss(logits, targets[:, 0], 0.1).sum(), rtol=1e-5
    )
    assert term.denominator == B


def _term(numerator, denominator):
    return losses.LossTerm(tf.constant(numerator), tf.constant(denominator))


def test_total_sums_all_terms():
    terms = {"training": [_term(6.0, 3.0)], "act_loss": [_term(1.0, 4.0), _term(0.5, 0.25)]}
    assert losses.total(terms) == 2.0 + 0.25 + 2.0
    terms["weightless"] = [_term(0.0, 0.0)]
    assert losses.total(terms) == 2.0 + 0.25 + 2.0


@pytest.mark.parametrize("class_labels", [False, True])
def test_padded_cross_entropy(class_labels):
    loss = losses.PaddedCrossEntropy(0.1, class_labels)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert again.get_config() == loss.get_config()
    logits = layer_checks.normal(B, V) if class_labels else layer_checks.normal(B, T, V)
    targets = TARGETS[:, 1:2] if class_labels else TARGETS
    expected = losses.target_term(logits, targets, 0.1, class_labels).value()
    for each in (loss, again):
        got = each(targets, logits)
        assert got.shape == ()
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_targets_with_a_further_axis_raise_in_a_function_for_several_ranks():
    """Keras may trace one function for targets of several ranks, so the rank is then unknown."""

    @tf.function(input_signature=[tf.TensorSpec(None, tf.int32)])
    def loss(targets):
        return losses.target_term(tf.zeros([B, T, V]), targets, 0.0, False).value()

    np.testing.assert_allclose(loss(TARGETS), np.log(V), rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="3,4,1"):
        loss(TARGETS[..., None])


def test_targets_of_bool_raise():
    with pytest.raises(ValueError, match="Received: bool of shape"):
        losses.target_term(tf.zeros([B, T, V]), TARGETS > 0, 0.0, False)


@pytest.mark.parametrize(
    ("shape", "class_labels", "hint"),
    [
        ([B], True, r'astype\("int32"\)'),
        ([B, 1], True, r'astype\("int32"\)'),
        ([B, V], True, r"np.argmax\(targets, axis=-1\)"),
        ([B, T, V], False, r"np.argmax\(targets, axis=-1\)"),
        ([B, T], False, r"shape \(\d+, \d+\)\.$"),
    ],
)
def test_error_for_float_targets_says_how_to_convert_them(shape, class_labels, hint):
    logits = tf.zeros([B, V] if class_labels else [B, T, V])
    with pytest.raises(ValueError, match=f"Received: float32 .*{hint}"):
        losses.target_term(logits, tf.zeros(shape), 0.0, class_labels)
