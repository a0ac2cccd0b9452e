import functools
import gc
import os
import sys

import pytest

from tests import speed

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The slow tests of these files take longest, so pytest starts with these files, in this order.
# With `--dist loadfile`, each file runs in one process. If a long file started late, the other
# processes would wait for its end.
LONGEST_FILES = (
    "docs/shell_blocks_test.py",
    "decoding/cache_test.py",
    "training/fit_compiled_replicas_test.py",
    "models/recompute_test.py",
    "decoding/generate_test.py",
    "training/two_workers_test.py",
    "inference/export_test.py",
    "training/survival_test.py",
    "notebooks_test.py",
    "models/properties_test.py",
    "inference/litert_export_test.py",
    "training/train_step_test.py",
    "layers/attention/block_attention_test.py",
    "t2t/five_packages_test.py",
    "benchmarks/results/run_test.py",
    "bin/resume_test.py",
    "inference/onnx_export_test.py",
    "models/fit_test.py",
    "training/compiled_replicas_test.py",
    "training/fit_two_replicas_test.py",
    "docs/code_blocks_test.py",
    "t2t/multi_problem_test.py",
    "data/flipped_bits_test.py",
    "training/segments_resume_test.py",
    "trainer_test.py",
)

# Most of the time in which XLA compiles for a CPU is spent on LLVM's optimizations. They make large
# programs fast, and tests run small programs. XLA's own passes over its instructions stay the same.
# TensorFlow reads this variable when it first compiles, also in the processes that tests start.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

speed.collect_garbage_less_often()
speed.skip_fsync()
speed.write_to_memory()


def pytest_collection_modifyitems(items):
    """Move the tests of the longest files to the start, in the order of `LONGEST_FILES`."""
    folder = os.path.dirname(__file__)
    ranks = {os.path.join(folder, name): rank for rank, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: ranks.get(str(item.path), len(ranks)))


def pytest_collection_finish():
    """Apply settings after all test modules have been imported."""
    speed.ignore_imported_objects()


@pytest.fixture(scope="session")
def shared_dir():
    """Return the folder with real datasets, or skip the test if the folder is missing."""
    folder = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(_CHECKOUT), "shared"))
    if not os.path.isdir(os.path.join(folder, "data")):
        pytest.skip(f"no real datasets in {folder}: set UT_KERAS_SHARED to their folder")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _free_models():
    """Free the models and graphs of a test module after its tests.

    The objects that remain are excluded from later garbage collections.
    """
    yield
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    gc.collect()
    gc.freeze()


@pytest.fixture
def real_fsync(monkeypatch):
    """Let `os.fsync` wait until the disk has stored a file, as it does outside of tests."""
    monkeypatch.setattr(os, "fsync", speed.REAL_FSYNC)


@pytest.fixture
def registries():
    """After a test, remove the names that packages registered during the test."""
    from ut_keras import models
    from ut_keras.data.writing import process_pool
    from ut_keras.hparam_schema import saved
    from ut_keras.hparams.registry import RANGES, SETS
    from ut_keras.problems.problem import REGISTRY

    tables = (REGISTRY, SETS, RANGES, models._CLASSES)
    before = [(dict(table._entries), dict(table._unsupported)) for table in tables]
    first, classes = list(process_pool._preparations), list(saved._CLASSES)
    yield
    for table, (entries, unsupported) in zip(tables, before, strict=True):
        table._entries, table._unsupported = entries, unsupported
    process_pool._preparations[:] = first
    saved._CLASSES[:] = classes
