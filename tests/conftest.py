import gc
import os

import pytest

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope="session")
def shared_dir():
    """The folder with real datasets; a test that needs it is skipped where it is absent."""
    folder = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(_CHECKOUT), "shared"))
    if not os.path.isdir(os.path.join(folder, "data")):
        pytest.skip(f"no real datasets in {folder}: set UT_KERAS_SHARED to their folder")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _tidy():
    """Frees the graphs of a module; what stays is left out of later collections.

    A process comes to hold gigabytes, which each full collection would look through.
    """
    yield
    gc.collect()
    gc.freeze()
