"""Import TensorFlow without the log lines that it writes while it is imported.

    tensorflow_log.load()

Commands call `load` before they need TensorFlow, and so do `ut_keras.load`, `models.get` and the
`generate_data` and `dataset` of a problem.

TensorFlow writes to standard error which instructions a processor has, which libraries it did not
find and so on. Its errors reach Python as exceptions in any case. TF_CPP_MIN_LOG_LEVEL filters
these lines only after the import, and TensorFlow has no setting for those that it writes before.
So `load` catches them and shows the ones that TF_CPP_MIN_LOG_LEVEL lets through (by default none).
If the import fails, it shows all of them. Lines from other sources are always shown. A program that
imports TensorFlow by itself sees TensorFlow's lines as usual.
"""

import contextlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # 0: all; 1: no notes; 2: no warnings; 3: no errors
_SEVERITIES = b"IWE"
_LINE = re.compile(rb"([IWE])\d{4} [\d:.]+ ")
_PREFACE = b"WARNING: All log messages before absl::InitializeLog()"


def load() -> None:
    """Import TensorFlow, if it is not imported yet, and show only the requested log lines."""
    if "tensorflow" not in sys.modules:
        with held_back():
            import tensorflow  # noqa: F401


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Context that imports TensorFlow, directly or not, and hides its log lines as `load` does.

    It sets TF_CPP_MIN_LOG_LEVEL to 3 if the variable is not set, for this process and its children,
    and TensorFlow's Python logger, which notebooks show, to warnings if it has no level.
    """
    if "tensorflow" in sys.modules:
        yield
        return
    os.environ.setdefault(_LEVEL, "3")
    with contextlib.suppress(AttributeError, ValueError):  # there is no stream, or it is closed
        sys.stderr.flush()
    logger = logging.getLogger("tensorflow")
    level = logger.level
    with tempfile.TemporaryFile() as held, os.fdopen(os.dup(2), "wb") as stderr:
        os.dup2(held.fileno(), 2)
        succeeded = False
        try:
            yield
            succeeded = True
        finally:
            os.dup2(stderr.fileno(), 2)
            held.seek(0)
            text = held.read()
            stderr.write(_shown(text) if succeeded else text)
    if not level and _level():
        logger.setLevel(logging.WARNING)


def _level() -> int:
    try:
        return int(os.environ.get(_LEVEL, 0))
    except ValueError:
        return 0  # TensorFlow does the same


def _shown(text: bytes) -> bytes:
    """Return the lines that the level lets through, and the lines that are not TensorFlow's."""
    return b"".join(line for line in text.splitlines(keepends=True) if _is_shown(line))


def _is_shown(line: bytes) -> bool:
    found = _LINE.match(line)
    if found:
        return _SEVERITIES.index(found[1]) >= _level()
    return not (line.startswith(_PREFACE) and _level())
