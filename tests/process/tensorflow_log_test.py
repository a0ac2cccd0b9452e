import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A package in TensorFlow's place, which writes what TensorFlow's own parts write.
FAKE = r"""
import logging, os, sys
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are on STDERR\n")
os.write(2, b"I0000 00:00:1795317762.092182    7400 port.cc:153] a note\n")
os.write(2, b"W0000 00:00:1795317762.092182    7400 port.cc:153] a warning\n")
os.write(2, b"E0000 00:00:1795317762.092182    7400 port.cc:153] an error\n")
print("somebody else's line", file=sys.stderr)


def get_logger():
    logger = logging.getLogger("tensorflow")
    if not logger.handlers:  # as in a notebook
        logger.addHandler(logging.StreamHandler(sys.stdout))
        logger.setLevel(logging.INFO)
    return logger
"""
REAL = """
import importlib.util
import ut_keras
assert importlib.util.find_spec("tensorflow")
import tensorflow as tf
tf.config.list_physical_devices()
ids = tf.range(6)
for dtype in (tf.int32, tf.int64):
    tf.function(lambda x: tf.matmul(x[None] * 2 + 1, x[:, None]))(tf.cast(ids, dtype))
"""


def _stderr(program, folder=ROOT, level=None, fails=False):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), ROOT])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr


def test_tensorflow_is_silent():
    assert _stderr(REAL) == ""


@pytest.mark.parametrize("level, shown", [(None, 0), ("3", 0), ("2", 1), ("1", 2), ("0", 4)])
def test_shown_while_it_is_imported(level, shown, tmp_path):
    """What the level lets through, and what is not TensorFlow's."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    lines = _stderr("import ut_keras, tensorflow", tmp_path, level).splitlines()
    assert lines.pop() == "somebody else's line"
    assert len(lines) == shown and all("0000 00:00" in line for line in lines[1:])


@pytest.mark.parametrize("before", [None, "DEBUG"])
def test_notes_of_its_python_parts(before, tmp_path):
    """Left out, unless their level was set before."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    program = f"logging.getLogger('tensorflow').setLevel({before!r}); " if before else ""
    program = f"import logging, sys; {program} import ut_keras, tensorflow; "
    program += "print(tensorflow.get_logger().isEnabledFor(logging.INFO), file=sys.stderr)"
    assert _stderr(program, tmp_path).splitlines()[-1] == str(before is not None)


def test_a_failing_import_shows_everything(tmp_path):
    (tmp_path / "tensorflow.py").write_text(FAKE + "raise ImportError('no such symbol')\n")
    shown = _stderr("import ut_keras, tensorflow", tmp_path, fails=True)
    assert "a note\n" in shown and shown.endswith("ImportError: no such symbol\n")


def test_a_process_of_ours_inherits_the_silence(tmp_path):
    (tmp_path / "tensorflow.py").write_text(FAKE)
    program = (
        "import subprocess, sys, ut_keras; "
        "subprocess.run([sys.executable, '-c', 'import ut_keras, tensorflow'])"
    )
    assert _stderr(program, tmp_path) == "somebody else's line\n"
