import functools
import gc
import os
import sys

import pytest

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A graph is some 10,000 objects, and most tests trace several. By Python's own threshold of 700
# up to a tenth of the time goes to looking for garbage among them.
gc.set_threshold(20_000, 10, 10)


def pytest_collection_finish():
    """What all modules have imported stays: TensorFlow alone is a million objects."""
    gc.freeze()


@pytest.fixture(scope="session")
def shared_dir():
    """The folder with real datasets; a test that needs it is skipped where it is absent."""
    folder = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(_CHECKOUT), "shared"))
    if not os.path.isdir(os.path.join(folder, "data")):
        pytest.skip(f"no real datasets in {folder}: set UT_KERAS_SHARED to their folder")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _free_models():
    """Frees the models and graphs of a module; what stays is left out of later collections."""
    yield
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    gc.collect()
    gc.freeze()


@pytest.fixture
def registries():
    """What a test's packages register is gone after it."""
    from ut_keras import models
    from ut_keras.data.writing import process_pool
    from ut_keras.hparams.registry import RANGES, SETS
    from ut_keras.problems.problem import REGISTRY

    tables = (REGISTRY, SETS, RANGES, models._CLASSES)
    before = [(dict(table._entries), dict(table._unsupported)) for table in tables]
    first = list(process_pool._preparations)
    yield
    for table, (entries, unsupported) in zip(tables, before, strict=True):
        table._entries, table._unsupported = entries, unsupported
    process_pool._preparations[:] = first
