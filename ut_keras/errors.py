"""Errors that the user can correct.

A command prints a `UserError` as one line and exits with code 2. `from_user_code` converts an error
in the user's own code to a `UserError`. Its message names the user's file, not a file of ut_keras.
"""

import os
import traceback

# TensorFlow checks this condition in the graph of an encoder without a decoder.
ENCODER_LENGTHS = (
    "The targets must be as long as the inputs, because the model predicts one id for each input "
    "position. For other data, use a model with a decoder, such as universal_transformer."
)
_user_code_folders: dict[str, None] = {}  # folders that contain the user's code


class UserError(ValueError):
    """An input or a request is wrong. The message is one line for the user."""


class DataError(UserError):
    """Data is missing or does not have the expected form."""


class UsageError(UserError):
    """A request, such as a command line, is invalid."""


def from_graph(error: BaseException) -> UserError | None:
    """Return the `UserError` for an error of a check in a graph, or None.

    The result is None for any other error.
    """
    return DataError(ENCODER_LENGTHS) if ENCODER_LENGTHS in str(error) else None


def add_user_code_folder(folder: str) -> None:
    """Declare that the files in a folder are the user's code."""
    _user_code_folders[folder + os.sep] = None


def from_user_code(error: BaseException) -> UserError | None:
    """Convert an error in the user's code to a `UserError`.

    The function also converts the `SystemExit` of a `sys.exit` in the user's code. It returns None
    if other code raised the error.
    """
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, SyntaxError) and f"{found.filename}".startswith(
            tuple(_user_code_folders)
        ):
            return UserError(f"SyntaxError: {found.msg} ({found.filename}, line {found.lineno})")
        # The error has this attribute if AutoGraph's copy of the user's code raised the error.
        in_graph = getattr(found, "ag_error_metadata", None)
        frames = reversed(traceback.extract_tb(found.__traceback__))
        for frame in (*frames, *(in_graph.translated_stack if in_graph else ())):
            if frame.filename.startswith(tuple(_user_code_folders)):
                cause = (in_graph and found.__context__) or found
                message = f"{type(cause).__name__}: {cause}".removesuffix(": ")
                return UserError(f"{message} ({frame.filename}, line {frame.lineno})")
        found = found.__cause__
    return None
