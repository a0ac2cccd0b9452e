"""Signals that encode the position in the sequence and the recurrence step."""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import UniversalTransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, from_hparams
from ut_keras.layers.basic.layer import PositionWise, check_choice
from ut_keras.layers.basic.signature import Initializer, Shape, Widths
from ut_keras.ops import gather

MAX_TIMESCALE = 1e4


def sinusoid(positions: tf.Tensor, channels: int) -> tf.Tensor:
    """Return sines and cosines with geometrically spaced wavelengths.

    The first half of the channels are sines and the second half are cosines, as in T2T. The paper
    interleaves them.

    Args:
        positions: tensor [...], the positions or steps to encode.
        channels: int. Number of channels. If it is odd, the last channel is 0.

    Returns:
        float32 tensor [..., channels].

    References: Vaswani et al. 2017, section 3.5; T2T `common_attention.get_timing_signal_1d`.
    """
    timescales = channels // 2
    increment = math.log(MAX_TIMESCALE) / max(timescales - 1, 1)
    frequencies = tf.exp(tf.range(timescales, dtype=tf.float32) * -increment)
    x = tf.cast(positions, tf.float32)[..., tf.newaxis]
    angles = x * frequencies
    halves = [tf.sin(angles), tf.cos(angles)]
    return tf.concat([*halves, tf.zeros_like(x)] if channels % 2 else halves, axis=-1)


def positions_or_default(positions: tf.Tensor | None, x: tf.Tensor) -> tf.Tensor:
    """Return `positions`, or 0, …, S - 1 as int32 [1, S] if `positions` is None.

    Args:
        positions: int tensor [S] or [B, S]. Optional.
        x: tensor [B, S, D].
    """
    return tf.range(tf.shape(x)[1])[tf.newaxis] if positions is None else positions


@keras.saving.register_keras_serializable(package="ut_keras")
class SinusoidPosition(PositionWise):
    """Adds the sinusoidal position signal (`pos="timing"`).

    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor [S] or [B, S], the positions of `x`. Default: 0, …, S - 1.

    Returns:
        Tensor like `x`.

    References: T2T `common_attention.add_timing_signal_1d`.
    """

    def call(self, x: tf.Tensor, positions: tf.Tensor | None = None) -> tf.Tensor:
        positions = positions_or_default(positions, x)
        return x + tf.cast(sinusoid(positions, x.shape[-1]), x.dtype)


@keras.saving.register_keras_serializable(package="ut_keras")
class LearnedPosition(PositionWise):
    """Adds a learned vector per position (`pos="emb"`).

    The layer does not change `x` at the positions max_length, max_length + 1, ….

    Args:
        max_length: int. Number of positions that have a vector.
        embedding_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        positions: int tensor [S] or [B, S], the positions of `x`. Default: 0, …, S - 1.

    Returns:
        Tensor like `x`.

    References: T2T `common_attention.add_positional_embedding`.
    """

    def __init__(
        self, max_length: int, embedding_initializer: Initializer = "glorot_uniform", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = max_length
        self.embedding_initializer = keras.initializers.get(embedding_initializer)

    def build(self, input_shape: Shape) -> None:
        self.embedding = self.add_weight(
            name="embedding",
            shape=(self.max_length, input_shape[-1]),
            initializer=self.embedding_initializer,
        )

    def call(self, x: tf.Tensor, positions: tf.Tensor | None = None) -> tf.Tensor:
        positions = positions_or_default(positions, x)
        known = (positions < self.max_length)[..., tf.newaxis]
        row = tf.minimum(positions, self.max_length - 1)
        found = gather.rows(tf.convert_to_tensor(self.embedding), row)
        return x + tf.where(known, found, 0)


class StepSignals(NamedTuple):
    """The result of `StepTimingSignal.prepare`, computed once for all steps."""

    length: tf.Tensor  # int32 scalar S
    # float32 [S, D]. None if there is no position signal, or if each step has its own start.
    position: tf.Tensor | None
    # [N, D], or [N, 2 D] if combine="concat" and there is a position signal. None if there is no
    # step signal.
    step: tf.Tensor | None
    num_steps: tf.Tensor  # int32 scalar N


@keras.saving.register_keras_serializable(package="ut_keras")
class StepTimingSignal(dense.WithKernels):
    """Adds signals of position and step to the state, before each recurrence step.

        x = H_{t-1} + P_t,   P_t[i] = sinusoid(i) + step embedding(t)
                                                            (Dehghani et al. 2019, eq. 6)

    With combine="concat", the layer concatenates the signals to the state instead of adding them.
    One matrix, shared by all steps, projects the result back to D channels. T2T's default is a
    learned step embedding. The paper uses a sinusoid of the step instead (step="sinusoid").

    Args:
        num_steps: int N. Number of steps that have a learned embedding.
        position: bool. Whether the layer adds a position signal.
        position_start_index: None, "random" or "step". It selects the position of the first token.
            None: 0. "step": length · t / N. "random": a random number below the length. As in T2T,
            every step samples a new number, also at inference.
        step: None, "learned" or "sinusoid", the type of the step signal. None: no step signal.
        combine: "add" or "concat".
        repeats: bool. If True, step t has the signals of step t modulo N, for any number of steps.
            See `depth.segments`.
        kernel_initializer: Keras initializer, for the projection of "concat".

    Call arguments:
        state: float tensor [B, S, D].
        step: int32 scalar t in [0, N), or any t >= 0 with `repeats`.
        signals: `StepSignals` from `prepare`.
        signal_index: int32 [S]. For each position of the state, the index of its signal in
            `signals`. None: position i of the state has index i.
        cache: not used. `TimingAndSRU` has the same call arguments, and uses the cache.

    Returns:
        float tensor [B, S, D].

    Raises:
        ValueError: if position_start_index, step or combine has a value that is not listed above.
            Also if combine="concat" has a step signal but no position signal.

    References: T2T `universal_transformer_util.step_preprocess`.
    """

    def __init__(
        self,
        num_steps: int,
        position: bool = True,
        position_start_index: str | None = None,
        step: str | None = "learned",
        combine: str = "add",
        repeats: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("position_start_index", position_start_index, (None, "random", "step"))
        check_choice("step", step, (None, "learned", "sinusoid"))
        check_choice("combine", combine, ("add", "concat"))
        self.num_steps = num_steps
        self.position = position
        self.position_start_index = position_start_index
        self.step = step
        self.combine = combine
        self.repeats = repeats
        if position_start_index == "random":
            self.seed_generator = keras.random.SeedGenerator()

    def build(self, state_shape: Shape) -> None:
        self.hidden_size = state_shape[-1]
        concat = self.combine == "concat"
        self.step_channels = self.hidden_size * (2 if concat and self.position else 1)
        self.layer_embedding: Any = None
        if self.step == "learned":
            self.layer_embedding = self.add_weight(
                name="layer_embedding",
                shape=(self.num_steps, 1, 1, self.step_channels),
                initializer=keras.initializers.RandomNormal(stddev=self.step_channels**-0.5),
            )
        self.projection = None
        # If T2T concatenates only a step signal, it does not project the state back to D channels.
        # T2T then fails at the first residual connection, because the widths differ. ut_keras
        # raises this error earlier.
        if concat and self.step and not self.position:
            raise ValueError(
                "combine='concat' with a step signal requires position=True, as in T2T. "
                "Received: position=False."
            )
        if concat and self.position:
            width = self.step_channels * (2 if self.step else 1)
            self.projection = self._dense(self.hidden_size, "dense", width, use_bias=False)

    def prepare(self, positions: tf.Tensor, num_steps: int | None = None) -> StepSignals:
        """Compute the signals that are the same at every step.

        Args:
            positions: int32 [S].
            num_steps: int. Number of steps. Default: `num_steps` of the layer.

        Returns:
            `StepSignals`.

        Raises:
            ValueError: if `check_steps` does not allow `num_steps`.
        """
        self.check_steps(num_steps)
        num_steps = self.num_steps if self.repeats else num_steps or self.num_steps
        position = step = None
        if self.position and self.position_start_index is None:
            position = sinusoid(positions, self.hidden_size)
        if self.step == "learned":
            table = tf.cast(self.layer_embedding, self.compute_dtype)[:, 0, 0]
            step = table * self.step_channels**0.5
        elif self.step == "sinusoid":
            step = sinusoid(tf.range(num_steps), self.step_channels)
        return StepSignals(tf.size(positions), position, step, tf.constant(num_steps))

    def check_steps(self, num_steps: int | None) -> None:
        """Check that every step has a signal. See `Depth.check_steps`.

        Raises:
            ValueError: if num_steps is greater than the number of learned step embeddings.
        """
        if self.repeats:
            return
        if self.step == "learned" and (num_steps or 0) > self.layer_embedding.shape[0]:
            raise ValueError(
                f"num_steps must be at most {self.layer_embedding.shape[0]}, because only so many "
                f"steps have a learned signal. Received: {num_steps}. Use "
                "step_timing_signal_type='sinusoid' for any number of steps."
            )

    def cache_widths(self) -> Widths:
        """Return an empty dict: a cache stores nothing for this layer."""
        return {}

    def call(
        self,
        state: tf.Tensor,
        step: tf.Tensor,
        signals: StepSignals,
        signal_index: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
    ) -> tf.Tensor:
        if self.repeats:
            step = step % self.num_steps
        position_signal = self._position_signal(step, signals)
        if signal_index is not None and position_signal is not None:
            position_signal = tf.gather(position_signal, signal_index)
        step_signal = None if signals.step is None else gather.rows(signals.step, step)
        if self.combine == "add":
            for signal in (position_signal, step_signal):
                if signal is not None:
                    state += tf.cast(signal, state.dtype)
            return state
        if self.projection is None:
            return state
        parts = [state, _broadcast(position_signal, state)]
        if step_signal is not None:
            parts.append(_broadcast(step_signal, state))
        return self.projection(tf.concat(parts, axis=-1))

    def _position_signal(self, step, signals):
        """Return the position signal [S, D], or None if there is none."""
        length = signals.length
        if not self.position or signals.position is not None:
            return signals.position
        if self.position_start_index == "random":
            seed = tf.cast(self.seed_generator.next(), tf.int32)
            start = tf.random.stateless_uniform([], seed, 0, length, tf.int32)
        else:
            start = tf.cast(length * step / signals.num_steps, tf.int32)
        return sinusoid(tf.range(length) + start, self.hidden_size)

    def compute_output_shape(self, state_shape: Shape, *_: Any) -> Shape:
        return state_shape


def _broadcast(signal, state):
    """Broadcast a signal [C] or [S, C] to [B, S, C], with B and S of `state`."""
    shape = tf.shape(state)
    wide = tf.broadcast_to(signal, tf.stack([shape[0], shape[1], signal.shape[-1]]))
    return tf.cast(wide, state.dtype)


def make(hp: UniversalTransformerHParams, num_steps: int) -> StepTimingSignal:
    """Return the `StepTimingSignal` that the hparams describe."""
    return StepTimingSignal(
        num_steps,
        position=hp.add_position_timing_signal,
        position_start_index=hp.position_start_index,
        step=hp.step_timing_signal_type if hp.add_step_timing_signal else None,
        combine=hp.add_or_concat_timing_signal,
        repeats=hp.recurrence_segments > 1,
        name="timing",
        **from_hparams.common(hp),
    )


@parts.position_signals.register("timing")
def _make_sinusoid(hp, side):
    return SinusoidPosition(dtype=from_hparams.dtype_policy(hp))


@parts.position_signals.register("emb")
def _make_learned(hp, side):
    initializer = from_hparams.kernel_initializer(hp)
    return LearnedPosition(hp.max_length, initializer, dtype=from_hparams.dtype_policy(hp))


@parts.position_signals.register("none")
def _make_none(hp, side):
    """Return None, because the model adds no position signal."""
