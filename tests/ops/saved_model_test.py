"""A SavedModel gets the lookup tables of all layers."""

import keras
import tensorflow as tf

from ut_keras.ops import saved_model


def _table():
    initializer = tf.lookup.KeyValueTensorInitializer([3], [7])
    return tf.lookup.StaticHashTable(initializer, 0)


def test_tables_in_dicts_with_keys_of_several_types():
    """Python cannot sort such keys."""
    layer, tables = keras.layers.Layer(), [_table(), _table()]
    layer.sizes = {None: 1, "a": 2, 3: [4]}
    layer.tables = {1: {"own": [tables[0]]}, "others": (tables[1], None)}
    layer.again = tables[0]
    found = saved_model.tables([layer, keras.layers.Dense(2)])
    assert {id(table) for table in found} == {id(table) for table in tables}
    assert len(found) == 2
