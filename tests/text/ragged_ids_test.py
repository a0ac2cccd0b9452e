import gc

import numpy as np

from ut_keras.text.ragged_ids import RaggedIds

ROWS = [[5, 6], [], [7], [70_000, 8, 9], []]


def test_from_lists_and_to_lists_are_inverse():
    ids = RaggedIds.from_lists(ROWS)
    assert (ids.values.dtype, ids.row_splits.dtype) == (np.int32, np.int64)
    assert ids.row_splits.tolist() == [0, 2, 2, 3, 6, 6]
    assert ids.to_lists() == ROWS
    assert [ids.row(i).tolist() for i in range(5)] == ROWS
    assert RaggedIds.from_lists([]).to_lists() == []
    small = RaggedIds.from_lists([[0, 2**16 - 1], [2]]).to_lists()
    assert small == [[0, 2**16 - 1], [2]]
    assert {type(i) for row in small for i in row} == {int}
    assert gc.isenabled()


def test_concatenate_joins_rows():
    parts = [RaggedIds.from_lists(rows) for rows in (ROWS[:2], [], ROWS[2:])]
    assert RaggedIds.concatenate(parts).to_lists() == ROWS
    assert RaggedIds.concatenate([]).to_lists() == []


def test_append_adds_an_id_to_every_row():
    ids = RaggedIds.from_lists(ROWS).append(1)
    assert ids.to_lists() == [[*row, 1] for row in ROWS]
    assert ids.values.dtype == np.int32
