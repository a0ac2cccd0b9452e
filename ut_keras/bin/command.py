"""What every command shares: one line and an exit code for what a user can do something about.

A stack trace is left to bugs. Exit codes: 0 done, 2 something is wrong with what was asked for,
128 + N stopped by signal N with everything saved.
"""

import importlib
import os
import sys

from ut_keras import file_error, hparam, registry
from ut_keras.bin import flags, terminal
from ut_keras.data import tfrecords
from ut_keras.training import interruption

# These need TensorFlow: if their module was not loaded, nothing has raised them.
_LATE_ERRORS = (
    ("ut_keras.training.checkpoint", "CheckpointError"),
    ("ut_keras.training.cluster", "ClusterError"),
    ("ut_keras.training.distribution", "DeviceError"),
    ("ut_keras.training.dry_run", "TooLarge"),
    ("ut_keras.training.early_stopping", "MetricError"),
    ("ut_keras.training.evaluation", "EmptyDatasetError"),
    ("ut_keras.training.trainer_lib", "NonFiniteError"),
)
_EARLY_ERRORS = (
    flags.UsageError,
    hparam.HParamError,
    registry.UnknownNameError,
    tfrecords.DataError,
)


def run(function, argv=None):
    """Runs a command.

    Args:
        function: from the list of arguments to an exit code, or None for 0.
        argv: list of str, without the program's name; None takes the process's.

    Returns:
        int, the exit code.
    """
    argv = sys.argv[1:] if argv is None else argv
    with terminal.may_go():
        return _exit_code(function, argv)


def _exit_code(function, argv):
    try:
        with interruption.EndsAtOnce():
            return function(argv) or 0
    except _expected_errors() as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(file_error.line(error))
    except _tensorflow_errors() as error:
        if file_error.of_tensorflow(error) is None:
            raise
        return _complain(file_error.line(error))
    except interruption.Interrupted as interrupted:
        print(interrupted, flush=True)
        return interrupted.exit_code
    except interruption.StoppedAtOnce as stopped:
        print(stopped, file=sys.stderr, flush=True)
        return stopped.exit_code


def load_tensorflow():
    """Imports TensorFlow, which takes seconds; a signal ends the process where it is."""
    with (
        os.fdopen(os.dup(2), "wb") as stderr,  # what the log lines are kept from
        interruption.EndsAtOnce(stderr.fileno(), raises=False),
    ):
        import tensorflow  # noqa: F401


def import_user_package(directory):
    """Imports the package in `directory` (--t2t_usr_dir), which registers what it holds.

    Raises:
        UsageError: if there is no package.
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
    finally:
        sys.path.remove(parent)


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
    print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return 2


def _expected_errors():
    late = (
        getattr(sys.modules[module], name) for module, name in _LATE_ERRORS if module in sys.modules
    )
    return (*_EARLY_ERRORS, *late)


def _tensorflow_errors():
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow.errors.OpError if tensorflow else ()
