import io
import os
import shutil

from ut_keras.live_line import LiveLine, clock_time


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_line_elsewhere_every_few_seconds():
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


def test_a_terminal_has_one_line(monkeypatch):
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


def test_clock_time():
    assert [clock_time(s) for s in (20.5, 194, 11645)] == ["00:21", "03:14", "3:14:05"]
