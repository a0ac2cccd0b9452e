"""The number of steps of a forward pass: sampled, or computed from the length.

    layer = BasicRecurrence(block, timing, 8, steps_sampling=LognormalPoissonSteps(8, mean=4.0))

Each layer has a largest number of steps, N = `num_steps`. If a call has its own `num_steps`, that
number replaces N. With adaptive halting, the number of steps is an upper limit, because a position
may halt earlier.
"""

import math
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.basic.layer import Layer, check_least


class StepSampling(Layer):
    """Base class of layers that decide how many steps a forward pass takes.

    Args:
        num_steps: int N. The largest number of steps.

    Attributes:
        per_example: bool. If False, training samples one number for the complete batch, and
            inference takes N steps. If True, `steps_by_length` returns a number for each example,
            in training and at inference.
    """

    per_example = False

    def __init__(self, num_steps: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_least("num_steps", num_steps, 1)
        self.num_steps = num_steps

    def sample(self) -> tf.Tensor:
        """Return a random number of steps in 1 .. N, an int32 scalar.

        All replicas get the same number. The method is not named `call`, because Keras requires an
        input for `call`.
        """
        raise NotImplementedError

    def steps_by_length(self, lengths: tf.Tensor, max_steps: int) -> tf.Tensor:
        """Return the number of steps of each example, int32 [B], in 1 .. max_steps.

        Args:
            lengths: int32 [B].
            max_steps: int, the largest number of steps in this forward pass.
        """
        raise NotImplementedError


@keras.saving.register_keras_serializable(package="ut_keras")
class UniformSteps(StepSampling):
    """Samples a number of steps n uniformly from 1 .. N, once per batch.

    Args:
        num_steps: int N.
    """

    def __init__(self, num_steps: int, **kwargs: Any) -> None:
        super().__init__(num_steps, **{"name": "step_sampling", **kwargs})
        self.seed_generator = keras.random.SeedGenerator()

    def sample(self) -> tf.Tensor:
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        return tf.random.stateless_uniform([], seed, 1, self.num_steps + 1, tf.int32)


@keras.saving.register_keras_serializable(package="ut_keras")
class LognormalPoissonSteps(StepSampling):
    """Samples a number of steps n per batch from a log-normal Poisson distribution.

        tau ~ Normal(log(mean) - sigma² / 2, sigma)
        n   = min(1 + Poisson(exp(tau)), N)

    The mean of exp(tau) is `mean`, so the mean of n is `mean` + 1 if N is large. Most samples are
    less than the mean, and a few samples are much larger. The minimum with N is an addition of
    ut_keras, because the loop requires a largest number of steps.

    We wrote the formulas from memory. We could not verify them against the paper or its code.

    Args:
        num_steps: int N.
        mean: float > 0.
        sigma: float >= 0. The standard deviation of tau.

    Raises:
        ValueError: if `mean` or `sigma` is out of range.

    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning.
    """

    def __init__(self, num_steps: int, mean: float, sigma: float = 0.5, **kwargs: Any) -> None:
        super().__init__(num_steps, **{"name": "step_sampling", **kwargs})
        if not 0 < mean < math.inf:
            raise ValueError(f"mean must be a finite number above 0. Received: {mean}.")
        if not 0 <= sigma < math.inf:
            raise ValueError(f"sigma must be a finite number of at least 0. Received: {sigma}.")
        self.mean = mean
        self.sigma = sigma
        self.seed_generator = keras.random.SeedGenerator()

    def sample(self) -> tf.Tensor:
        seeds = [tf.cast(self.seed_generator.next(), tf.int32) for _ in range(2)]
        normal = tf.random.stateless_normal([], seeds[0], dtype=tf.float64)
        tau = math.log(self.mean) - self.sigma**2 / 2 + self.sigma * normal
        # XLA has no operation that samples from a Poisson distribution. Therefore this method
        # samples a uniform random number, and returns 1 + the first count whose cumulative
        # probability reaches this number.
        counts = range(self.num_steps - 1)
        log_factorials = tf.constant([math.lgamma(count + 1) for count in counts], tf.float64)
        counts = tf.constant(list(counts), tf.float64)
        cumulative = tf.cumsum(tf.exp(counts * tau - tf.exp(tau) - log_factorials))
        uniform = tf.random.stateless_uniform([], seeds[1], dtype=tf.float64)
        return 1 + tf.reduce_sum(tf.cast(cumulative < uniform, tf.int32))


@keras.saving.register_keras_serializable(package="ut_keras")
class StepsByLength(StepSampling):
    """Takes more steps for longer inputs, in training and at inference.

        n = min(max(ceil(factor · length), 1), N)

    The length of an example is the number of its real tokens, including EOS. Therefore n depends
    neither on the other examples of the batch nor on padding. An example keeps its state after n
    steps.

    The Universal Transformer is computationally universal only if the number of steps can grow with
    the length of the input (Dehghani et al. 2019, section 4). N still limits the number of steps. A
    call may set a larger N, such as `model.with_steps(64)`.

    Args:
        num_steps: int N.
        factor: float > 0.

    Raises:
        ValueError: if `factor` is out of range.
    """

    per_example = True

    def __init__(self, num_steps: int, factor: float, **kwargs: Any) -> None:
        super().__init__(num_steps, **{"name": "step_sampling", **kwargs})
        if not 0 < factor < math.inf:
            raise ValueError(f"factor must be a finite number above 0. Received: {factor}.")
        self.factor = factor

    def steps_by_length(self, lengths: tf.Tensor, max_steps: int) -> tf.Tensor:
        # The term 1e-3 prevents that rounding adds a step. In float32, 0.3 · 10 is slightly more
        # than 3.
        steps = tf.math.ceil(self.factor * tf.cast(lengths, tf.float32) - 1e-3)
        return tf.cast(tf.clip_by_value(steps, 1.0, float(max_steps)), tf.int32)


def from_argument(steps_sampling: Any, num_steps: int) -> StepSampling | None:
    """Return the `StepSampling` for an argument `steps_sampling` of a recurrence.

    Args:
        steps_sampling: a `StepSampling`, "uniform" or None.
        num_steps: int N, the largest number of steps of the recurrence.

    Raises:
        ValueError: if `steps_sampling` has another value, or if its N is larger than `num_steps`.
    """
    if steps_sampling is None:
        return None
    if isinstance(steps_sampling, StepSampling):
        if steps_sampling.num_steps > num_steps:
            raise ValueError(
                f"num_steps of steps_sampling must be at most {num_steps}, as in the recurrence. "
                f"Received: {steps_sampling.num_steps}."
            )
        return steps_sampling
    if steps_sampling != "uniform":
        raise ValueError(
            "steps_sampling must be one of (None, 'uniform') or a StepSampling. "
            f"Received: {steps_sampling!r}."
        )
    return UniformSteps(num_steps)


def is_default_uniform(sampling: StepSampling | None, num_steps: int) -> bool:
    """Return whether `sampling` equals `from_argument("uniform", num_steps)`."""
    return isinstance(sampling, UniformSteps) and sampling.num_steps == num_steps


def example_steps(
    sampling: StepSampling | None,
    state: tf.Tensor,
    padding_mask: tf.Tensor | None,
    num_steps: int | None,
) -> tf.Tensor | None:
    """Return the number of steps of each example.

    Args:
        sampling: `StepSampling`, or None.
        state: float tensor [B, S, D].
        padding_mask: bool [B, S], True at real tokens. None: all positions are real.
        num_steps: int, the number of steps that the call sets. It replaces the largest number of
            steps of `sampling`. Optional.

    Returns:
        int32 [B], or None if the number of steps is the same for all examples.
    """
    if sampling is None or not sampling.per_example:
        return None
    shape = tf.shape(state)
    if padding_mask is None:
        lengths = tf.fill(shape[:1], shape[1])
    else:
        lengths = tf.reduce_sum(tf.cast(padding_mask, tf.int32), axis=1)
    return sampling.steps_by_length(lengths, num_steps or sampling.num_steps)


def where_running(running: tf.Tensor, new: Any, old: Any) -> Any:
    """Return `new` for examples that take this step, and `old` for other examples.

    Args:
        running: bool [B].
        new, old: nests of tensors [B, ...], such as the state after and before the step.
    """

    def select(after, before):
        shape = tf.concat([tf.shape(running), tf.ones([after.shape.rank - 1], tf.int32)], axis=0)
        return tf.where(tf.reshape(running, shape), after, before)

    return tf.nest.map_structure(select, new, old)


def check_gradient(sampling: StepSampling | None, backprop_steps: int | None) -> None:
    """Check that every example has a step with a gradient.

    Raises:
        ValueError: if `backprop_steps` is set and the examples take different numbers of steps.
    """
    if backprop_steps is not None and sampling is not None and sampling.per_example:
        raise ValueError(
            "backprop_steps cannot be combined with StepsByLength, because a short example may not "
            "take the last steps of the batch. "
            f"Received: backprop_steps={backprop_steps}."
        )


def _max_steps(hp):
    return hp.act_max_steps if hp.recurrence_type == "act" else hp.num_rec_steps


@parts.step_samplings.register("uniform")
def _make_uniform(hp, side):
    return UniformSteps(_max_steps(hp))


@parts.step_samplings.register("lognormal_poisson")
def _make_lognormal_poisson(hp, side, mean, sigma=0.5):
    mean = _positive("mean", mean, hp)
    if not 0 <= sigma < math.inf:
        raise HParamError(
            "num_rec_steps_sampling must have a finite sigma of at least 0. "
            f"Received: {hp.num_rec_steps_sampling}."
        )
    return LognormalPoissonSteps(_max_steps(hp), mean, sigma)


@parts.step_samplings.register("by_length")
def _make_by_length(hp, side, factor=1.0):
    """Return a `StepsByLength` for an encoder, and None for a decoder.

    The length of a decoder grows while it generates.
    """
    factor = _positive("factor", factor, hp)
    if side == "language_model":
        raise HParamError(
            "num_rec_steps_sampling='by_length' requires an encoder, because the length of a "
            "decoder grows while it generates. Received: a language model."
        )
    if hp.recurrence_backprop_steps is not None:
        raise HParamError(
            "num_rec_steps_sampling='by_length' cannot be combined with recurrence_backprop_steps, "
            "because a short example may not take the last steps of the batch. "
            f"Received: recurrence_backprop_steps={hp.recurrence_backprop_steps}."
        )
    return None if side == "decoder" else StepsByLength(_max_steps(hp), factor)


def _positive(name, value, hp):
    """Check that an argument is finite and above 0, and return it as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise HParamError(
            f"num_rec_steps_sampling must have a finite {name} above 0. "
            f"Received: {hp.num_rec_steps_sampling}."
        )
    return float(value)
