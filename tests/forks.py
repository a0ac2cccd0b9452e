"""Run Python programs in forks of one process that has imported TensorFlow.

A new process spends 2 to 4 CPU seconds on the imports of TensorFlow, Keras and ut_keras. The forked
process has not used TensorFlow yet, so a fork can still create logical devices.
"""

import multiprocessing
import os
import runpy
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


def run(words, folder=".", environment=os.environ, prepare="", timeout=None):
    """Run `python WORDS` in a fork, with an empty stdin.

    The modules are already imported, so environment variables that only an import reads have no
    effect.

    Args:
        words: list of str. The first word is "-m" or the path of a script.
        folder: path of the program's working directory.
        environment: dict of environment variables.
        prepare: str. Python code that the fork executes before the program.
        timeout: int. After so many seconds, the fork is killed.

    Returns:
        subprocess.CompletedProcess with the exit code and the text of stdout and stderr.
    """
    context = multiprocessing.get_context("forkserver")
    # This has no effect if another test has started the process that is forked.
    context.set_forkserver_preload(_IMPORTED)
    with tempfile.TemporaryDirectory() as outputs:
        paths = [os.path.join(outputs, name) for name in ("stdout", "stderr")]
        arguments = (words, os.path.abspath(folder), dict(environment), prepare, paths)
        process = context.Process(target=_run_program, args=arguments)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
        texts = []
        for path in paths:
            with open(path, encoding="utf-8", errors="replace") as file:
                texts.append(file.read())
    return subprocess.CompletedProcess(words, process.exitcode, *texts)


def _run_program(words, folder, environment, prepare, outputs):
    speed.collect_garbage_less_often()
    speed.give_all_operations_one_traceback()
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
