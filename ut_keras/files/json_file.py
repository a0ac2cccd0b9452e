"""JSON files as they are found: torn, of another shape, of other bytes, nested without end.

values = json_file.read("run/hparams.json")          a dict, or `UserError` in one line
json_file.write("run/hparams.json", values)          whole or not at all
json_file.parse_line(line)                           a dict, {} of a torn one
"""

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from typing import Any

from ut_keras.errors import DataError, UserError
from ut_keras.files import file_error, whole_file


def read(path: str, error_class: type[UserError] = UserError) -> dict[str, Any]:
    """Reads a file that holds one JSON object; `error_class` is raised if it does not.

    Raises:
        OSError: if the file cannot be read.
    """
    file_error.check_is_file(path)
    with file_error.named(path), open(path, "rb") as file:
        content = file.read()
    try:
        return parse(content)
    except ValueError as error:
        raise error_class(f"{path} must hold a JSON object. Received: {error}.") from error


def write(path: str, values: Mapping[str, Any], indent: int | None = 2) -> None:
    """Writes a file of one JSON object, whole or not at all."""
    with whole_file.writing(path) as file:
        json.dump(values, file, indent=indent)
        file.write("\n")


def read_own(path: str, keys: Collection[str]) -> dict[str, Any] | None:
    """Reads a record that a command of ours has written, to replace or remove it; None without one.

    Raises:
        DataError: if somebody else's file has its name, one that lacks the keys.
    """
    if not os.path.lexists(path):
        return None
    with contextlib.suppress(UserError, OSError):
        if (values := read(path)).keys() >= set(keys):
            return values
    raise DataError(
        f"{path} must be a record of ut_keras, with {' and '.join(keys)}. Received: another "
        "program's file. It was not changed; rename it."
    )


def parse_line(line: bytes) -> dict[str, Any]:
    """The dict that a whole line holds; {} if it is torn, or no JSON object."""
    with contextlib.suppress(ValueError):
        return parse(line) if line.endswith(b"\n") else {}
    return {}


def parse(content: str | bytes) -> dict[str, Any]:
    """The dict that bytes or str hold.

    Raises:
        ValueError: says what they hold instead.
    """
    try:
        value = json.loads(content)
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8") from None
    except RecursionError:
        raise ValueError("values nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}")
    return value
