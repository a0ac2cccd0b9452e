import itertools

import tensorflow as tf

from ut_keras.decoding import batch_seed


def test_batches_of_small_seeds_have_different_seeds():
    """A user who samples with the seeds 1, 2, 3 gets new samples in each call."""
    found = [
        batch_seed.of_group(batch_seed.of_batch(seed, batch), group)
        for seed, batch, group in itertools.product(range(20), range(200), range(8))
    ]
    assert len(set(found)) == len(found)
    assert min(found) >= 0 and max(found) < 2**31


def test_tensors_and_ints_give_the_same_seeds():
    largest = 2**63 - 1
    for seed, number in ((3, 0), (2**31 + 5, 7), (largest, 2**31 - 1)):
        for function in (batch_seed.of_batch, batch_seed.of_group):
            expected = function(seed, number)
            assert function(tf.constant(seed, tf.int64), tf.constant(number, tf.int64)) == expected
    assert batch_seed.of_batch(3, 0) == 3 == batch_seed.of_group(3, 0)
