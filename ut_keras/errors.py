"""What a user can do something about. A command answers it with one line and exit code 2.

What goes wrong in the user's own code is that, too: the line names its file, and not ours.
"""

import os
import traceback

_user_code_folders: dict[str, None] = {}  # folders of the user's code


class UserError(ValueError):
    """Something is wrong with what was asked for; the message is one line, for the user."""


class DataError(UserError):
    """Data that is missing or not as expected."""


class UsageError(UserError):
    """What was asked for, such as a command line, cannot be used as it is."""


def add_user_code_folder(folder: str) -> None:
    """Says that the files in a folder are the user's code."""
    _user_code_folders[folder + os.sep] = None


def from_user_code(error: BaseException) -> UserError | None:
    """What is told of an error that came up in the user's code, `sys.exit` too; None of others."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, SyntaxError) and f"{found.filename}".startswith(
            tuple(_user_code_folders)
        ):
            return UserError(f"SyntaxError: {found.msg} ({found.filename}, line {found.lineno})")
        in_graph = getattr(found, "ag_error_metadata", None)  # AutoGraph's copy of the code ran
        frames = reversed(traceback.extract_tb(found.__traceback__))
        for frame in (*frames, *(in_graph.translated_stack if in_graph else ())):
            if frame.filename.startswith(tuple(_user_code_folders)):
                cause = (in_graph and found.__context__) or found
                message = f"{type(cause).__name__}: {cause}".removesuffix(": ")
                return UserError(f"{message} ({frame.filename}, line {frame.lineno})")
        found = found.__cause__
    return None
