"""What every command shares: one line and an exit code for what a user can do something about.

A stack trace is left to bugs. Exit codes: 0 done, 2 something is wrong with what was asked for,
128 + N stopped by signal N with everything saved.
"""

import importlib
import os
import sys
import tempfile
import traceback

from ut_keras.bin import flags
from ut_keras.errors import UserError

_MOST_WORD, _MOST_LINE = 200, 400  # characters that are shown of an error


def run(function, argv=None):
    """Runs a command.

    Args:
        function: from the list of arguments to an exit code, or None for 0.
        argv: list of str, without the program's name; None takes the process's.

    Returns:
        int, the exit code.
    """
    # TensorFlow's own notes would bury ours.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    argv = sys.argv[1:] if argv is None else argv
    try:
        return function(argv) or 0
    except UserError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.strerror or error}: {error.filename or 'no file name'}")
    except _out_of_memory() as error:
        reason = (str(getattr(error, "message", error)).strip() or "out of memory").splitlines()[0]
        return _complain(f"There must be enough memory. Received: {reason}")
    except _interruptions() as interruption:
        print(interruption, flush=True)
        return interruption.exit_code
    except KeyboardInterrupt:
        print("Ctrl-C: stopped; what was not saved before is lost.", file=sys.stderr)
        return 130


def load_tensorflow():
    """Imports TensorFlow and looks for devices, without its notes on how it was built.

    They are written before any log level counts. If something fails they are shown after all.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as notes, os.fdopen(os.dup(2), "wb") as stderr:
        os.dup2(notes.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        except BaseException:
            notes.seek(0)
            stderr.write(notes.read())
            raise
        finally:
            os.dup2(stderr.fileno(), 2)


def import_user_package(directory):
    """Imports the package in `directory` (--t2t_usr_dir), which registers what it holds.

    Raises:
        UsageError: if there is no package, or it cannot be imported: names the line.
    """
    if not directory:
        return
    path = os.path.abspath(os.path.expanduser(directory))
    parent, name = os.path.split(path)
    if not os.path.isfile(os.path.join(path, "__init__.py")):
        raise flags.UsageError(
            f"--t2t_usr_dir must be a folder with an __init__.py. Received: {directory!r}."
        )
    sys.path.insert(0, parent)
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise flags.UsageError(
            f"--t2t_usr_dir must be a package that can be imported. Received: {directory!r}, "
            f"{type(error).__name__}: {error}{_line_in(path, error)}."
        ) from error
    finally:
        sys.path.remove(parent)


def _line_in(folder, error):
    """Where in the files of a folder an error came up; "" if the error itself says it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(folder + os.sep)
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def registry_help():
    """Everything that has a name, as text."""
    import hparams
    import problems
    from ut_keras import models

    tables = {
        "Models": models.names(),
        "HParams sets": hparams.names(),
        "HParams ranges": hparams.range_names(),
        "Problems": problems.names(),
    }
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name}" for name in names) for title, names in tables.items()
    )


def _complain(message):
    words = (_cut(word, _MOST_WORD) for word in message.split())
    line = _cut(" ".join(words), _MOST_LINE)
    # What a terminal cannot write, such as the bytes of a name that is not UTF-8, is escaped.
    line = line.encode("utf-8", "backslashreplace").decode("utf-8")
    print(f"error: {line}", file=sys.stderr, flush=True)
    return 2


def _cut(text, most):
    """The beginning and the end of a text that is longer."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _out_of_memory():
    tensorflow = sys.modules.get("tensorflow")
    return (MemoryError, tensorflow.errors.ResourceExhaustedError) if tensorflow else MemoryError


def _interruptions():
    module = sys.modules.get("ut_keras.training.interruption")
    return module.Interrupted if module else ()
