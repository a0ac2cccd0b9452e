"""Seeds for random numbers per example or per position."""

import keras
import tensorflow as tf


def per_replica(generator: keras.random.SeedGenerator) -> tf.Tensor:
    """Return the next seed, int32 [2], which is different in each replica.

    Replicas have different examples. If all replicas had the same seed, as in Keras' own layers,
    the examples of two replicas would get the same random numbers. Random numbers for a complete
    batch, such as the number of steps or the first position, must be equal in all replicas. They
    are not sampled with this seed.
    """
    seed, replica = tf.cast(generator.next(), tf.int32), tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return seed
    return seed + tf.stack([tf.cast(replica.replica_id_in_sync_group, tf.int32), 0])
