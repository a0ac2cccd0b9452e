"""Run Python programs in forks of one process that has imported TensorFlow.

A new process spends 2 to 4 CPU seconds on the imports of TensorFlow, Keras and ut_keras. The forked
process has not used TensorFlow yet, so a fork can still create logical devices.
"""

import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile

from tests import speed

_IMPORTED = (
    "tensorflow",
    "keras",
    "tensorflow_text",
    "ut_keras.checkpoints.checkpoint",
    "ut_keras.inference.run_directory",
    "ut_keras.training.trainer",
)


class Program:
    """A Python program in a fork, with a subset of the methods of `subprocess.Popen`."""

    def __init__(self, process, words, outputs):
        self._process = process
        self._words = words
        self._outputs = outputs  # a folder that is removed together with this object

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def send_signal(self, number):
        os.kill(self._process.pid, number)

    def kill(self):
        self._process.kill()

    def communicate(self, timeout=None):
        """Wait for the end of the program, and return the texts of stdout and stderr.

        Raises:
            subprocess.TimeoutExpired: if the program has not ended after `timeout` seconds.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._words, timeout)
        texts = []
        for path in _output_paths(self._outputs):
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
        return tuple(texts)

    def __del__(self):
        shutil.rmtree(self._outputs, ignore_errors=True)


def start(words, folder=".", environment=os.environ, prepare=""):
    """Start `python WORDS` in a fork, with an empty stdin, and return the `Program`.

    The modules are already imported, so environment variables that only an import reads have no
    effect.

    Args:
        words: list of str. The first word is "-m" or the path of a script.
        folder: path of the program's working directory.
        environment: dict of environment variables.
        prepare: str. Python code that the fork executes before the program.
    """
    context = multiprocessing.get_context("forkserver")
    # This has no effect if another test has started the process that is forked.
    context.set_forkserver_preload(_IMPORTED)
    outputs = tempfile.mkdtemp()
    paths = _output_paths(outputs)
    for path in paths:  # a program that is killed early has empty outputs
        open(path, "w").close()
    arguments = (words, os.path.abspath(folder), dict(environment), prepare, paths)
    process = context.Process(target=_run_program, args=arguments)
    process.start()
    return Program(process, words, outputs)


def run(words, folder=".", environment=os.environ, prepare="", timeout=None):
    """Run `python WORDS` in a fork until its end. The arguments are those of `start`.

    Args:
        words, folder, environment, prepare: see `start`.
        timeout: int. After so many seconds, the fork is killed.

    Returns:
        subprocess.CompletedProcess with the exit code and the text of stdout and stderr.
    """
    program = start(words, folder, environment, prepare)
    try:
        texts = program.communicate(timeout)
    except subprocess.TimeoutExpired:
        program.kill()
        texts = program.communicate()
    return subprocess.CompletedProcess(words, program.returncode, *texts)


def _output_paths(folder):
    return [os.path.join(folder, name) for name in ("stdout", "stderr")]


def _run_program(words, folder, environment, prepare, outputs):
    speed.collect_garbage_less_often()
    speed.skip_fsync()
    speed.ignore_imported_objects()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in zip((sys.stdout, sys.stderr), outputs, strict=True):
        with open(path, "w") as file:
            os.dup2(file.fileno(), stream.fileno())
    exec(prepare, {})
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")
