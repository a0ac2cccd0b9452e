"""What every command shares: one line and an exit code for what a user can do something about.

A stack trace is left to bugs. Exit codes: 0 done, 2 something is wrong with what was asked for,
128 + N stopped by signal N with everything saved.
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

_MAX_WORD, _MAX_LINE = 200, 400  # characters that are shown of an error


def run(function: Callable[[list[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Runs a command, a function of its arguments; returns its exit code, 0 for None.

    `argv` is without the program's name; None takes the process's.
    """
    with safe_output() as outputs:
        try:
            return _exit_code(function, argv)
        except Exception:
            if argv is not None:
                raise
            traceback.print_exc()  # here, for a stack trace shows what servers and files write, too
            return 1
        finally:
            if argv is None:
                for output in outputs:
                    output.drop()


def from_flags(
    table: Sequence[command_line.Flag], program: str, about: str
) -> Callable[[Callable[[Args], int | None]], Callable[..., int]]:
    """Decorator that makes a command, a function of argv as of `run`, of one of parsed flags.

    Where --registry_help is one of them, a user's package is imported first.
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
            args.package_words = words  # all of them of flags that the package has defined
            if "registry_help" in args and args.registry_help:
                print(registry_help())
                return None
            return function(args)

        def main(argv: Sequence[str] | None = None) -> int:
            """Runs the command; returns the exit code."""
            return run(parsed, argv)

        return main

    return decorator


def _exit_code(function, argv):
    is_process = argv is None
    try:
        with interruption.RaiseOnSignal(is_last=is_process):
            return _written_out(function, sys.argv[1:] if is_process else argv)
    except interruption.Interrupted as interrupted:
        with contextlib.suppress(OSError):  # the code says it, too
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
    """The exit code of a function whose output, a short one too, has left the process's buffer."""
    try:
        code = function(argv) or 0
    except SystemExit as end:  # of --help
        if not end.code:
            sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def load_tensorflow(what: str = "", args: Args | None = None) -> None:
    """Imports TensorFlow, which takes seconds; a signal ends the process where it is.

    Args:
        what: str. What is loaded with it, said in a line, for it may take half a minute.
        args: the flags, those about the runtime among them, which are passed on. Optional.
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
        except RuntimeError:  # in a program that has computed already
            print("note: TensorFlow is already running and keeps its number of threads", flush=True)
    if args.log_device_placement:
        tf.debugging.set_log_device_placement(True)


def import_user_package(
    directory: str, flags: Mapping[str, Any] | None = None, words: Sequence[str] = ()
) -> list[str]:
    """Imports the package in `directory` (--t2t_usr_dir), which registers what it holds.

    Args:
        directory: str; "" for none.
        flags: dict, the command's, which the package may read by `tf.flags`.
        words: list of str, of flags that the package may have defined.
    Returns:
        the words that are of no flag of it, either.
    Raises:
        UsageError: if there is no package, or it cannot be imported: names the line.
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
        said = errors.from_user_code(error) or f"{type(error).__name__}: {error}"
        raise UsageError(
            "--t2t_usr_dir must be a package that can be imported. "
            f"Received: {directory!r}, {message}."
        ) from error


def typed_lines(prompt: str) -> Iterator[str]:
    """Yields the lines that are typed behind a prompt, or come through a pipe."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with contextlib.suppress(ImportError):  # a Python without it
            import readline  # noqa: F401  for editing and recall
    with contextlib.suppress(EOFError):
        while True:
            with file_error.named("standard input"):
                line = input(prompt if is_terminal else "")
            yield line.rstrip("\r")


def registry_help() -> str:
    """Everything that has a name, as text."""
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
    """The beginning and the end of a text that is longer."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _user_message(error):
    """What a user is told of an error; None of what keeps its stack trace, a bug of ours."""
    if isinstance(error, UserError):
        return str(error)
    said = _within_a_graph(error) or errors.from_user_code(error)
    if said is not None:
        return str(said)
    if isinstance(error, OSError) or file_error.from_tensorflow(error) is not None:
        return file_error.one_line(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        reason = str(getattr(error, "message", error)).strip() or "out of memory"
        return f"The command ran out of memory. Received: {reason.splitlines()[0]}"
    return None


def _error_in_graph(error):
    """The `UserError` behind an error that TensorFlow raised while it made a graph, or None."""
    while error is not None and type(error).__name__ == "StagingError":
        error = error.__cause__ or error.__context__
    return error if isinstance(error, UserError) else None


# Control characters but those of lines, of which a live line begins with one; marks that let a text
# run backwards.
_UNSAFE_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
    r"|(?!\A)\r(?!\n)"
)


@contextlib.contextmanager
def safe_output() -> Iterator[tuple["_Output", "_Output"]]:
    """Context in which what is printed outlives the terminal, and cannot command one.

    A command whose terminal or pipe is closed goes on, unseen. What servers, files and models
    write, and names of files, may hold escape sequences, which would move the cursor, rename the
    window or worse, or turn a text round. They are shown as `\\x1b`, in a pipe or a log as well,
    which a terminal may show later; so is what the encoding of the stream lacks. Text as it is
    stands in the files that commands write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by who started it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    stdin: Any = sys.stdin
    with contextlib.suppress(AttributeError, ValueError):  # another kind; read from already
        stdin.reconfigure(errors="surrogateescape")  # That it is no text, the command says.
    out, err = _Output(sys.stdout, "standard output"), _Output(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


class _Output:
    """A text stream; what a terminal that is gone does not take, goes nowhere.

    Args:
        stream: text stream.
        name: str. What an `OSError`, such as that of a full disk, names as its file. "" for a
            stream whose errors nobody can read, that of errors: what it does not take is dropped.
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
        if self._failure is not None:  # argparse passes over that of `write`
            raise self._failure
        return self._attempt(self._stream.flush)

    def drop(self):
        """Drops what the stream cannot write, which would fail again when Python ends."""
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
