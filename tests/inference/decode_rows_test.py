import io

import numpy as np

from ut_keras.inference import decode_rows
from ut_keras.inference.journal import Journal

WORDS = ["three", "a", "longest one", "to", "seven"]
BATCHES = decode_rows.plan([len(word) for word in WORDS], tokens=12, most_rows=2)


def _upper(number, rows):
    del number
    return [WORDS[row].upper() for row in rows]


def test_results_are_those_of_their_rows():
    results = decode_rows.decode_rows(BATCHES, _upper)
    assert [results[row] for row in range(5)] == [word.upper() for word in WORDS]


def test_goes_on_where_it_stopped(tmp_path):
    path = str(tmp_path / "partial")
    decoded = []

    def decode(number, rows):
        decoded.append(number)
        return _upper(number, rows)

    journal = Journal(path, "job")
    given_up = decode_rows.decode_rows(BATCHES, decode, journal, should_stop=lambda: True)
    assert given_up is None and decoded == [0]
    results = decode_rows.decode_rows(BATCHES, decode, Journal(path, "job"))
    assert decoded == list(range(len(BATCHES)))  # none of them twice
    assert [results[row] for row in range(5)] == [word.upper() for word in WORDS]


def test_asked_to_stop_behind_the_last_batch():
    assert len(decode_rows.decode_rows([[0, 1]], _upper, should_stop=lambda: True)) == 2


class _Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_progress_line():
    stream, clock = io.StringIO(), _Clock()
    progress = decode_rows.RowProgress([10, 10, 20, 40, 0], "lines", stream, 10.0, clock)
    progress.add([4], is_new=False)
    progress.add([3], is_new=False)  # of an earlier run: no time was spent on it
    clock.now = 4.0
    progress.add([2])
    assert stream.getvalue() == ""  # not yet due
    clock.now = 12.0
    progress.add([1])
    expected = "decoded 4/5 lines  0.2 lines/s  00:04 left"  # 30 positions took 12 s, 10 are left
    assert stream.getvalue().splitlines() == [expected]
    progress.end()
    assert len(stream.getvalue().splitlines()) == 1  # nothing new to say
    progress.add([0])
    progress.end()
    assert stream.getvalue().splitlines()[1:] == ["decoded 5/5 lines  0.2 lines/s  00:00 left"]


def test_example_of_the_docstring():
    assert decode_rows.plan([3, 9, 2, 8], tokens=20, most_rows=64) == [[1, 3], [0, 2]]


def test_every_row_once_within_the_limits():
    lengths = np.random.default_rng(1).integers(1, 60, size=500).tolist()
    batches = decode_rows.plan(lengths, tokens=200, most_rows=16)
    assert sorted(row for batch in batches for row in batch) == list(range(500))
    for batch in batches:
        assert len(batch) <= 16
        assert len(batch) * max(lengths[row] for row in batch) <= 200
    longest = [lengths[batch[0]] for batch in batches]
    assert longest == sorted(longest, reverse=True)
    # and full: no two neighbours would fit into one
    for one, other in zip(batches, batches[1:], strict=False):
        assert len(one) == 16 or (len(one) + 1) * lengths[one[0]] > 200, (one, other)


def test_row_longer_than_a_batch_is_alone():
    assert decode_rows.plan([5, 1000, 4], tokens=20, most_rows=9) == [[1], [0, 2]]


def test_any_number_of_tokens():
    assert decode_rows.plan([50, 60, 70], tokens=0, most_rows=2) == [[2, 1], [0]]


def test_same_length():
    batches = decode_rows.plan([2, 3, 2, 3, 3], tokens=100, most_rows=2, same_length=True)
    assert batches == [[1, 3], [4], [0, 2]]


def test_nothing():
    assert decode_rows.plan([], tokens=10, most_rows=10) == []
