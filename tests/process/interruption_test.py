"""A signal ends a command at any time.

The command then prints one line and exits with the exit code of the signal.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from ut_keras.process import interruption

_ROOT = pathlib.Path(__file__).parents[2]
_LINES = {
    "SIGINT": (130, "Ctrl-C: stopped.\n"),
    "SIGTERM": (143, "SIGTERM: stopped.\n"),
    "SIGHUP": (129, "SIGHUP: stopped.\n"),
}
_PROGRAM = """
import os, signal, sys, time
from ut_keras.bin import command

def ready(seconds=60):
    print("ready", flush=True)
    time.sleep(seconds)

{body}

sys.exit(command.run(function))
"""
_CLEARS = """
def function(argv):
    try:
        ready()
    finally:
        print("cleared", flush=True)
"""
_WRAPS = """
def function(argv):
    try:
        ready()
    except BaseException as error:
        raise ValueError("something else") from error
"""
_CLEARS_LONG = """
def function(argv):
    try:
        ready()
    finally:
        ready()
"""
_LEAVES_A_THREAD = """
import threading

def function(argv):
    threading.Thread(target=lambda: (threading.main_thread().join(), ready())).start()
    ready()
"""
_LOADS = """
def function(argv):
    command.load_tensorflow()
"""
_IS_IN_C_CODE = """
import contextlib, hashlib, threading
from ut_keras.process import interruption

def function(argv):
    with {context}:
        # The main thread is in the call when another thread prints.
        threading.Timer(1, print, ["ready"], {{"flush": True}}).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)  # a minute without signal handlers
"""
# This import swallows all exceptions, and the program hides its output.
_TENSORFLOW = """
import os, time
os.write(2, b"note")
print("ready", flush=True)
while True:
    try:
        time.sleep(60)
    except:
        pass
"""


@pytest.fixture(autouse=True)
def _listens():
    """Let the process receive SIGHUP as in a terminal, even if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def _run(body, name="SIGINT", times=1, **environment):
    """Return (exit code, stdout, stderr) of a command that receives signals when it is ready."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(body=body)],
        cwd=_ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            for _ in range(times):
                assert process.stdout.readline() == "ready\n", process.stderr.read()
                process.send_signal(getattr(signal, name))
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    # On a loaded machine, the command may end so late that it first prints an acknowledgement of
    # the signal. The tests ignore this acknowledgement.
    return process.returncode, out, re.sub(r"\w+(-C)?: stopping…\n", "", err)


@pytest.mark.parametrize("name", _LINES)
def test_signal_runs_cleanup_code(name):
    code, line = _LINES[name]
    assert _run(_CLEARS, name) == (code, "cleared\n", line)


def test_signal_replaced_by_other_error_still_ends_command():
    code, line = _LINES["SIGTERM"]
    assert _run(_WRAPS, "SIGTERM") == (code, "", line)


def test_second_signal_exits_immediately():
    code, line = _LINES["SIGINT"]
    assert _run(_CLEARS_LONG, times=2) == (code, "", line)


def test_signal_during_thread_shutdown_exits_immediately():
    """With `is_last`, Python prints no stack trace and does not continue to wait for the thread."""
    line = _LINES["SIGINT"][1]
    assert _run(_LEAVES_A_THREAD, times=2) == (-signal.SIGINT, "", line)


@pytest.mark.parametrize(
    "context, acknowledgement",
    [
        ("contextlib.nullcontext()", "Ctrl-C: stopping…\n"),
        ("interruption.StopRequest(waits=False)", "Ctrl-C: stopping…\n"),
        ("interruption.StopRequest()", "Ctrl-C: stopping after the current step."),
    ],
)
def test_signal_is_acknowledged_inside_c_code(context, acknowledgement):
    """The process prints a line, although Python's own handlers must wait until the C call ends."""
    program = _PROGRAM.format(body=_IS_IN_C_CODE.format(context=context))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            process.send_signal(signal.SIGINT)
            line = process.stderr.readline()
            assert line.startswith(acknowledgement) and process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signal_during_tensorflow_import_ends_command(name, tmp_path):
    (tmp_path / "tensorflow.py").write_text(_TENSORFLOW)
    code, line = _LINES[name]
    assert _run(_LOADS, name, PYTHONPATH=str(tmp_path)) == (code, "", line)


def test_hangup_stays_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption.RaiseOnSignal(), interruption.StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


def test_stop_request_waits_only_if_there_is_state_to_save():
    with interruption.StopRequest(waits=False) as stop:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        stop.waits = True
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.requested
    assert stop.stopped("all is saved").exit_code == 129
    assert str(stop.stopped("all is saved")) == "SIGHUP: all is saved"


def test_default_signal_actions_removes_handlers_of_c_code():
    """With several workers, TensorFlow's C++ code installs a handler for SIGTERM."""
    before = [signal.getsignal(getattr(signal, name)) for name in _LINES]
    with interruption.DefaultSignalActions():
        assert {signal.getsignal(getattr(signal, name)) for name in _LINES} == {signal.SIG_DFL}
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    assert [signal.getsignal(getattr(signal, name)) for name in _LINES] == before
