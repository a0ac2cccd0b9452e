import io

from ut_keras.inference import decode_rows, padding
from ut_keras.inference.journal import Journal

WORDS = ["three", "a", "longest one", "to", "seven"]
BATCHES = padding.plan([len(word) for word in WORDS], tokens=12, most_rows=2)


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
