"""Imports TensorFlow without the log lines of its import.

    tensorflow_log.load()

Commands call `load` before they use TensorFlow. `ut_keras.load`, `models.get` and the methods
`generate_data` and `dataset` of a problem also call `load`.

During its import, TensorFlow writes notes to standard error, for example about the processor's
instructions and missing libraries. Python raises TensorFlow's errors as exceptions in any case.
TF_CPP_MIN_LOG_LEVEL filters the lines only after the import, and TensorFlow has no setting for
earlier lines. So `load` catches the lines, and shows only the lines that TF_CPP_MIN_LOG_LEVEL
allows (none by default). If the import of TensorFlow fails, `load` shows all lines. Lines from
other sources are always shown. If a program imports TensorFlow without `load`, TensorFlow writes
its lines as usual.
"""

import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # 0 shows all lines; 1 hides notes, 2 also warnings, 3 also errors
_SEVERITIES = b"IWE"
_LINE = re.compile(rb"([IWE])\d{4} [\d:.]+ ")
_PREFACE = b"WARNING: All log messages before absl::InitializeLog()"


def load() -> None:
    """Import TensorFlow if needed, and show only the requested log lines."""
    if "tensorflow" not in sys.modules:
        with held_back():
            import tensorflow  # noqa: F401


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Context that hides TensorFlow's log lines while other code imports TensorFlow.

    If TensorFlow is imported already, the context does nothing. It hides the same lines as `load`.
    Lines from other sources appear at the end of the context.

    If TF_CPP_MIN_LOG_LEVEL is not set, the context sets it to 3 for this process and its children.
    If TensorFlow's Python logger has no level, the context sets the level to warnings. Notebooks
    show the lines of this logger.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    os.environ.setdefault(_LEVEL, "3")
    # `flush` raises these errors if standard error does not exist or is closed.
    with contextlib.suppress(AttributeError, ValueError):
        sys.stderr.flush()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    with tempfile.TemporaryFile() as held, os.fdopen(os.dup(2), "wb") as stderr:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr.fileno(), 2)
            held.seek(0)
            text = held.read()
            # After a failed import, `sys.modules` does not contain TensorFlow.
            stderr.write(_shown(text) if "tensorflow" in sys.modules else text)
    if not level and _level():
        logger.setLevel(logging.WARNING)


def _level() -> int:
    try:
        return int(os.environ.get(_LEVEL, 0))
    except ValueError:
        return 0  # for an invalid value, TensorFlow also uses level 0


def _shown(text: bytes) -> bytes:
    """Return TensorFlow's lines that the level allows, and all other lines."""
    return b"".join(line for line in text.splitlines(keepends=True) if _is_shown(line))


def _is_shown(line: bytes) -> bool:
    found = _LINE.match(line)
    if found:
        return _SEVERITIES.index(found[1]) >= _level()
    return not (line.startswith(_PREFACE) and _level())
