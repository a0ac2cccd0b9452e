"""Runs a command, and reports in one line each error that the user can fix.

Only bugs of ut_keras print a stack trace. The exit code is 0 for success, 1 for a bug, 2 for an
error that the user can fix, and 128 + N if signal N ended the command.
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
from ut_keras.bin import command_line, flags
from ut_keras.errors import UsageError, UserError
from ut_keras.files import file_error
from ut_keras.process import interruption, tensorflow_log
from ut_keras.registry import OtherKindError, UnknownNameError, UnsupportedNameError

Args = argparse.Namespace

# Maximum number of characters in a word and in a line of an error message.
_MAX_WORD, _MAX_LINE = 200, 400


def run(function: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        function: function from the list of arguments to an exit code. If it returns None, the exit
            code is 0.
        argv: list of str, without the program's name. None means the arguments of the process.
    """
    with safe_output() as outputs:
        try:
            return _exit_code(function, argv)
        except Exception:
            if argv is not None:
                raise
            # The error is printed inside safe_output(), so that the texts of servers and files in
            # the error are escaped.
            traceback.print_exc()
            return 1
        finally:
            if argv is None:
                for output in outputs:
                    output.drop()


def run_with_flags(
    function: Callable[[Args], int | None],
    table: Sequence[command_line.Flag],
    program: str,
    about: str,
    argv: Sequence[str] | None = None,
) -> int:
    """Run a command with parsed flags and return its exit code.

    If `table` includes --registry_help, the user's package (--t2t_usr_dir) is imported before
    `function` is called.

    Args:
        function: function from the parsed flags to an exit code. If it returns None, the exit code
            is 0.
        table: the flags of the command.
        program: str. Name of the command.
        about: str. Description for --help.
        argv: as in `run`.
    """
    return run(lambda words: _call(function, table, program, about, words), argv)


def _call(function, table, program, about, argv):
    """Parse the flags, import the user's package and call a function with the flags."""
    package_words: list[str] = []  # `parse` adds the arguments that belong to no flag of the table
    args = command_line.parse(table, argv, program, about, package_words)
    unknown = package_words
    if "registry_help" in args:
        unknown = import_user_package(args.t2t_usr_dir, vars(args), package_words)
    if unknown:
        command_line.raise_unknown(unknown[0], table)
    args.package_words = package_words  # `tune` passes them to the trials of a search
    if "registry_help" in args and args.registry_help:
        print(registry_help())
        return None
    try:
        return function(args)
    except UnknownNameError as error:
        # `True` stands for the commands that have no such flag.
        has_flag = getattr(args, "t2t_usr_dir", True) or "--t2t_usr_dir" in str(error)
        if has_flag or isinstance(error, OtherKindError | UnsupportedNameError):
            raise
        raise UsageError(
            f"{error} To use a name of your own package, pass --t2t_usr_dir."
        ) from error


def _exit_code(function, argv):
    is_process = argv is None
    try:
        acknowledged = interruption.acknowledged() if is_process else contextlib.nullcontext()
        with acknowledged, interruption.RaiseOnSignal(is_last=is_process):
            return _run_and_flush(function, sys.argv[1:] if is_process else argv)
    except interruption.Interrupted as interrupted:
        with contextlib.suppress(OSError):  # the exit code already reports the error
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
    except SystemExit as end:  # --help raises this exception
        if not end.code:
            sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def load_tensorflow(what: str = "", args: Args | None = None) -> None:
    """Import TensorFlow and configure its runtime.

    The import takes seconds. A signal during the import ends the process immediately.

    Args:
        what: str. If it is given, the function prints "Loading {what}…" before the import, which
            may take half a minute. Optional.
        args: the flags of the command. If given, the function applies the flags for TensorFlow's
            runtime. Optional.
    """
    if what:
        print(f"Loading {what}…", flush=True)
    with (
        # A copy of stderr that does not contain TensorFlow's log lines.
        os.fdopen(os.dup(2), "wb") as stderr,
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
    _set_gpu_memory(args.worker_gpu_memory_fraction)


def _set_gpu_memory(fraction):
    """Let TensorFlow allocate GPU memory as needed, up to a share of each GPU.

    By default, TensorFlow would allocate almost all memory of all GPUs at once.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        if fraction != flags.DEFAULT_MEMORY_FRACTION:
            from ut_keras.ops import private_api

            private_api.limit_gpu_memory(fraction)
    except RuntimeError:  # the process has already used TensorFlow
        print("note: TensorFlow is already running and keeps its limit of GPU memory", flush=True)


def import_user_package(
    directory: str, flags: Mapping[str, Any] | None = None, words: Sequence[str] = ()
) -> list[str]:
    """Import the user's package, which registers problems, models and hparams sets.

    Args:
        directory: str. Folder of the package (--t2t_usr_dir), or "" if there is no package.
        flags: dict. The command's flags, which the package can read as `tf.flags`. Optional.
        words: list of str. Arguments for flags that the package may define.

    Returns:
        The arguments that do not belong to flags of the package.

    Raises:
        UsageError: if the package does not exist or cannot be imported. The message names the line
            of code that failed.
    """
    if not directory:
        return list(words)
    from ut_keras.t2t import usr_dir

    path = os.path.realpath(directory)
    if not os.path.isfile(os.path.join(path, "__init__.py")):
        several = " To use several packages, write a package that imports them." * (
            "," in directory
        )
        raise UsageError(
            f"--t2t_usr_dir must be a folder with an __init__.py. Received: {directory!r}.{several}"
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
    """Yield the lines that the user types after a prompt, or the lines of a pipe."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with contextlib.suppress(ImportError):  # some builds of Python have no `readline`
            import readline  # noqa: F401  for line editing and history
    with contextlib.suppress(EOFError):
        while True:
            with file_error.named("standard input"):
                line = input(prompt if is_terminal else "")
            yield line.rstrip("\r")


def registry_help() -> str:
    """Return a text that lists all registered names."""
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
    """Return a text, shortened in the middle if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _user_message(error):
    """Return the message for an error that the user can fix.

    The result is None if the error is a bug of ut_keras. The command prints a stack trace of a bug.
    """
    if isinstance(error, UserError):
        return str(error)
    message = _error_in_graph(error) or errors.from_graph(error) or errors.from_user_code(error)
    if message is not None:
        return str(message)
    if isinstance(error, OSError) or file_error.from_tensorflow(error) is not None:
        return file_error.one_line(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        reason = str(getattr(error, "message", error)).strip() or "out of memory"
        return f"The command ran out of memory. Received: {reason.splitlines()[0]}"
    return None


def _error_in_graph(error):
    """Return the `UserError` that made TensorFlow fail to trace a graph, or None."""
    while error is not None and type(error).__name__ == "StagingError":
        error = error.__cause__ or error.__context__
    return error if isinstance(error, UserError) else None


# Pattern of control characters and of characters that change the direction of text. Newlines and
# tabs are allowed. A carriage return is allowed before a newline, and at the start of a text, where
# the live line uses a carriage return.
_UNSAFE_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
    r"|(?!\A)\r(?!\n)"
)


@contextlib.contextmanager
def safe_output() -> Iterator[tuple["_Output", "_Output"]]:
    r"""Context manager that makes printing safe for open and closed terminals.

    If the terminal or pipe is closed, the command continues and discards later output.

    Responses of servers, contents and names of files, and outputs of models may contain escape
    sequences that move the cursor, rename the window or reverse the text. The characters of these
    sequences are printed in the form `\x1b`. They are also escaped in pipes and logs, because a
    terminal may show the log later. Characters that the encoding of the stream lacks are printed in
    the same form. The files that commands write contain the unchanged text.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the parent process closed the stream
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    stdin: Any = sys.stdin
    # `reconfigure` raises these errors for other kinds of streams, and after the first read.
    with contextlib.suppress(AttributeError, ValueError):
        stdin.reconfigure(errors="surrogateescape")  # The command reports bytes that are not UTF-8.
    out, err = _Output(sys.stdout, "standard output"), _Output(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


class _Output:
    """A text stream that discards its output after the terminal or pipe is closed.

    Args:
        stream: text stream.
        name: str. The name of the stream in an `OSError`, for example on a full disk. The name of
            standard error is "". The command cannot report a failure of standard error, so it
            discards the output.
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
        # Argparse ignores errors that `write` raises, so `flush` raises them again.
        if self._failure is not None:
            raise self._failure
        return self._attempt(self._stream.flush)

    def drop(self):
        """Discard output that cannot be written. Otherwise Python fails again at exit."""
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
