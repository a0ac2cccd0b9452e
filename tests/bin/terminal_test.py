"""A command whose terminal is closed goes on; what it prints does not command the terminal."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys

import pytest

from ut_keras.bin import command
from ut_keras.errors import UserError

_ROOT = pathlib.Path(__file__).parents[2]
_PROGRAM = """
import pathlib, sys
from ut_keras.bin import command

def function(argv):
    print("ready", flush=True)
    sys.stdin.read()
    print("x" * 10_000, flush=True)
    print("y", file=sys.stderr, flush=True)
    pathlib.Path(argv[0]).write_text("done")

sys.exit(command.run(function))
"""


def test_printing_to_a_terminal_that_is_gone_ends_nothing(tmp_path):
    ours, theirs = os.openpty()
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
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert (tmp_path / "out").read_text() == "done"


class _Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_is_shown_no_commands(is_terminal):
    """Whatever is printed, an error's line too; what is no terminal gets what there is."""
    hostile = "\x1b]0;mine\x07 \x9b2J \u202eevil \x7f"
    shown = r"\x1b]0;mine\x07 \x9b2J \u202eevil \x7f" if is_terminal else hostile

    def function(argv):
        print("a\tb\r\n", hostile)
        raise UserError(hostile)

    out, err = _Stream(is_terminal), _Stream(is_terminal)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert command.run(function, []) == 2
    assert out.getvalue() == f"a\tb\r\n {shown}\n"
    assert err.getvalue() == f"error: {shown}\n"
