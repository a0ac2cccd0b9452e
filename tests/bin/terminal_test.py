"""A command whose terminal is closed goes on."""

import os
import pathlib
import subprocess
import sys

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
