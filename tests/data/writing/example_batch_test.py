import numpy as np
import pytest

from ut_keras.data import tfrecords
from ut_keras.data.writing import example_batch
from ut_keras.errors import DataError
from ut_keras.text.ragged_ids import RaggedIds


def _by_rows(columns):
    names, rows = list(columns), zip(*columns.values(), strict=True)
    return [dict(zip(names, values, strict=True)) for values in rows]


def test_serialize_matches_tfrecords_serialize():
    rng = np.random.default_rng(1)
    sizes = [1, 2, 40, 120, 127, 128, 129, 5000, 16_383, 16_384, 16_385, 3]
    columns = {
        "targets": [rng.integers(2**i, size=1 + i).tolist() for i in range(12)],
        "inputs": [rng.integers(40_000, size=size).tolist() for size in sizes],
        # `serialize` sorts feature names by their bytes. A name may be long.
        "Z" * 130: [[0, 127, 128, 16_383, 16_384, 2**21, 2**28 - 1, 2**28, 2**31 - 1, -1]] * 12,
        "ä": [[i] for i in range(12)],
    }
    ragged = {  # `RaggedIds` may also contain negative numbers, which are not ids
        name: RaggedIds(np.concatenate(rows).astype("int32"), np.cumsum([0, *map(len, rows)]))
        for name, rows in columns.items()
    }
    found = example_batch.serialize(ragged)
    assert found == [tfrecords.serialize(example) for example in _by_rows(columns)]


def test_serialize_rejects_empty_feature():
    columns = {"targets": [[1], [5], [], []], "inputs": [[3], [2, 4], [8], []]}
    with pytest.raises(DataError) as one:
        tfrecords.serialize(_by_rows(columns)[2])
    with pytest.raises(DataError) as many:
        example_batch.serialize(
            {name: RaggedIds.from_lists(rows) for name, rows in columns.items()}
        )
    assert str(many.value) == str(one.value)
