"""In a search that XLA compiles for a GPU, each recurrence step has its own cache."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.ops import devices, private_api, step_loop

SIZE = cache_lib.CacheSize(tf.constant(2), 1, tf.constant(4))


@pytest.fixture
def xla_for_gpu(monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    monkeypatch.setattr(private_api, "is_compiled_by_xla", lambda: True)


def _extended(decoder, cache, states, memory):
    """Return the outputs of two windows, and the cache after them."""
    outputs = []
    for columns in ([0, 1], [2]):
        window = cache_lib.window(tf.constant(columns), SIZE)
        state = tf.gather(states, columns, axis=1)
        output, cache = decoder.extend(state, cache, window, memory)
        outputs.append(output)
    return tf.concat(outputs, axis=1), cache


@pytest.mark.parametrize(
    "overrides", ["recurrence_type=basic", "recurrence_type=dwa", "add_sru=True"]
)
def test_separate_caches_have_the_values_of_one_cache(overrides, request):
    model = examples.make("universal", f"num_rec_steps=3,{overrides}")
    decoder, rng = model.decoder, np.random.default_rng(1)
    states = tf.constant(rng.normal(size=(2, 3, model.hparams.hidden_size)), tf.float32)
    memory = model.project_memory(model.encode({"inputs": tf.constant([[3, 4, 1], [5, 1, 0]])}), {})
    expected, together = _extended(decoder, decoder.start_cache(SIZE), states, memory)
    order = tf.constant([[1, 0, 2, 3], [0, 2, 1, 3]])
    request.getfixturevalue("xla_for_gpu")
    separate = decoder.start_cache(SIZE)
    assert len(separate) == 3
    found, separate = _extended(decoder, separate, states, memory)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    for moved in (False, True):
        if moved:
            together = decoder.move_columns(together, SIZE, order)
            separate = decoder.move_columns(separate, SIZE, order)
        for layer, stores in enumerate(together):
            for name, store in stores.items():
                parts = [step[layer][name] for step in separate]
                np.testing.assert_allclose(tf.concat(parts, axis=0), store, atol=1e-6)


def test_loop_that_is_not_unrolled_has_one_cache(xla_for_gpu):
    steps = step_loop.MAX_UNROLLED_STEPS + 1
    decoder = examples.make("universal", f"num_rec_steps={steps}").decoder
    assert isinstance(decoder.start_cache(SIZE)[0], dict)
