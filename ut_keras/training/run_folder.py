"""Whether a command may write a run into a folder, and that it alone does.

    run_folder.check("run")              makes it, if it may be written to
    with run_folder.lock("run"): …       nobody else does
"""

import contextlib
import os
from collections.abc import Iterator

from ut_keras import metrics_file, path_lock, whole_file
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError


def check(output_dir: str) -> None:
    """Makes the folder if there is none.

    Raises:
        UsageError: if it holds the results of a run whose checkpoints are gone.
        OSError: if nothing can be written there.
    """
    results = metrics_file.path(output_dir)
    if not checkpoint_files.exists(output_dir) and _size(results):
        raise UsageError(
            f"--output_dir must hold a checkpoint of the run that wrote {results!r}: training "
            "would begin anew and remove its results. Received: no checkpoint."
        )
    whole_file.check_writable(output_dir)


@contextlib.contextmanager
def lock(output_dir: str) -> Iterator[None]:
    """Context in which this process alone trains, searches or imports into a folder.

    A folder that is made for it, and stays empty, is removed.

    Raises:
        LockedError: if another one does.
    """
    is_new = not os.path.exists(output_dir)
    os.makedirs(output_dir, exist_ok=True)
    expected = "--output_dir must be written by one command at a time"
    try:
        with path_lock.held(os.path.join(output_dir, ".lock"), expected, repr(output_dir)):
            yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(output_dir)


def _size(path):
    return os.path.getsize(path) if os.path.isfile(path) else 0
