import gc
import weakref

import numpy as np
import tensorflow as tf

from ut_keras.ops.weak_call import weak_call


class _Adder:
    def __init__(self, number):
        self._number = np.int64(number)

    def add(self, number):
        return self._number + number

    def dataset(self):
        # AutoGraph fails in Python 3.13 and then keeps a reference to the `_Adder`.
        @tf.autograph.experimental.do_not_convert
        def add(number):
            return tf.numpy_function(weak_call(self.add), [number], tf.int64)

        return tf.data.Dataset.range(3).map(add)


def test_weak_call_object_lives_as_long_as_dataset():
    dataset = _Adder(5).dataset()
    gc.collect()
    assert list(dataset.as_numpy_iterator()) == [5, 6, 7]
    batches = iter(dataset.batch(2).prefetch(1))
    del dataset
    gc.collect()
    assert [batch.numpy().tolist() for batch in batches] == [[5, 6], [7]]


def test_weak_call_object_is_freed_after_dataset():
    adder = _Adder(5)
    assert list(adder.dataset().as_numpy_iterator()) == [5, 6, 7]
    reference = weakref.ref(adder)
    del adder
    gc.collect()
    assert reference() is None
