"""Each beam attends to its ancestors' columns, even after the columns have moved."""

import numpy as np
import pytest
import tensorflow as tf

from ut_keras.decoding import beam_search, prefix

BATCH, LENGTH = 2, 30


class _Model:
    """A model whose cache identifies each column by 100 · position + beam."""

    def __init__(self, cache_order_matters):
        self.cache_order_matters = cache_order_matters

    def start_cache(self, size):
        return tf.fill([size.batch, size.columns], -1)

    def move_columns(self, cache, size, order):
        np.testing.assert_array_equal(cache.shape, [size.batch, size.columns])
        return tf.gather(cache, order, batch_dims=1)


def _write(kept, window, named):
    """Return `kept` with a cache that contains the identifiers of the window's columns."""
    cache = kept.cache.numpy()
    cache[:, window.columns] = named
    return kept._replace(cache=tf.constant(cache))


def _seen(kept, window, example, place):
    mask = np.broadcast_to(window.attention_mask, [BATCH, 1, *window.attention_mask.shape[2:]])
    return kept.cache.numpy()[example, mask[example, 0, place]].tolist()


@pytest.mark.parametrize("cache_order_matters", [True, False])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("prompt_length", [0, 5])
def test_prefix_cache_shows_each_beam_its_ancestors(cache_order_matters, beams, prompt_length):
    random = np.random.RandomState(0)
    prefixes = prefix.PrefixCache(
        _Model(cache_order_matters), tf.constant(BATCH), beams, prompt_length, tf.constant(LENGTH)
    )
    kept = prefixes.start()
    if prompt_length:
        window, kept = prefixes.prompt_window(kept)
        kept = _write(kept, window, 100 * np.arange(prompt_length))
        assert _seen(kept, window, 1, 3) == [0, 100, 200, 300]
    ancestors = np.zeros([BATCH, beams, LENGTH], np.int32)
    for position in range(LENGTH):
        query = beam_search.Query(tf.constant(position), None, tf.constant(ancestors))
        window, kept = prefixes.next_window(kept, query)
        here = prompt_length + position
        np.testing.assert_array_equal(window.positions, [here] * beams)
        kept = _write(kept, window, 100 * here + np.arange(beams))
        for example, beam in np.ndindex(BATCH, beams):
            of_beam = [0] * prompt_length + ancestors[example, beam, :position].tolist() + [beam]
            expected = [100 * place + ancestor for place, ancestor in enumerate(of_beam)]
            assert _seen(kept, window, example, beam) == expected
        parents = random.randint(0, beams, size=(BATCH, beams))
        ancestors = np.take_along_axis(ancestors, parents[..., None], axis=1)
        ancestors[:, :, position] = parents
    assert kept.columns <= beams * (prompt_length + LENGTH)  # no column follows the last position


def test_prefix_cache_prunes_dead_beams():
    beams = 4
    prefixes = prefix.PrefixCache(_Model(False), tf.constant(BATCH), beams, 0, tf.constant(LENGTH))
    kept = prefixes.start()
    ancestors = tf.zeros([BATCH, beams, LENGTH], tf.int32)  # all beams descend from the first beam
    for position in range(LENGTH):
        query = beam_search.Query(tf.constant(position), None, ancestors)
        _, kept = prefixes.next_window(kept, query)
        assert kept.columns <= position + beams * prefix.POSITIONS


@pytest.mark.parametrize("beams", [1, 4])
def test_prefix_cache_copies_are_linear_in_the_length(beams):
    length, copied, position = 6000, 0, 0
    prefixes = prefix.PrefixCache(_Model(True), 1, beams, 0, tf.constant(length))
    kept = prefixes.start()
    while (position := int(kept.columns) // beams) < length:
        copied += position
        kept = prefixes._grow(kept._replace(used=kept.columns), tf.constant(position))
    # With blocks of a fixed size, `copied` would be 80 to 400 times as large as `length`.
    assert copied < 2 * prefix.BLOCK_PART * length
