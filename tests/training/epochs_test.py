import tensorflow as tf

from ut_keras.training import distribution, epochs


def _make_epoch(number):
    """Batches 10 * number + (0, 1, 2)."""
    return tf.data.Dataset.range(10 * number, 10 * number + 3)


def _epochs(position=None):
    made = epochs.Epochs(_make_epoch, distribution.get_strategy(devices=["CPU:0"]))
    if position is not None:
        for name, value in position.items():
            made.position[name].assign(value)
        made.read_position()
    return made


def _take(iterator, count):
    return [int(next(iterator)) for _ in range(count)]


def test_epochs_follow_each_other():
    assert _take(_epochs(), 7) == [0, 1, 2, 10, 11, 12, 20]


def test_every_place_can_be_gone_on_from():
    expected = _take(_epochs(), 10)
    for place in (0, 2, 3, 4, 6):
        first = _epochs()
        _take(first, place)
        first.write_position()
        second = _epochs({name: variable.numpy() for name, variable in first.position.items()})
        assert _take(second, 2) == expected[place : place + 2], place


def test_element_spec_costs_no_batch():
    iterator = _epochs()
    assert iterator.element_spec.dtype == tf.int64
    assert _take(iterator, 2) == [0, 1]
