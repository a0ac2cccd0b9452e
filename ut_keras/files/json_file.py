"""Read and write JSON files, and report invalid files in one line.

values = json_file.read("run/hparams.json")          a dict, or `UserError` if invalid
json_file.write("run/hparams.json", values)          atomically
json_file.parse_line(line)                           a dict; {} for an incomplete line
"""

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from typing import Any

from ut_keras.errors import DataError, UserError
from ut_keras.files import file_error, whole_file


def read(path: str, error_class: type[UserError] = UserError) -> dict[str, Any]:
    """Read a file that contains one JSON object.

    Args:
        path: str. The file.
        error_class: the class of the error if the file does not contain a JSON object.

    Raises:
        UserError: if the file does not contain a JSON object. The class is `error_class`.
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
    """Write a JSON object to a file, atomically."""
    with whole_file.writing(path) as file:
        json.dump(values, file, indent=indent)
        file.write("\n")


def read_own(path: str, keys: Collection[str]) -> dict[str, Any] | None:
    """Read a JSON file that ut_keras is about to replace or remove.

    The function returns None if the file does not exist.

    Raises:
        DataError: if the file lacks one of the keys, so that another program must have written it.
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
    """Return the dict in a line, or {} if the line is incomplete or invalid."""
    with contextlib.suppress(ValueError):
        return parse(line) if line.endswith(b"\n") else {}
    return {}


def parse(content: str | bytes) -> dict[str, Any]:
    """Return the JSON object in bytes or in a str as a dict.

    Raises:
        ValueError: if there is no JSON object. The message describes the content.
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
