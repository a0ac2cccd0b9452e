"""The Simple Recurrent Unit: a fast recurrence over positions.

Only one weighted sum per position is sequential. The matrix products are computed for all positions
at once.
"""

from typing import Any

import keras
import tensorflow as tf

from ut_keras import parts
from ut_keras.hparam_schema import TransformerHParams
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.basic import dense, empty_safe_scan, from_hparams
from ut_keras.layers.basic.layer import Layer, build_all, check_least
from ut_keras.layers.basic.signature import Shape, Widths
from ut_keras.layers.position import timing_signal
from ut_keras.layers.position.timing_signal import StepSignals
from ut_keras.ops import private_api


@keras.saving.register_keras_serializable(package="ut_keras")
class SRU(dense.WithKernels):
    """Stacked simple recurrent units, from the first to the last position.

        [u, f, r] = W x + b
        c_i = σ(f_i) · c_{i-1} + (1 - σ(f_i)) · u_i,   c_0 = 0
        h_i = σ(r_i) · c_i + (1 - σ(r_i)) · x_i               (Lei et al. 2018, eq. 1-4)

    These equations follow the first version of the paper. In that version, the gates do not depend
    on c, and no tanh is applied to c_i.

    Args:
        num_layers: int.
        kernel_initializer: Keras initializer.

    Call arguments:
        x: float tensor [B, S, D].
        cache: `LayerCache`. Optional.
        padding_mask, training: not used. `Sublayer` passes these arguments to every transition.

    Returns:
        float tensor [B, S, D]. The output of a position depends only on this position and on
        earlier positions.

    Raises:
        ValueError: if num_layers < 1.

    References: T2T `common_layers.sru`.
    """

    def __init__(self, num_layers: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_least("num_layers", num_layers, 1)
        self.num_layers = num_layers

    def build(self, x_shape: Shape) -> None:
        size = x_shape[-1]
        self.maps = tuple(
            self._dense(3 * size, f"kernel_{number}", size) for number in range(self.num_layers)
        )

    def cache_widths(self) -> Widths:
        """Return the widths of a position's tensors in a cache. See `cache.start`."""
        return {layer.name: (1, layer.units // 3) for layer in self.maps}

    def call(
        self,
        x: tf.Tensor,
        padding_mask: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        for layer in self.maps:
            u, f, r = tf.split(layer(x), 3, axis=-1)
            f, r = tf.sigmoid(f), tf.sigmoid(r)
            if cache is None:
                c = _gated_sum((1 - f) * u, f)
            else:
                c = _gated_sum_in_cache((1 - f) * u, f, cache, layer.name)
            x = r * c + (1 - r) * x
        return x

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return x_shape


def _gated_sum(values, decays):
    """Return c_i = decays_i · c_{i-1} + values_i along axis 1: [B, S, D].

    The function computes in float32.
    """
    if private_api.is_compiled_by_xla() and values.shape[1] is not None:
        return _gated_sum_under_xla(values, decays)

    def step(c, inputs):
        value, decay = inputs
        return decay * c + value

    by_position = [tf.transpose(tf.cast(x, tf.float32), [1, 0, 2]) for x in (values, decays)]
    start = tf.zeros([tf.shape(values)[0], values.shape[2]])
    states = empty_safe_scan.scan(step, tuple(by_position), start)
    return tf.cast(tf.transpose(states, [1, 0, 2]), values.dtype)


def _gated_sum_under_xla(values, decays):
    """Compute `_gated_sum` in log2(S) rounds, without a loop over positions.

    Before each round, `sums` at position i is the gated sum of the last `reach` values up to i.
    `products` is the product of the last `reach` decays. Each round doubles `reach`.
    """
    sums, products = tf.cast(values, tf.float32), tf.cast(decays, tf.float32)
    length, reach = values.shape[1], 1
    while reach < length:
        paddings = [[0, 0], [reach, 0], [0, 0]]
        earlier_sums = tf.pad(sums[:, :-reach], paddings)
        earlier_products = tf.pad(products[:, :-reach], paddings)
        sums += products * earlier_sums
        products *= earlier_products
        reach *= 2
    return tf.cast(sums, values.dtype)


def _gated_sum_in_cache(values, decays, cache, name):
    """Compute `_gated_sum` for the columns of a window, and write c to the cache.

    The function computes one column at a time, because a column may be the predecessor of another
    column.
    """
    values, decays = tf.cast(values, tf.float32), tf.cast(decays, tf.float32)

    widths = {name: (1, values.shape[-1])}

    def step(column, store, states):
        layout = cache_lib.Layout(widths, cache.window.single(column))
        column_cache = cache_lib.LayerCache({name: store}, cache.step, layout)
        before = tf.cast(column_cache.read_previous(name, 1)[:, :, 0], tf.float32)
        c = decays[:, column, tf.newaxis] * before + values[:, column, tf.newaxis]
        column_cache.write(name, c)
        return column + 1, column_cache.stores[name], states.write(column, c[:, 0])

    shape = tf.shape(values)
    count = shape[1]
    states = tf.TensorArray(tf.float32, count + 1)  # `stack` fails for an empty array
    states = states.write(count, tf.zeros([shape[0], shape[2]]))
    _, store, states = tf.while_loop(
        lambda column, *_: column < count, step, (tf.constant(0), cache.stores[name], states)
    )
    cache.stores[name] = store
    result = tf.transpose(states.stack()[:count], [1, 0, 2])
    result.set_shape(values.shape)
    return result


@keras.saving.register_keras_serializable(package="ut_keras")
class TimingAndSRU(Layer):
    """A `StepTimingSignal` followed by an `SRU`, at every step (`add_sru`).

    Args:
        timing: a `StepTimingSignal`.
        sru: an `SRU`. Every step applies the same SRU.

    Call arguments and returns: as `StepTimingSignal`.
    """

    def __init__(self, timing: timing_signal.StepTimingSignal, sru: SRU, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.timing = timing
        self.sru = sru

    def build(self, state_shape: Shape) -> None:
        build_all((self.timing, self.sru), state_shape)

    def prepare(self, positions: tf.Tensor, num_steps: int | None = None) -> StepSignals:
        """Prepare the signals. See `StepTimingSignal.prepare`."""
        return self.timing.prepare(positions, num_steps)

    def check_steps(self, num_steps: int | None) -> None:
        """Check the number of steps. See `StepTimingSignal.check_steps`."""
        self.timing.check_steps(num_steps)

    def cache_widths(self) -> Widths:
        """Return the widths of the tensors that a cache stores. See `SRU.cache_widths`."""
        return self.sru.cache_widths()

    def call(
        self,
        state: tf.Tensor,
        step: tf.Tensor,
        signals: StepSignals,
        signal_index: tf.Tensor | None = None,
        cache: cache_lib.LayerCache | None = None,
    ) -> tf.Tensor:
        return self.sru(self.timing(state, step, signals, signal_index), cache=cache)

    def compute_output_shape(self, state_shape: Shape, *_: Any) -> Shape:
        return state_shape


@parts.transitions.register("sru")
def make(hp: TransformerHParams, side: str) -> SRU:
    """Return an SRU, which serves as a transition or follows the signals of each step."""
    return SRU(name="sru", **from_hparams.common(hp))
