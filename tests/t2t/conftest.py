import copy
import textwrap

import pytest

from ut_keras import models
from ut_keras.data.writing import process_pool
from ut_keras.hparams.registry import RANGES, SETS
from ut_keras.problems.problem import REGISTRY as PROBLEMS
from ut_keras.t2t import usr_dir


@pytest.fixture
def registries():
    """What a test's packages register is gone after it."""
    tables = (PROBLEMS, SETS, RANGES, models._CLASSES)
    before = [copy.copy((dict(table._entries), dict(table._refused))) for table in tables]
    first = list(process_pool._first)
    yield
    for table, (entries, refused) in zip(tables, before, strict=True):
        table._entries, table._refused = entries, refused
    process_pool._first[:] = first


@pytest.fixture
def load(tmp_path, registries):
    """Function that loads a package of one file, by its source; returns its folder."""

    def load_source(source, folder="package"):
        path = tmp_path / folder
        path.mkdir(parents=True)
        (path / "__init__.py").write_text(textwrap.dedent(source))
        usr_dir.load(str(path))
        return path

    return load_source
