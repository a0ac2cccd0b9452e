"""The loss, as the trainer, `fit` and `inspect` compute it.

Each term of the loss is a pair of a numerator and a denominator. Each replica divides its numerator
by the sum of the denominators of all replicas, so every token has the same weight. If each replica
computed a mean instead, the weight of a token would depend on the number of tokens on its replica.

The data may contain weights [B] or [B, 1] of examples, or weights [B, T] of targets. Both the
numerator and the denominator are weighted, so the loss is

    sum(weights * losses) / sum(weights)          over real targets

as with T2T's `weights_fn`. Padding has weight 0. Weights of 1 have no effect, and doubling all
weights has no effect. If an example has weight 0, neither its targets nor its ponder cost
contribute to the loss. See `metrics.weights`.
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.metrics import weights as weights_lib
from ut_keras.ops import custom_gradient, log_softmax, maximum, private_api
from ut_keras.ops.loss_term import LossTerm


def of_all_replicas(terms: Mapping[str, list[LossTerm]]) -> dict[str, list[LossTerm]]:
    """Return the terms with denominators that are summed over the replicas.

    If a numerator is divided by its summed denominator, the quotient is this replica's share of the
    loss. The sum of the replicas' gradients is the gradient of the complete batch.
    """
    denominators = {name: [tf.stop_gradient(t.denominator) for t in terms[name]] for name in terms}
    return with_denominators(terms, sum_over_replicas(denominators))


def with_denominators(
    terms: Mapping[str, list[LossTerm]], denominators: Mapping[str, list[tf.Tensor]]
) -> dict[str, list[LossTerm]]:
    """Return the terms with other denominators."""
    return {
        name: [
            term._replace(denominator=denominator)
            for term, denominator in zip(terms[name], denominators[name], strict=True)
        ]
        for name in terms
    }


def sum_over_replicas(nest: Any) -> Any:
    """Sum every float32 scalar of a nest over the replicas, with a single all-reduce."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return nest
    scalars = tf.stack(tf.nest.flatten(nest))
    summed = tf.unstack(context.all_reduce(tf.distribute.ReduceOp.SUM, scalars))
    return tf.nest.pack_sequence_as(nest, summed)


def total(terms: Mapping[str, list[LossTerm]]) -> tf.Tensor:
    """Return the sum of all terms."""
    return tf.add_n([term.value() for parts in terms.values() for term in parts])


def cross_entropy(
    logits: tf.Tensor, targets: tf.Tensor, label_smoothing: float, weights: tf.Tensor
) -> LossTerm:
    """Compute softmax cross-entropy with T2T's label smoothing.

    The target has the probability 1 - s, and every other token has the probability s / (V - 1). The
    function subtracts the entropy of this distribution, so that the best loss is 0. With
    q = softmax(logits), the loss is

        -log q_target + s V / (V - 1) · (logit_target - mean(logits)) - entropy

    This form does not need the [..., V] tensor of smoothed labels.

    Args:
        logits: float tensor [..., V].
        targets: int tensor [...].
        label_smoothing: float s in [0, 1).
        weights: float tensor [...], usually 1 at real targets and 0 at padding.

    Returns:
        `LossTerm` of the weighted sum of the losses and the sum of the weights.

    References: T2T `common_layers.padded_cross_entropy`, `smoothing_cross_entropy`.
    """
    losses = _smoothed_cross_entropy(logits, targets, label_smoothing)
    return LossTerm(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))


def _smoothed_cross_entropy(logits, targets, label_smoothing):
    """Return the losses, float32 [...], of logits [..., V].

    The function implements the gradient explicitly, with a single computation over [..., V]:

        d loss / d logits = softmax(logits) - onehot + s V / (V - 1) (onehot - 1 / V)
    """
    size = logits.shape[-1]
    spread = label_smoothing * size / (size - 1)
    entropy = _entropy(label_smoothing, size) if label_smoothing else 0.0
    flat_targets = tf.reshape(targets, [-1])
    form = _losses_under_xla if private_api.is_compiled_by_xla() else _losses_without_xla

    @custom_gradient.wrap
    def losses_of(flat_logits):
        return form(flat_logits, flat_targets, spread, entropy)

    return tf.reshape(losses_of(tf.reshape(logits, [-1, size])), tf.shape(targets))


def _losses_without_xla(logits, targets, spread, entropy):
    """Return (losses, gradient function) of logits [N, V] and targets [N]."""
    exact, size = tf.cast(logits, tf.float32), logits.shape[-1]
    softmax = tf.nn.softmax(exact)
    largest, share = tf.reduce_max(exact, -1), tf.reduce_max(softmax, -1)
    normalizer = log_softmax.normalizer(largest, share)

    def gradient(upstream):
        gradient_of_others = softmax - spread / size if spread else softmax
        gradients = upstream[:, tf.newaxis] * gradient_of_others
        indices = tf.stack([tf.range(tf.size(targets)), targets], axis=1)
        gradients = tf.tensor_scatter_nd_add(gradients, indices, (spread - 1) * upstream)
        return tf.cast(gradients, logits.dtype)

    return _loss_of_each_target(exact, targets, normalizer, spread, entropy), gradient


def _losses_under_xla(logits, targets, spread, entropy):
    """Return the results of `_losses_without_xla`, in a form that XLA can combine.

    XLA stores no float32 tensor [N, V]. The operations that read the softmax compute it from the
    logits.
    """
    exact, size = tf.cast(logits, tf.float32), logits.shape[-1]
    largest = tf.reduce_max(exact, axis=-1, keepdims=True)
    total = tf.reduce_sum(tf.exp(exact - largest), axis=-1, keepdims=True)
    normalizer = (largest + tf.math.log(total))[:, 0]

    def gradient(upstream):
        softmax = tf.exp(tf.cast(logits, tf.float32) - largest) / total
        is_target = tf.range(size, dtype=targets.dtype) == targets[:, tf.newaxis]
        gradients = softmax - spread / size + tf.where(is_target, spread - 1, 0.0)
        return tf.cast(upstream[:, tf.newaxis] * gradients, logits.dtype)

    return _loss_of_each_target(exact, targets, normalizer, spread, entropy), gradient


def _loss_of_each_target(logits, targets, normalizer, spread, entropy):
    """Return the losses [N] of float32 logits [N, V] with normalizers [N]."""
    target_logits = log_softmax.take(logits, targets)
    losses = normalizer - target_logits
    if spread:
        losses += spread * (target_logits - tf.reduce_mean(logits, axis=-1)) - entropy
    return losses


@keras.saving.register_keras_serializable(package="ut_keras")
class PaddedCrossEntropy(keras.losses.Loss):
    """`cross_entropy` as the loss of `model.compile`: one scalar per batch.

        loss = PaddedCrossEntropy(label_smoothing=0.1)
        loss(np.array([[2, 1, 0]]), np.zeros([1, 3, 4], "float32"))     # 0.9514, padding ignored

    Args:
        label_smoothing: float in [0, 1).
        class_labels: bool. If True, the targets are classes [B] or [B, 1], and 0 is a class. If
            False, the targets are tokens [B, T], and 0 is padding.

    Call arguments:
        y_true: int [B, T]. For classes, int [B] or [B, 1].
        y_pred: logits [B, T, V]. For classes, logits [B, C].
        sample_weight: float [B], [B, 1] or [B, T]. The loss is the sum of the weighted losses of
            the real targets, divided by the sum of their weights. Optional.
    """

    def __init__(
        self,
        label_smoothing: float = 0.0,
        class_labels: bool = False,
        name: str = "loss",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=None, **kwargs)
        self.label_smoothing = label_smoothing
        self.class_labels = class_labels

    def __call__(
        self, y_true: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> tf.Tensor:
        # This method overrides `__call__` and not only `call`, because Keras would multiply the
        # scalar that `call` returns by every weight.
        logits = tf.convert_to_tensor(y_pred)
        smoothing = self.label_smoothing
        return target_term(logits, y_true, smoothing, self.class_labels, sample_weight).value()

    call = __call__

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": self.dtype,
            "label_smoothing": self.label_smoothing,
            "class_labels": self.class_labels,
        }


def target_term(
    logits: tf.Tensor,
    targets: tf.Tensor,
    label_smoothing: float,
    class_labels: bool,
    weights: tf.Tensor | None = None,
    step_weights: tf.Tensor | None = None,
) -> LossTerm:
    """Return the `LossTerm` of the targets of a batch.

    If the model predicts the targets after each of several steps, the term is the mean over the
    steps, weighted by `step_weights`.

    Args:
        logits: [B, T, V], or [B, C] for classes. With N steps, the first axis has size N * B.
        targets: int [B, T]. For classes, int [B] or [B, 1].
        label_smoothing: float in [0, 1).
        class_labels: bool. Whether the targets are classes.
        weights: float [B], [B, 1] or [B, T], the weights of the targets. Optional.
        step_weights: float32 [N, B, T] (T = 1 for classes), the weights of the steps (Banino et al.
            2021, PonderNet). The sum over N is 1 at real targets. None for one step.

    Raises:
        ValueError: if the shapes of weights, targets and logits do not match.
    """
    targets, weights = weights_lib.targets_and_weights(targets, class_labels, weights)
    logits = logits[:, tf.newaxis] if class_labels else logits
    expected = logits.shape[1]
    if not targets.shape.is_compatible_with([None, expected]):
        raise ValueError(
            f"Targets must be [batch, {expected}] ids, as many as are predicted. "
            f"Received: {targets.shape}."
            + (" For one-hot targets, use np.argmax(targets, axis=-1)." if class_labels else "")
        )
    if step_weights is None:
        return cross_entropy(logits, targets, label_smoothing, weights)
    weights_of_steps = tf.reshape(weights * step_weights, [-1, tf.shape(targets)[1]])
    targets = tf.tile(targets, [tf.shape(step_weights)[0], 1])
    term = cross_entropy(logits, targets, label_smoothing, weights_of_steps)
    return term._replace(denominator=tf.reduce_sum(weights))


def confidence_term(
    confidence: tf.Tensor,
    logits: tf.Tensor,
    step_weights: tf.Tensor,
    targets: tf.Tensor,
    class_labels: bool,
    weights: tf.Tensor | None = None,
) -> LossTerm:
    """Return the loss of predicting, at each step, whether the output is correct.

        -log sigmoid(q) where argmax(logits) = target, else -log(1 - sigmoid(q))

    Args:
        confidence: the logits q, float32 [N, B, T]. For classes, [N, B].
        logits, step_weights, targets, class_labels, weights: as in `target_term`.

    References: Wang et al. 2025, Hierarchical Reasoning Model.
    """
    targets, weights = weights_lib.targets_and_weights(targets, class_labels, weights)
    confidence = tf.reshape(confidence, tf.shape(step_weights))
    predictions = tf.reshape(maximum.argmax(logits, targets.dtype), tf.shape(confidence))
    is_correct = tf.cast(predictions == targets, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=is_correct, logits=confidence)
    numerator = tf.reduce_sum(weights * step_weights * losses)
    return LossTerm(numerator, tf.reduce_sum(weights))


def _entropy(label_smoothing, size):
    """Return the entropy of the smoothed distribution, as T2T computes it."""
    confidence, low = 1.0 - label_smoothing, label_smoothing / (size - 1)
    log = keras.ops.log
    entropy = -(confidence * log(confidence) + (size - 1) * low * log(low + 1e-20))
    return tf.cast(entropy, tf.float32)
