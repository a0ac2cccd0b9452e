"""Seeds for each replica, and random numbers from seeds."""

from typing import Any

import keras
import tensorflow as tf

from ut_keras.ops import devices, private_api

_PHILOX = 1  # TensorFlow's number of the random number generator
_SEED_KEY = 0x02461E293EC8F720  # TensorFlow's constant key, see `_key_and_counter`
# 2**32 divided by the golden ratio, as an int32. The first multiples of this number are far from
# each other modulo 2**32.
_REPLICA_STRIDE = 0x9E3779B1 - 2**32


def per_replica(generator: keras.random.SeedGenerator) -> tf.Tensor:
    """Return the next seed, which is different in each replica.

    Replicas have different examples. If all replicas had the same seed, as in Keras' own layers,
    the examples of two replicas would get the same random numbers. Random numbers for a complete
    batch, such as the number of steps or the first position, must be equal in all replicas. Layers
    must not sample those numbers with this seed.

    The seeds of two replicas are far from each other. Therefore a layer with the seed 1 in the
    second replica samples other numbers than a layer with the seed 2 in the first replica. The
    first replica has the seed of a single device.

    Returns:
        int32 [2]. On a GPU without XLA, the dtype is int64, and the numbers are the same. There,
        TensorFlow would copy an int32 tensor from the GPU to the host.
    """
    replica = tf.distribute.get_replica_context()
    is_single = replica is None or replica.num_replicas_in_sync == 1
    if stays_on_gpu():
        state = _next_state(generator)
        if not is_single:
            state += _replica_offset(replica, tf.int64)
        # The result has the lower 32 bits with their sign, as after a cast to int32.
        return tf.bitwise.right_shift(tf.bitwise.left_shift(state, 32), 32)
    seed = tf.cast(generator.next(), tf.int32)
    if is_single:
        return seed
    return seed + _replica_offset(replica, tf.int32)


def _replica_offset(replica, dtype):
    """Return the numbers that a replica adds to a seed, [2]."""
    number = tf.cast(replica.replica_id_in_sync_group, dtype)
    return tf.stack([number * tf.constant(_REPLICA_STRIDE, dtype), tf.zeros_like(number)])


def random_int64(shape: Any, seed: tf.Tensor) -> tf.Tensor:
    """Return random numbers from the complete range of int64.

    The function is for programs without XLA. The result equals
    `tf.random.stateless_uniform(shape, seed, None, None, tf.int64)`. On a GPU, `stateless_uniform`
    copies the seed to the host, and computes a key from the seed there. So the host has to wait for
    the GPU. To avoid this wait, `random_int64` computes the key on the GPU.

    Args:
        shape: ints or int32 tensor.
        seed: int32 or int64 [2].
    """
    if not devices.has_gpu():
        return tf.random.stateless_uniform(shape, seed, None, None, tf.int64)
    key, counter = _key_and_counter(tf.cast(seed, tf.int64))
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=tf.int64
    )


def hashed_indices(shape: Any, seed: tf.Tensor) -> tf.Tensor:
    """Return one random number for each element: a hash of its index and the seed.

    The hash is lowbias32 (Wellons 2018) with two additional keys. Both keys depend on the seed. In
    these equations, ^ is the exclusive or, and >> is a shift to the right:

        x = index ^ key_0
        x = (x ^ (x >> 16)) * 0x7FEB352D
        x = (x ^ (x >> 15) ^ key_1) * 0x846CA68B
        number = x ^ (x >> 16)

    XLA computes these few operations inside the operation that reads the numbers. XLA's own random
    number generators have many more operations, and XLA stores their numbers.

    Args:
        shape: list of ints and int32 scalars, or int32 tensor.
        seed: int32 or int64 [2].

    Returns:
        uint32 tensor of the given shape.
    """
    count = tf.reduce_prod(tf.cast(shape, tf.int64))
    index = tf.cast(tf.reshape(tf.range(count), shape), tf.uint32)
    numbers = tf.bitcast(tf.cast(seed, tf.int32), tf.uint32)
    first_digits_of_pi = tf.constant([0x243F6A88, 0x85A308D3], tf.uint32)
    hashes = _lowbias32(numbers ^ first_digits_of_pi)
    # Each key depends on both numbers of the seed. If two seeds differ in a single number, they
    # still differ in both keys.
    keys = hashes ^ (hashes[::-1] * tf.constant([0x7FEB352D, 0x846CA68B], tf.uint32))
    return _lowbias32(index ^ keys[0], keys[1])


def _lowbias32(x, key=0):
    """Return the hash of uint32 numbers. See `hashed_indices`."""
    x = (x ^ _right(x, 16)) * tf.constant(0x7FEB352D, tf.uint32)
    x = (x ^ _right(x, 15) ^ key) * tf.constant(0x846CA68B, tf.uint32)
    return x ^ _right(x, 16)


def _right(x, bits):
    return tf.bitwise.right_shift(x, tf.constant(bits, tf.uint32))


def stays_on_gpu() -> bool:
    """Return whether special code of this module computes seeds and keys on a GPU.

    Under XLA, the result is False. XLA computes seeds and keys on the GPU without special code.
    """
    return devices.has_gpu() and not private_api.is_compiled_by_xla()


def _next_state(generator):
    """Return `generator.next()`, without Keras' multiplication that copies the state.

    Keras copies the state because other backends may overwrite it. TensorFlow does not overwrite
    the value of a variable while another operation can read the value.
    """
    state = tf.convert_to_tensor(generator.state.value)
    generator.state.assign(state + tf.constant([0, 1], tf.int64))
    return state


def _key_and_counter(seed):
    """Return the key, uint64 [1], and the counter, uint64 [2], that belong to a seed.

    A generator with a constant key and with the seed as its counter samples two random numbers.
    These numbers give the key and the counter. TensorFlow's operation StatelessRandomGetKeyCounter
    returns the same key and counter, but it runs on the host.

    Args:
        seed: int64 [2].
    """
    mixed = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[2],
        key=tf.constant([_SEED_KEY], tf.uint64),
        counter=tf.bitcast(seed, tf.uint64),
        alg=_PHILOX,
        dtype=tf.int64,
    )
    counter = mixed * tf.constant([0, 1], tf.int64)
    return tf.bitcast(mixed[:1], tf.uint64), tf.bitcast(counter, tf.uint64)
