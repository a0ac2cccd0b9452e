"""TensorFlow's log lines: those that TF_CPP_MIN_LOG_LEVEL asks for, and by default none.

TensorFlow says on standard error which instructions a processor has, which libraries it did not
find and which kernels do without; its errors reach Python as exceptions all the same. The level
counts for these lines only once TensorFlow is there: what it writes while it is imported is held
back here, and shown as far as the level lets it, or in full if the import fails. Whatever else is
written meanwhile is handed on. In a notebook its Python parts write notes as well; they are left
out at the same levels.
"""

import contextlib
import importlib.abc
import importlib.machinery
import logging
import os
import re
import sys
import tempfile

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"  # 0: all; 1: no notes; 2: no warnings; 3: no errors
_SEVERITIES = b"IWE"
_LINE = re.compile(rb"([IWE])\d{4} [\d:.]+ ")
_PREFACE = b"WARNING: All log messages before absl::InitializeLog()"


def set_default() -> None:
    """Silences TensorFlow in this process and those it starts, if nobody has set the level."""
    os.environ.setdefault(_LEVEL, "3")
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow as Python does, and has it loaded in silence."""

    def find_spec(self, fullname, path, target=None):
        if fullname != "tensorflow" or not _level():
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                is_set = logging.getLogger("tensorflow").level
                with _held_back():
                    load(module)
                if not is_set:
                    module.get_logger().setLevel(logging.WARNING)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _level():
    try:
        return int(os.environ.get(_LEVEL, 0))
    except ValueError:
        return 0  # as TensorFlow takes it


@contextlib.contextmanager
def _held_back():
    """What goes to the process's standard error meanwhile."""
    with contextlib.suppress(AttributeError, ValueError):  # none, or closed
        sys.stderr.flush()
    with tempfile.TemporaryFile() as held, os.fdopen(os.dup(2), "wb") as stderr:
        os.dup2(held.fileno(), 2)
        show = _shown
        try:
            yield
        except BaseException:
            show = bytes
            raise
        finally:
            os.dup2(stderr.fileno(), 2)
            held.seek(0)
            stderr.write(show(held.read()))


def _shown(text):
    """The lines that the level lets through, and those that are not TensorFlow's."""
    return b"".join(line for line in text.splitlines(keepends=True) if _is_shown(line))


def _is_shown(line):
    found = _LINE.match(line)
    if found:
        return _SEVERITIES.index(found[1]) >= _level()
    return not line.startswith(_PREFACE)
