import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# This fake package `tensorflow` writes the same kinds of lines as TensorFlow.
FAKE = r"""
import logging, os, sys
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are on STDERR\n")
os.write(2, b"I0000 00:00:1795317762.092182    7400 port.cc:153] a note\n")
os.write(2, b"W0000 00:00:1795317762.092182    7400 port.cc:153] a warning\n")
os.write(2, b"E0000 00:00:1795317762.092182    7400 port.cc:153] an error\n")
print("another program's line", file=sys.stderr)


def get_logger():
    logger = logging.getLogger("tensorflow")
    if not logger.handlers:  # in a notebook, TensorFlow also adds a handler for stdout
        logger.addHandler(logging.StreamHandler(sys.stdout))
        logger.setLevel(logging.INFO)
    return logger
"""
LOAD = "from ut_keras.process import tensorflow_log; tensorflow_log.load(); "
# `models.get` calls `load`.
REAL = """
from ut_keras import hparams, models
hp = hparams.get("transformer_tiny", "hidden_size=8,num_heads=2,filter_size=8")
models.get("transformer", hp, vocab_sizes={"inputs": 9, "targets": 9})
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


def test_models_and_graphs_are_silent():
    assert _stderr(REAL) == ""


@pytest.mark.parametrize("level, shown", [(None, 0), ("3", 0), ("2", 1), ("1", 2), ("0", 4)])
def test_load_shows_lines_by_level(level, shown, tmp_path):
    """`load` shows the lines that the level allows, and the lines of other programs."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    lines = _stderr(LOAD, tmp_path, level).splitlines()
    assert lines.pop() == "another program's line"
    assert len(lines) == shown and all("0000 00:00" in line for line in lines[1:])


@pytest.mark.parametrize("before", [None, "DEBUG"])
def test_load_hides_notes_of_the_python_logger(before, tmp_path):
    """TensorFlow's Python logger writes no INFO messages, unless its level was set before."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    program = f"logging.getLogger('tensorflow').setLevel({before!r}); " if before else ""
    program = f"import logging, sys; {program} {LOAD}"
    program += "print(logging.getLogger('tensorflow').isEnabledFor(logging.INFO), file=sys.stderr)"
    assert _stderr(program, tmp_path).splitlines()[-1] == str(before is not None)


def test_load_shows_everything_if_the_import_fails(tmp_path):
    (tmp_path / "tensorflow.py").write_text(FAKE + "raise ImportError('no such symbol')\n")
    shown = _stderr(LOAD, tmp_path, fails=True)
    assert "a note\n" in shown and shown.endswith("ImportError: no such symbol\n")


def test_child_processes_inherit_the_level(tmp_path):
    (tmp_path / "tensorflow.py").write_text(FAKE)
    program = (
        f"import os, subprocess, sys; {LOAD}"
        "subprocess.run([sys.executable, '-c', 'import os; os.write(2, os.environb["
        'b"TF_CPP_MIN_LOG_LEVEL"])\'])'
    )
    assert _stderr(program, tmp_path) == "another program's line\n3"


def test_importing_the_package_changes_no_log(tmp_path):
    """If a program imports TensorFlow itself, ut_keras does not change TensorFlow's log lines."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    plain = _stderr("import tensorflow", tmp_path)
    assert _stderr("import ut_keras, tensorflow", tmp_path) == plain


def test_held_back_hides_an_indirect_import(tmp_path):
    (tmp_path / "tensorflow.py").write_text(FAKE)
    (tmp_path / "user.py").write_text("import tensorflow")
    program = (
        "from ut_keras.process import tensorflow_log\n"
        "with tensorflow_log.held_back():\n"
        "    import user"
    )
    assert _stderr(program, tmp_path) == "another program's line\n"


def test_held_back_hides_lines_if_other_code_fails(tmp_path):
    """For example, a T2T package imports TensorFlow and then a module that is not installed."""
    (tmp_path / "tensorflow.py").write_text(FAKE)
    (tmp_path / "user.py").write_text("import tensorflow\nraise SystemExit('failed')")
    program = (
        "from ut_keras.process import tensorflow_log\n"
        "with tensorflow_log.held_back():\n"
        "    import user"
    )
    assert _stderr(program, tmp_path, fails=True) == "another program's line\nfailed\n"


@pytest.mark.parametrize(
    "statement",
    [
        "from ut_keras import optimizers",  # the quickstart also imports `optimizers` first
        *(
            pytest.param(statement, marks=pytest.mark.slow)
            for statement in (
                "from ut_keras import export",
                "from ut_keras import keras_file",
                "from ut_keras import layers",
                "from ut_keras import metrics",
                "from ut_keras import t2t_import",
                "from ut_keras.inference import saved_run",
                "from ut_keras.layers.halting import halting",
                "from ut_keras.visualize import observer",
            )
        ),
    ],
)
def test_import_of_a_public_module_is_silent(statement):
    program = f"import sys; {statement}; assert 'tensorflow' in sys.modules"
    assert _stderr(program) == ""
