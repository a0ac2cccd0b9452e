"""What every command shares: one line and an exit code for what a user can do something about.

A stack trace is left to bugs. Exit codes: 0 done, 2 something is wrong with what was asked for,
128 + N stopped by signal N with everything saved.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence

from ut_keras import errors, file_error, interruption
from ut_keras.bin import terminal
from ut_keras.errors import UsageError, UserError

_MOST_WORD, _MOST_LINE = 200, 400  # characters that are shown of an error


def run(function: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        function: from the list of arguments to an exit code, or None for 0.
        argv: list of str, without the program's name; None takes the process's.

    Returns:
        int, the exit code.
    """
    with terminal.may_go():
        try:
            return _exit_code(function, argv)
        except Exception:
            if argv is not None:
                raise
            traceback.print_exc()  # here, for a stack trace shows what servers and files write, too
            return 1


def _exit_code(function, argv):
    is_process = argv is None
    try:
        with interruption.EndsAtOnce(is_last=is_process):
            return function(sys.argv[1:] if is_process else argv) or 0
    except interruption.Interrupted as interrupted:
        print(interrupted, flush=True)
        return interrupted.exit_code
    except interruption.StoppedAtOnce as stopped:
        print(stopped, file=sys.stderr, flush=True)
        return stopped.exit_code
    except BaseException as error:
        line = _line(error)
        if line is None:
            raise
        return _complain(line)


def load_tensorflow(what: str = "") -> None:
    """Imports TensorFlow, which takes seconds; a signal ends the process where it is.

    Args:
        what: str. What is loaded with it, said in a line, for it may take half a minute.
    """
    if what:
        print(f"Loading {what}…", flush=True)
    with (
        os.fdopen(os.dup(2), "wb") as stderr,  # what the log lines are kept from
        interruption.EndsAtOnce(stderr.fileno(), raises=False),
    ):
        import tensorflow  # noqa: F401


def import_user_package(directory: str) -> None:
    """Imports the package in `directory` (--t2t_usr_dir), which registers what it holds.

    Raises:
        UsageError: if there is no package, or it cannot be imported: names the line.
    """
    if not directory:
        return
    from ut_keras.t2t import usr_dir

    path = os.path.realpath(os.path.expanduser(directory))
    if not os.path.isfile(os.path.join(path, "__init__.py")):
        raise UsageError(
            f"--t2t_usr_dir must be a folder with an __init__.py. Received: {directory!r}."
        )
    try:
        usr_dir.load(path)
    except (Exception, SystemExit) as error:
        said = errors.of_package(error) or f"{type(error).__name__}: {error}"
        raise UsageError(
            "--t2t_usr_dir must be a package that can be imported. "
            f"Received: {directory!r}, {said}."
        ) from error


def registry_help() -> str:
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
    print(f"error: {_cut(' '.join(words), _MOST_LINE)}", file=sys.stderr, flush=True)
    return 2


def _cut(text, most):
    """The beginning and the end of a text that is longer."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _line(error):
    """What a user is told of an error; None of what keeps its stack trace, a bug of ours."""
    if isinstance(error, UserError):
        return str(error)
    said = _within_a_graph(error) or errors.of_package(error)
    if said is not None:
        return str(said)
    if isinstance(error, OSError) or file_error.of_tensorflow(error) is not None:
        return file_error.line(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        reason = str(getattr(error, "message", error)).strip() or "out of memory"
        return f"There must be enough memory. Received: {reason.splitlines()[0]}"
    return None


def _within_a_graph(error):
    """The `UserError` behind an error that TensorFlow raised while it made a graph, or None."""
    while error is not None and type(error).__name__ == "StagingError":
        error = error.__cause__ or error.__context__
    return error if isinstance(error, UserError) else None
