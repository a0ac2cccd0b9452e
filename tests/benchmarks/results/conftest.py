import importlib
import sys

import pytest

_PACKAGE = "results.small_data"


@pytest.fixture
def small_data(registries):
    """Register the problems of the package during a test.

    After the test, the names are removed, so that the tests of the problem table do not find them.
    """
    importlib.import_module(_PACKAGE)
    yield
    for name in [name for name in sys.modules if name.startswith(_PACKAGE)]:
        del sys.modules[name]
