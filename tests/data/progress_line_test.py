import io

import pytest

from ut_keras.data import progress_line


class _Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    return Clock()


def test_line_says_rate_and_time_left(clock):
    stream = io.StringIO()
    with progress_line.ProgressLine("x", 4000, clock=clock, stream=stream, done=1000) as line:
        clock.now += 50
        line.add(500)
    assert stream.getvalue() == "x: 1500 of 4000 (38 %), 10/s, 4 min 10 s left\n"


def test_line_without_a_total(clock):
    stream = io.StringIO()
    line = progress_line.ProgressLine("x", clock=clock, stream=stream, show=progress_line.size)
    clock.now += 40
    line.add(60_000_000)
    assert stream.getvalue() == "x: 60 MB, 1.5 MB/s\n"


def test_short_work_is_silent_and_logs_do_not_fill_up(clock):
    stream = io.StringIO()
    line = progress_line.ProgressLine("x", clock=clock, stream=stream)
    for _ in range(29):
        clock.now += 1
        line.add(1)
    assert stream.getvalue() == ""
    for _ in range(100):
        clock.now += 1
        line.add(1)
    assert stream.getvalue().count("\n") == 4


def test_on_a_terminal_the_line_is_written_over_and_taken_off(clock):
    stream = _Terminal()
    with progress_line.ProgressLine("x", clock=clock, stream=stream) as line:
        for _ in range(3):
            clock.now += 1
            line.add(1)
    lines = stream.getvalue().split("\r")
    assert "\n" not in stream.getvalue() and lines[1] == "x: 1, 1/s"
    assert lines[-2].isspace() and lines[-1] == ""


def test_says_what_is_waited_for(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    for stream, written in ((io.StringIO(), "x: asking a far place\n"), (_Terminal(), None)):
        line = progress_line.ProgressLine("x", clock=clock, stream=stream)
        assert not line.is_due
        clock.now += 60
        assert line.is_due
        line.say("asking a far place")
        assert not line.is_due
        assert stream.getvalue() == (written or "\rx: asking…far place")  # on one line


@pytest.mark.parametrize(
    "seconds, text", [(42.4, "42 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_duration(seconds, text):
    assert progress_line.duration(seconds) == text


@pytest.mark.parametrize("count, text", [(512, "512 B"), (84_213_000, "84.21 MB"), (2e9, "2 GB")])
def test_size(count, text):
    assert progress_line.size(count) == text
