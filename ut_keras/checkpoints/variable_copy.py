"""The values of variables, set aside in host memory, where a train step does not change them.

copy = VariableCopy(groups)
copy.take()        what they are now
copy.put_back()    they are again what they were when it was taken
"""

from collections.abc import Mapping

import tensorflow as tf


class VariableCopy:
    """Copies of groups of variables.

    Args:
        groups: dict from group to dict from name to `tf.Variable`, mirrored ones included.

    Attributes:
        groups: the copies, under the same names.
    """

    def __init__(self, groups: Mapping[str, Mapping[str, tf.Variable]]) -> None:
        self._originals = groups
        with tf.device("CPU:0"):
            self.groups = {
                group: {
                    name: tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False)
                    for name, v in variables.items()
                }
                for group, variables in groups.items()
            }

    def take(self) -> None:
        """Copies the values."""
        for original, copy in self._pairs():
            copy.assign(original)

    def put_back(self) -> None:
        """Gives the variables the values that were copied last."""
        for original, copy in self._pairs():
            original.assign(copy.value())

    def _pairs(self):
        for group, variables in self._originals.items():
            for name, original in variables.items():
                yield original, self.groups[group][name]
