import textwrap

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.t2t import usr_dir

_SPLIT = """
from tensor2tensor.data_generators import problem, text_encoder, text_problems
from tensor2tensor.layers import modalities
from tensor2tensor.utils import metrics, registry

class Base(text_problems.Text2TextProblem):
    approx_vocab_size = 2**8
    is_generate_per_split = True
    dataset_splits = [
        {"split": problem.DatasetSplit.TRAIN, "shards": 2},
        {"split": problem.DatasetSplit.EVAL, "shards": 1},
        {"split": problem.DatasetSplit.TEST, "shards": 1},
    ]
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range({"train": 6, "eval": 3, "test": 2}[dataset_split]):
            yield {"inputs": f"{dataset_split} {number}", "targets": f"word {number}"}
"""


@pytest.fixture
def load(tmp_path, registries):
    """Return a function that writes a package, loads the package and returns its folder."""

    def load_source(source, folder="package"):
        path = tmp_path / folder
        path.mkdir(parents=True)
        (path / "__init__.py").write_text(textwrap.dedent(source))
        usr_dir.load(str(path))
        return path

    return load_source


@pytest.fixture
def make(load, tmp_path):
    """Return a function that makes a problem from source code and generates its data."""

    def made(source, name="mine", generated=True):
        load(_SPLIT + source)
        problem = problems.get(name)
        if generated:
            problem.generate_data(str(tmp_path / "data"), str(tmp_path / "tmp"))
        return problem

    def records(problem, split):
        paths = tfrecords.find(made.data_dir, problem.filename, split)
        return [record for path in paths for record in tfrecords.read(path)]

    made.data_dir, made.records = str(tmp_path / "data"), records
    return made
