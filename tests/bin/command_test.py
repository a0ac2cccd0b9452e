"""Commands continue after the terminal closes, and escape control characters in output."""

import contextlib
import errno
import io
import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.bin import full_disk
from ut_keras.bin import command, command_line, flags
from ut_keras.errors import DataError, UserError
from ut_keras.ops import private_api
from ut_keras.process import live_line


def _in_a_graph(error):
    """Return a command that raises `error` while TensorFlow traces a graph."""

    def inner(x):
        if x is not None:
            raise error
        return x

    return lambda argv: tf.function(lambda x: inner(x))(tf.zeros(1))


def test_user_error_in_graph_is_one_line(capsys):
    assert command.run(_in_a_graph(DataError("It must be a dict. Received: 3.")), []) == 2
    assert capsys.readouterr().err == "error: It must be a dict. Received: 3.\n"


def test_bug_keeps_its_stack_trace():
    with pytest.raises(RuntimeError, match="a bug"):
        command.run(_in_a_graph(RuntimeError("a bug")), [])


@pytest.mark.parametrize("argv, limits", [([], []), (["--worker_gpu_memory_fraction=.5"], [0.5])])
def test_gpu_memory_is_allocated_as_needed(argv, limits, monkeypatch):
    found, grown = [], []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [f"{kind}:0", f"{kind}:1"])
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda gpu, on: grown.append((gpu, on))
    )
    monkeypatch.setattr(private_api, "limit_gpu_memory", found.append)
    command.load_tensorflow(args=command_line.parse(flags.TRAINER, argv, "ut-trainer", ""))
    assert grown == [("GPU:0", True), ("GPU:1", True)]
    assert found == limits


def test_gpu_memory_keeps_the_limit_of_a_running_process(monkeypatch, capsys):
    tf.zeros(1)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, on: None)
    argv = ["--worker_gpu_memory_fraction=0.5"]
    command.load_tensorflow(args=command_line.parse(flags.TRAINER, argv, "ut-trainer", ""))
    assert capsys.readouterr().out.startswith("note: TensorFlow is already running")


_ROOT = pathlib.Path(__file__).parents[2]
_PROGRAM = """
import pathlib, sys
from tests.bin import full_disk
from ut_keras.bin import command

def function(argv):
    print("ready", flush=True)
    sys.stdin.read()
    print("x" * 10_000, flush=True)
    print("y", file=sys.stderr, flush=True)
    pathlib.Path(argv[0]).write_text("done")

sys.exit(command.run(function))
"""


@pytest.mark.parametrize("opened", [os.openpty, os.pipe])
def test_closed_terminal_does_not_stop_the_command(tmp_path, opened):
    ours, theirs = opened()
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / "out")],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        assert os.read(ours, 100).strip() == b"ready"
        os.close(ours)
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert (tmp_path / "out").read_text() == "done"


_COMMAND = """
import sys
from ut_keras.bin import bleu, command, datagen, trainer

def typed(argv):
    for line in command.typed_lines(">"):
        print(line)

commands = {
    "help": lambda: trainer.main(),
    "registry": lambda: trainer.main(),
    "list": lambda: datagen.main(),
    "bleu": lambda: bleu.main(),
    "typed": lambda: command.run(typed),
    "bug": lambda: command.run(lambda argv: 1 // 0),
}
sys.exit(commands[sys.argv.pop(1)]())
"""
_LISTED = {
    "help": ["--help"],
    "registry": ["--registry_help"],
    "list": ["--only_list", "--problem=algorithmic_*"],
    "bleu": ["--reference=setup.cfg", "--translation=setup.cfg"],
}


def _run(name, *argv, **streams):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    words = [sys.executable, "-c", _COMMAND, name, *argv]
    return subprocess.run(words, cwd=_ROOT, text=True, timeout=60, **streams)


@pytest.mark.parametrize("name", _LISTED)
def test_full_standard_output_is_an_error(name):
    with open("/dev/full", "w") as full:
        result = _run(name, *_LISTED[name], stdout=full)
    assert result.returncode == 2
    assert result.stderr == f"error: {os.strerror(errno.ENOSPC)}: standard output\n"


@pytest.mark.parametrize("name", _LISTED)
def test_closed_pipe_is_not_an_error(name):
    reads, writes = os.pipe()
    os.close(reads)
    result = _run(name, *_LISTED[name], stdout=writes)
    os.close(writes)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name, code", [("bleu", 2), ("bug", 1)])
def test_full_standard_error_keeps_the_exit_code(name, code):
    with open("/dev/full", "w") as full:
        assert _run(name, stderr=full).returncode == code
        assert _run(name, stdout=full, stderr=full).returncode == code


def test_unreadable_standard_input_is_named():
    with open("/proc/self/mem") as source:
        result = _run("typed", stdin=source)
    assert result.returncode == 2
    assert result.stderr == f"error: {os.strerror(errno.EIO)}: standard input\n"


def test_full_standard_output_is_an_error_in_a_calling_program(monkeypatch, capsys):
    with full_disk.full_output() as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert command.run(lambda argv: print("short"), []) == 2
        assert f"{os.strerror(errno.ENOSPC)}: standard output" in capsys.readouterr().err
        # The command has not replaced the standard output of the calling program.
        assert os.path.samestat(os.fstat(full.fileno()), os.stat("/dev/full"))


def test_command_runs_with_closed_streams(tmp_path):
    words = [sys.executable, "-c", _PROGRAM, str(tmp_path / "out")]
    subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], cwd=_ROOT, check=True)
    assert (tmp_path / "out").read_text() == "done"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_output_escapes_control_characters(encoding):
    """Commands escape all output, including error messages and output to a pipe or a log."""
    hostile = "\x1b]0;mine\x07 \x9b2J \u202eevil \x7f \udcff \ud800 \u061c"
    shown = r"\x1b]0;mine\x07 \x9b2J \u202eevil \x7f \udcff \ud800 \u061c"

    def function(argv):
        print("a\tb\r\n", hostile)
        print("right\rwrong é", flush=True)
        line = live_line.LiveLine()
        line.write("two")
        line.clear()
        raise UserError(hostile)

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    out.isatty = lambda: True
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert command.run(function, []) == 2
    last = "é" if encoding == "utf-8" else r"\xe9"
    live = "\rtwo\r   \r"
    written = out.buffer.getvalue().decode(encoding)
    assert written == f"a\tb\r\n {shown}\nright\\rwrong {last}\n{live}"
    assert err.buffer.getvalue().decode() == f"error: {shown}\n"
