"""Seeds of what is drawn for rows and positions."""

import keras
import tensorflow as tf


def per_replica(generator: keras.random.SeedGenerator) -> tf.Tensor:
    """The next seed, int32 [2]: another in each replica, whose rows are others.

    Keras' own layers draw the same in all. What is drawn for a batch, a depth or where positions
    start, is the same in all replicas as it is for all rows of one device.
    """
    seed, replica = tf.cast(generator.next(), tf.int32), tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return seed
    return seed + tf.stack([tf.cast(replica.replica_id_in_sync_group, tf.int32), 0])
