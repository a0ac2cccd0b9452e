"""The state from which a recurrence starts: the embeddings, or random numbers."""

import math
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.basic import from_hparams, plugged_in, position_probe
from ut_keras.layers.basic.layer import PositionWise
from ut_keras.layers.depth import state_layer
from ut_keras.ops import seed as seed_lib


@keras.saving.register_keras_serializable(package="ut_keras")
class NormalInitialState(PositionWise):
    """Starts a recurrence from normally distributed random numbers.

        H_0 ~ Normal(0, sigma²) in training,   H_0 = 0 at inference

    Every step must read the embeddings by input injection, because the state does not contain them.
    A model that is trained from random states learns to reach the same result from different states
    (path independence).

    At inference, the state starts at 0, which is the mean of the distribution. Therefore the output
    depends neither on a seed nor on the other examples of the batch. Decoding with a cache is
    exact, because every position starts from the same state.

    We believe that the code of the paper also samples the state at inference. It probably starts
    from 0 only if a deterministic output is requested. We wrote this layer from memory, and could
    not verify it against the paper or its code.

    Args:
        sigma: float > 0. The standard deviation.

    Call arguments:
        inputs: float tensor [B, S, D], the embeddings. The layer uses only their shape and dtype.
        training: bool.

    Returns:
        Tensor like `inputs`.

    Raises:
        ValueError: if `sigma` is out of range.

    References: Geiping et al. 2025, Scaling up Test-Time Compute with Latent Reasoning.
    """

    def __init__(self, sigma: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 < sigma < math.inf:
            raise ValueError(f"sigma must be a finite number above 0. Received: {sigma}.")
        self.sigma = sigma
        self.seed_generator = keras.random.SeedGenerator()
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training:
            return tf.zeros_like(inputs)
        seed = seed_lib.per_replica(self.seed_generator)
        state = self.sigma * tf.random.stateless_normal(tf.shape(inputs), seed)
        return tf.ensure_shape(tf.cast(state, inputs.dtype), inputs.shape)


def start(initial_state: Any, inputs: tf.Tensor, training: bool | None) -> tf.Tensor:
    """Return the state before the first step.

    Args:
        initial_state: a `NormalInitialState`, or None for the embeddings.
        inputs: float tensor [B, S, D], the embeddings.
    """
    return inputs if initial_state is None else initial_state(inputs, training=training)


def check(initial_state: Any, injection: Any) -> None:
    """Check that the recurrence reads its input, and can call both layers.

    Raises:
        ValueError: if `initial_state` is set, and `injection` is None. Also if the `call` of a
            layer does not accept the arguments that a recurrence passes.
    """
    plugged_in.check_call("injection", injection, 2)
    plugged_in.check_call("initial_state", initial_state, 1)
    if initial_state is not None and injection is None:
        raise ValueError(
            "initial_state requires an injection, because the random state does not contain the "
            f"input. Received: injection=None with {type(initial_state).__name__}."
        )


def probe_positions(
    layer: keras.layers.Layer, width: int
) -> Iterator[tuple[keras.layers.Layer, position_probe.Reads]]:
    """Yield the injection and the initial state of a recurrence, and what they read.

    Args:
        layer: a recurrence. Other layers have no such parts.
        width: int D, the width of the state.
    """
    is_state_layer = isinstance(layer, state_layer.StateLayer)
    injection: Any = getattr(layer, "injection", None) if is_state_layer else None
    initial_state: Any = getattr(layer, "initial_state", None) if is_state_layer else None

    def inject(x, mask):
        return injection(x, tf.roll(x, 1, axis=-1), training=False)

    def start_state(x, mask):
        return start(initial_state, x, training=False)

    if injection is not None:
        yield injection, position_probe.probe(injection, inject, width)
    if initial_state is not None:
        yield initial_state, position_probe.probe(initial_state, start_state, width)


@parts.initial_states.register("embedding")
def _make_embedding(hp, side):
    """Return None, because the recurrence starts from its input."""


@parts.initial_states.register("normal")
def _make_normal(hp, side, sigma=1.0):
    if not 0 < sigma < math.inf:
        raise HParamError(
            "recurrence_initial_state must have a finite sigma above 0. "
            f"Received: {hp.recurrence_initial_state}."
        )
    if hp.recurrence_input_injection == "none":
        raise HParamError(
            "recurrence_initial_state='normal' requires recurrence_input_injection='add' or "
            "'concat', because the random state does not contain the input. "
            "Received: recurrence_input_injection='none'."
        )
    return NormalInitialState(sigma, name="initial_state", dtype=from_hparams.dtype_policy(hp))
