import io
import os
import shutil
import time

import pytest

from ut_keras.process import live_line
from ut_keras.process.live_line import LiveLine, clock_time


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_live_line_in_log_is_a_line_every_few_seconds():
    now, stream = [0.0], io.StringIO()
    line = LiveLine(stream, log_seconds=10, clock=lambda: now[0])
    assert not line.is_due
    now[0] = 10.0
    assert line.is_due
    line.write("one")
    assert not line.is_due
    line.end()
    line.clear()
    assert stream.getvalue() == "one\n"


def test_live_line_on_terminal_is_overwritten(monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((6, 20)))
    stream = _Terminal()
    line = LiveLine(stream)
    for text in ("too long", "a"):
        line.write(text)
    assert stream.getvalue() == "\rto…ng\ra    "
    line.clear()
    assert stream.getvalue().endswith("\r     \r")
    line.clear()
    line.end()
    assert stream.getvalue().endswith("\r     \r")
    line.write("b")
    line.end()
    assert stream.getvalue().endswith("\rb\n")


def test_clock_time_formats_seconds():
    assert [clock_time(s) for s in (20.5, 194, 11645)] == ["00:21", "03:14", "3:14:05"]


class _TerminalStream(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    class Clock:
        now = 100.0

        def __call__(self):
            return self.now

    return Clock()


def test_progress_line_shows_rate_and_time_left(clock):
    stream = io.StringIO()
    with live_line.ProgressLine("x", 4000, clock=clock, stream=stream) as line:
        clock.now += 150
        line.add(1500)
    assert stream.getvalue() == "x: 1,500 of 4,000 (38 %), 10/s, 04:10 left\n"


def test_progress_line_without_total(clock):
    stream = io.StringIO()
    line = live_line.ProgressLine("x", clock=clock, stream=stream, show=live_line.size)
    clock.now += 40
    line.add(60_000_000)
    assert stream.getvalue() == "x: 60 MB, 1.5 MB/s\n"


def test_progress_line_in_log_is_rare(clock):
    stream = io.StringIO()
    line = live_line.ProgressLine("x", clock=clock, stream=stream)
    for _ in range(29):
        clock.now += 1
        line.add(1)
    assert stream.getvalue() == ""
    for _ in range(100):
        clock.now += 1
        line.add(1)
    assert stream.getvalue().count("\n") == 4


def test_progress_line_on_terminal_is_cleared_at_end(clock):
    stream = _TerminalStream()
    with live_line.ProgressLine("x", clock=clock, stream=stream) as line:
        for _ in range(3):
            clock.now += 1
            line.add(1)
    lines = stream.getvalue().split("\r")
    assert "\n" not in stream.getvalue() and lines[1] == "x: 1, 1/s"
    assert lines[-2].isspace() and lines[-1] == ""


def test_progress_line_shows_message(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    for stream, written in ((io.StringIO(), "x: asking a far place\n"), (_TerminalStream(), None)):
        line = live_line.ProgressLine("x", clock=clock, stream=stream)
        clock.now += 60
        line.show_message("asking a far place")
        line.set(1)  # the next update is not due yet
        assert stream.getvalue() == (written or "\rx: asking…far place")  # the output is one line


@pytest.mark.parametrize("count, text", [(512, "512 B"), (84_213_000, "84.21 MB"), (2e9, "2 GB")])
def test_size_formats_bytes(count, text):
    assert live_line.size(count) == text


def test_fit_omits_the_least_important_parts():
    parts = [(3, "step 1"), (1, "b"), (2, "cc"), (3, "loss 2"), (1, "d")]
    assert live_line.fit(parts, None) == "step 1  b  cc  loss 2  d"
    assert live_line.fit(parts, 18) == "step 1  cc  loss 2"
    assert live_line.fit(parts, 22) == "step 1  b  cc  loss 2"
    assert live_line.fit(parts, 17) == "step 1  loss 2"
    assert live_line.fit(parts, 9) == live_line.fit(parts, 3) == "step 1"


def test_dumb_terminal_is_a_log(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    stream = _Terminal()
    line = LiveLine(stream)
    line.write("one")
    assert not line.is_live and stream.getvalue() == "one\n"


def test_stopwatch_is_a_sign_of_life(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = _Terminal()
    with live_line.Stopwatch("Compiling…", "Compiled", stream, tick_seconds=0.01):
        while stream.getvalue().count("\r") < 3:
            time.sleep(0.01)
    first, *ticks, last = stream.getvalue().split("\r")[1:]
    assert first == "Compiling…" and {tick.strip() for tick in ticks} == {"Compiling… 0 s"}
    assert last.rstrip(" \n") == "Compiled in 0 s" and last.endswith("\n")


def test_stopwatch_in_log_shows_beginning_and_end():
    stream = io.StringIO()
    with live_line.Stopwatch("Compiling…", "Compiled", stream):
        pass
    with pytest.raises(KeyError), live_line.Stopwatch("Loading…", "Loaded", stream):
        raise KeyError
    assert stream.getvalue() == "Compiling…\nCompiled in 0 s\nLoading…\n"


@pytest.mark.parametrize("count, text", [(0, "0 files"), (1, "1 file"), (1000, "1,000 files")])
def test_counted_has_the_plural(count, text):
    assert live_line.counted(count, "file") == text
