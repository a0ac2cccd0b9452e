"""Run a command and report the errors that a user can fix in one line.

Only bugs print a stack trace. Exit codes: 0 for success, 2 for an error that the user can fix,
128 + N after signal N, when everything is saved.
"""

import argparse
import contextlib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ut_keras import errors
from ut_keras.bin import command_line
from ut_keras.errors import UsageError, UserError
from ut_keras.files import file_error
from ut_keras.process import interruption, tensorflow_log

Args = argparse.Namespace

_MAX_WORD, _MAX_LINE = 200, 400  # characters of an error message; longer ones are shortened


def run(function: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        function: function from the list of arguments to an exit code; None means 0.
        argv: list of str, without the program's name. None: the arguments of the process.
    """
    with safe_output() as outputs:
        try:
            return _exit_code(function, argv)
        except Exception:
            if argv is not None:
                raise
            # Print it here, because safe_output() must escape what servers and files contain.
            traceback.print_exc()
            return 1
        finally:
            if argv is None:
                for output in outputs:
                    output.drop()


def from_flags(
    table: Sequence[command_line.Flag], program: str, about: str
) -> Callable[[Callable[[Args], int | None]], Callable[..., int]]:
    """Return a decorator that turns a function of parsed flags into a command.

    The command is a function from `argv` (see `run`) to an exit code. If the flags include
    --registry_help, the command first imports the user's package (--t2t_usr_dir).

    Args:
        table: the flags of the command.
        program: str. Name of the command.
        about: str. Description for --help.
    """

    def decorator(function):
        def parsed(argv):
            words: list[str] = []
            args = command_line.parse(table, argv, program, about, words)
            others = words
            if "registry_help" in args:
                others = import_user_package(args.t2t_usr_dir, vars(args), words)
            if others:
                command_line.raise_unknown(others[0], table)
            args.package_words = words  # arguments for flags that the package defines
            if "registry_help" in args and args.registry_help:
                print(registry_help())
                return None
            return function(args)

        def main(argv: Sequence[str] | None = None) -> int:
            """Run the command and return the exit code."""
            return run(parsed, argv)

        return main

    return decorator


def _exit_code(function, argv):
    is_process = argv is None
    try:
        acknowledged = interruption.acknowledged() if is_process else contextlib.nullcontext()
        with acknowledged, interruption.RaiseOnSignal(is_last=is_process):
            return _run_and_flush(function, sys.argv[1:] if is_process else argv)
    except interruption.Interrupted as interrupted:
        with contextlib.suppress(OSError):  # the exit code carries the same information
            print(interrupted, flush=True)
        return interrupted.exit_code
    except interruption.StoppedBySignal as stopped:
        print(stopped, file=sys.stderr, flush=True)
        return stopped.exit_code
    except BaseException as error:
        line = _user_message(error)
        if line is None:
            raise
        words = (_shortened(word, _MAX_WORD) for word in line.split())
        print(f"error: {_shortened(' '.join(words), _MAX_LINE)}", file=sys.stderr, flush=True)
        return 2


def _run_and_flush(function, argv):
    """Call a function, flush its output and return the exit code."""
    try:
        code = function(argv) or 0
    except SystemExit as end:  # raised by --help
        if not end.code:
            sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def load_tensorflow(what: str = "", args: Args | None = None) -> None:
    """Import TensorFlow and configure its runtime.

    The import takes seconds. A signal during the import ends the process at once.

    Args:
        what: str. Prints "Loading {what}…" first, because loading may take half a minute. Optional.
        args: the flags of the command, whose runtime flags are applied. Optional.
    """
    if what:
        print(f"Loading {what}…", flush=True)
    with (
        os.fdopen(os.dup(2), "wb") as stderr,  # what the log lines are kept from
        interruption.RaiseOnSignal(stderr.fileno(), raises=False),
    ):
        tensorflow_log.load()
    import tensorflow as tf

    if args is None:
        return
    intra, inter = args.intra_op_parallelism_threads, args.inter_op_parallelism_threads
    if intra or inter:
        try:
            tf.config.threading.set_intra_op_parallelism_threads(intra)
            tf.config.threading.set_inter_op_parallelism_threads(inter)
        except RuntimeError:  # the process has already used TensorFlow
            print("note: TensorFlow is already running and keeps its number of threads", flush=True)
    if args.log_device_placement:
        tf.debugging.set_log_device_placement(True)


def import_user_package(
    directory: str, flags: Mapping[str, Any] | None = None, words: Sequence[str] = ()
) -> list[str]:
    """Import the user's package, which registers problems, models and hparams sets.

    Args:
        directory: str. Folder of the package (--t2t_usr_dir); "" for none.
        flags: dict. The command's flags, which the package can read as `tf.flags`. Optional.
        words: list of str. Arguments for flags that the package may define.

    Returns:
        The arguments that belong to no flag of the package either.

    Raises:
        UsageError: if there is no package, or it cannot be imported. The message names the line.
    """
    if not directory:
        return list(words)
    from ut_keras.t2t import usr_dir

    path = os.path.realpath(directory)
    if not os.path.isfile(os.path.join(path, "__init__.py")):
        raise UsageError(
            f"--t2t_usr_dir must be a folder with an __init__.py. Received: {directory!r}."
        )
    try:
        return usr_dir.load(path, flags, words)
    except (Exception, SystemExit) as error:
        message = errors.from_user_code(error) or f"{type(error).__name__}: {error}"
        raise UsageError(
            "--t2t_usr_dir must be a package that can be imported. "
            f"Received: {directory!r}, {message}."
        ) from error


def typed_lines(prompt: str) -> Iterator[str]:
    """Yield lines from the terminal (after a prompt) or from a pipe."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with contextlib.suppress(ImportError):  # some Pythons do not have it
            import readline  # noqa: F401  for line editing and history
    with contextlib.suppress(EOFError):
        while True:
            with file_error.named("standard input"):
                line = input(prompt if is_terminal else "")
            yield line.rstrip("\r")


def registry_help() -> str:
    """Return the list of all registered names as text."""
    from ut_keras import hparams, models, problems

    tables = {
        "Models": models.names(),
        "HParams sets": hparams.names(),
        "HParams ranges": hparams.range_names(),
        "Problems": problems.names(),
    }
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name}" for name in names) for title, names in tables.items()
    )


def _shortened(text, most):
    """Return a text, shortened in the middle to at most `most` characters."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _user_message(error):
    """Return the message for an error that the user can fix.

    None means that the error is a bug of ut_keras, which prints a stack trace.
    """
    if isinstance(error, UserError):
        return str(error)
    message = _error_in_graph(error) or errors.from_user_code(error)
    if message is not None:
        return str(message)
    if isinstance(error, OSError) or file_error.from_tensorflow(error) is not None:
        return file_error.one_line(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        reason = str(getattr(error, "message", error)).strip() or "out of memory"
        return f"The command ran out of memory. Received: {reason.splitlines()[0]}"
    return None


def _error_in_graph(error):
    """Return the `UserError` behind TensorFlow's error in tracing a graph, or None."""
    while error is not None and type(error).__name__ == "StagingError":
        error = error.__cause__ or error.__context__
    return error if isinstance(error, UserError) else None


# Control characters and characters that change the direction of text. Allowed are newlines, tabs,
# and a carriage return before a newline or at the start, where the live line uses it.
_UNSAFE_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
    r"|(?!\A)\r(?!\n)"
)


@contextlib.contextmanager
def safe_output() -> Iterator[tuple["_Output", "_Output"]]:
    r"""Context manager that makes printing safe for open and closed terminals.

    If the terminal or pipe is closed, the command continues and its output is dropped.

    Responses of servers, contents and names of files, and outputs of models may contain escape
    sequences that move the cursor, rename the window or reverse the text. These characters are
    printed as `\x1b`, also to pipes and logs, which a terminal may show later. Characters that the
    encoding of the stream does not have are printed in the same way. The files that commands write
    contain the text unchanged.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    stdin: Any = sys.stdin
    # Raised for another kind of stream, or one that was already read.
    with contextlib.suppress(AttributeError, ValueError):
        stdin.reconfigure(errors="surrogateescape")  # The command reports bytes that are not UTF-8.
    out, err = _Output(sys.stdout, "standard output"), _Output(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


class _Output:
    """A text stream that drops its output after the terminal or pipe is closed.

    Args:
        stream: text stream.
        name: str. File name for an `OSError`, for example on a full disk. "" for standard error,
            where no error can be reported: output that cannot be written is dropped.
    """

    def __init__(self, stream, name=""):
        self._stream = stream
        self._name = name
        self._failure = None

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        encoding = self._stream.encoding or "utf-8"
        shown = _UNSAFE_CHARACTERS.sub(_escaped, text).encode(encoding, "backslashreplace")
        return self._attempt(self._stream.write, shown.decode(encoding))

    def flush(self):
        if self._failure is not None:  # argparse ignores the error that `write` raises
            raise self._failure
        return self._attempt(self._stream.flush)

    def drop(self):
        """Drop unwritable output, so that Python does not fail again at exit."""
        try:
            self._stream.flush()
        except OSError:
            self._redirect_to_null()
            self._stream.flush()

    def _attempt(self, function, *arguments):
        try:
            return function(*arguments)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPIPE):
                if not self._name:
                    return None
                self._failure = OSError(error.errno, error.strerror, self._name)
                raise self._failure from error
        self._redirect_to_null()
        return function(*arguments)

    def _redirect_to_null(self):
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


def _escaped(match):
    return match[0].encode("unicode_escape").decode()
