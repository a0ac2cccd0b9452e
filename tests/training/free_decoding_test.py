import numpy as np
import pytest
import tensorflow as tf

from ut_keras.decoding import beam_search
from ut_keras.training import free_decoding

TARGETS = np.array([[5, 6, 7, 1], [5, 6, 1, 0], [5, 1, 0, 0], [5, 6, 7, 1]], np.int32)
DECODED = np.array(
    [
        [5, 6, 7, 1, 0],  # right
        [5, 6, 6, 6, 1],  # too long
        [6, 1, 0, 0, 0],  # wrong
        [5, 6, 1, 0, 0],  # too short
    ],
    np.int32,
)


class Decoded:
    """A model that writes what it is told to."""

    def generate(self, inputs, **settings):
        return beam_search.Decoded(tf.constant(DECODED[:, None]), tf.zeros([len(DECODED), 1]))


def test_character_and_sequence_accuracy():
    features = {"inputs": TARGETS, "targets": TARGETS}
    dataset = tf.data.Dataset.from_tensors((features, TARGETS))
    settings = free_decoding.DecodeSettings(beam_size=1)
    results, samples = free_decoding.FreeDecoder(Decoded(), settings, class_labels=False)(dataset)
    assert results["decode/accuracy_per_sequence"] == 1 / 4
    assert results["decode/accuracy"] == pytest.approx((3 + 2 + 0 + 2) / (3 + 2 + 1 + 3))
    assert [sample.is_right for sample in samples] == [True, False, False]
