import types

import pytest
import tensorflow as tf

from ut_keras.training import dry_run

GIGABYTE = 10**9


class Machine:
    """A device on which a row takes a tenth of a gigabyte, and everything else two."""

    def __init__(self, limit, may_be_tried=False):
        self._limit = limit
        self.may_be_tried = may_be_tried
        self.tried = []

    def limit(self):
        return self._limit

    def reset_peak(self):
        self._peak = 0

    def peak(self):
        return self._peak

    def update(self, rows):
        self.tried.append(rows)
        self._peak = 2 * GIGABYTE + rows * GIGABYTE // 10
        if self._peak > self._limit:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating\nmore")
        return types.SimpleNamespace(loss=tf.constant(0.5))


def _largest(machine, rows=32, **options):
    def batch_of(share):
        part = max(1, round(rows * share))
        return part, (part, 256)

    return dry_run.LargestBatch(machine.update, batch_of, machine, **options)


def test_what_fits_is_run_and_measured():
    machine = Machine(6 * GIGABYTE)
    usage = _largest(machine).run()
    assert usage == ((32, 256), 5.2 * GIGABYTE, 6 * GIGABYTE)
    assert str(usage) == "Largest batch: 32 x 256, 5.2 GB of 6.0 GB of memory"
    assert machine.tried[-1] == 32


def test_what_would_be_killed_is_not_tried():
    machine = Machine(5 * GIGABYTE)
    with pytest.raises(dry_run.TooLarge, match=r"32 rows of up to 256 ids: about 5.2 GB .* 5.0 GB"):
        _largest(machine).run()
    assert max(machine.tried) == 8


def test_what_can_be_caught_is_tried_at_once():
    machine = Machine(5 * GIGABYTE, may_be_tried=True)
    with pytest.raises(dry_run.TooLarge, match="OOM when allocating. Take a smaller batch_size"):
        _largest(machine).run()
    assert machine.tried == [32]


def test_all_workers_give_up_together():
    machine = Machine(100 * GIGABYTE)
    with pytest.raises(dry_run.TooLarge):
        _largest(machine, agree=lambda here: True).run()


def test_where_every_shape_is_compiled_only_one_is():
    machine = Machine(6 * GIGABYTE)
    _largest(machine, any_shape=False).run()
    assert machine.tried == [32]
    assert _largest(machine, any_shape=False).share_that_fits() is None


def test_without_a_meter_it_is_run_all_the_same():
    machine = Machine(6 * GIGABYTE)
    largest = dry_run.LargestBatch(machine.update, lambda share: (32, (32, 256)), None)
    assert str(largest.run()) == "Largest batch: 32 x 256"
    assert machine.tried == [32]
    assert largest.share_that_fits() is None


def test_one_row_is_run_without_a_prediction():
    machine = Machine(6 * GIGABYTE)
    assert _largest(machine, rows=1).run().peak == 2.1 * GIGABYTE
    assert _largest(machine, rows=1).share_that_fits() is None


def test_a_quarter_that_does_not_fit_is_told_too():
    machine = Machine(2.5 * GIGABYTE, may_be_tried=True)
    with pytest.raises(dry_run.TooLarge, match="8 rows of up to 256 ids: OOM"):
        _largest(machine).share_that_fits()


def test_share_that_fits():
    # 85 % of 20 are 17 gigabytes, of which 15 are for rows: 150 of them instead of 32.
    assert _largest(Machine(20 * GIGABYTE)).share_that_fits() == pytest.approx(150 / 32)
    assert _largest(Machine(3 * GIGABYTE)).share_that_fits() == pytest.approx(5.5 / 32)
