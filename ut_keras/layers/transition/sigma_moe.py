"""A mixture of experts as the transition function."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.layers.basic import dropout, renamed
from ut_keras.layers.basic.signature import Shape
from ut_keras.layers.transition import transition


class MixtureOutput(NamedTuple):
    """The result of a mixture of experts."""

    output: tf.Tensor  # [B, S, D]
    # In training, float32 [B, E], the sum of the router probabilities of each expert over the
    # positions. None at inference.
    auxiliary_loss_stats: tf.Tensor | None

    @property
    def tally(self) -> tf.Tensor | None:
        """The old name of `auxiliary_loss_stats`."""
        renamed.warn("MixtureOutput.tally", "auxiliary_loss_stats")
        return self.auxiliary_loss_stats


@keras.saving.register_keras_serializable(package="ut_keras")
class SigmaMoE(renamed.RenamedAttributes, transition.FeedForward):
    """Narrow feed-forward experts: each position uses k experts with the best scores.

        s = W_s x
        FFN(x) = sum of sigmoid(s_e) W_2^e max(0, W_1^e x) over the k largest s_e

    The sum of the gates sigmoid(s_e) can have any value, so experts do not compete. An auxiliary
    loss makes the positions of an example use different experts. The loss is the negative entropy
    of the router probabilities p, averaged over all positions and all steps of an example:

        auxiliary loss = entropy_weight sum_e p_e log p_e,   p = mean of softmax(s)

    If the call has a `padding_mask`, the mean does not include padding. Most decoders call the
    layer without a mask.

    The layer computes all experts and multiplies the experts that were not selected by 0. This form
    is efficient on devices where few large operations are faster than many small operations, such
    as a CPU.

    Args:
        filter_size: int F, width of all experts together.
        hidden_size: int D.
        num_experts: int E, a divisor of F.
        k: int. Number of experts that a position uses.
        entropy_weight: float. Weight of the auxiliary loss.
        others: as in `FeedForward`.

    Call arguments: as in `FeedForward`.

    Returns:
        `MixtureOutput`. A `TransformerLayer` sums its `auxiliary_loss_stats` over the steps.

    Raises:
        ValueError: if num_experts does not divide filter_size, or k is not in [1, num_experts].

    References: Csordás et al. 2024, MoEUT: Mixture-of-Experts Universal Transformers, section 2.1;
        its code, github.com/RobertCsordas/moeut, class SigmaMoE. T2T has no such layer.
    """

    renamed_attributes = {"tally_width": "auxiliary_loss_width", "cost": "auxiliary_loss"}

    def __init__(
        self,
        filter_size: int,
        hidden_size: int,
        *args: Any,
        num_experts: int = 16,
        k: int = 4,
        entropy_weight: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(filter_size, hidden_size, *args, **kwargs)
        if not 1 <= k <= num_experts or filter_size % num_experts:
            raise ValueError(
                "num_experts must divide filter_size, and k must be in [1, num_experts]. "
                f"Received: num_experts={num_experts}, filter_size={filter_size}, k={k}."
            )
        self.num_experts = self.auxiliary_loss_width = num_experts
        self.k = k
        self.entropy_weight = entropy_weight

    def build(self, x_shape: Shape) -> None:
        size, inner = x_shape[-1], self.filter_size
        self.relu_dropout = dropout.sublayer(self, self.dropout_broadcast_dims)
        self.router = self._dense(self.num_experts, "router", size, use_bias=False)
        self.expand = self._dense(inner, "expand", size, use_bias=False, activation="relu")
        self.contract = self._dense(self.hidden_size, "contract", inner, use_bias=False)

    def _transform(self, x, padding_mask, cache, training):
        scores = tf.cast(self.router(x), tf.float32)
        best, chosen = tf.math.top_k(scores, self.k)  # [B, S, k]
        gates = tf.one_hot(chosen, self.num_experts) * tf.sigmoid(best)[..., tf.newaxis]
        gates = tf.cast(tf.reduce_sum(gates, axis=-2), self.compute_dtype)  # [B, S, E]
        hidden = self.relu_dropout(self._gated(self.expand(x), gates), training=training)
        output = self._contracted(hidden, padding_mask)
        router_probability = transition.zero_at_padding(tf.nn.softmax(scores), padding_mask)
        return MixtureOutput(
            output, tf.reduce_sum(router_probability, axis=1) if training else None
        )

    def _gated(self, hidden, gates):
        """Return `hidden` [B, S, F], with each expert's channels multiplied by its gate.

        `tf.repeat` is not used, because XLA cannot compile its gradient in a loop.
        """
        by_expert = [self.num_experts, self.filter_size // self.num_experts]
        divided = tf.reshape(hidden, tf.concat([tf.shape(hidden)[:-1], by_expert], axis=0))
        return tf.reshape(divided * gates[..., tf.newaxis], tf.shape(hidden))

    def compute_output_shape(self, x_shape: Shape) -> Any:
        return MixtureOutput(super().compute_output_shape(x_shape), (x_shape[0], self.num_experts))

    def auxiliary_loss(self, auxiliary_loss_stats: tf.Tensor) -> tf.Tensor:
        """Return the auxiliary loss of each example, float32 [B].

        Args:
            auxiliary_loss_stats: float32 [B, E], summed over all steps.
        """
        total = tf.reduce_sum(auxiliary_loss_stats, axis=-1, keepdims=True)
        p = tf.math.divide_no_nan(auxiliary_loss_stats, total)
        return self.entropy_weight * tf.reduce_sum(tf.math.xlogy(p, p), axis=-1)


@parts.transitions.register("sigma_moe")
def _make(hp, side, num_experts=16, k=4, entropy_weight=0.01):
    experts = {"num_experts": num_experts, "k": k, "entropy_weight": entropy_weight}
    return transition.make(hp, side, "sigma_moe", SigmaMoE, **experts)
