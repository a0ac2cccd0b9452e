"""`data_generators.algorithmic` yields the records of T2T, and packages derive from its classes."""

import json
import os

import pytest

from ut_keras import problems
from ut_keras.errors import DataError
from ut_keras.t2t import algorithmic_problems
from ut_keras.text import text_encoder

_GOLDEN = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    "testdata/t2t/algorithmic/records.json",
)
with open(_GOLDEN, encoding="utf-8") as _file:
    _RECORDS = json.load(_file)
_SMALL = """
import numpy as np
from tensor2tensor.data_generators import algorithmic

@registry.register_problem
class Mine(algorithmic.{base}):
    train_size, dev_size, train_length, dev_length, num_shards = 5, 3, 9, 12, 1
    {body}
"""


def _base(name):
    words = "sort_problem" if name == "unique" else name
    return "Algorithmic" + "".join(word.capitalize() for word in words.split("_"))


@pytest.mark.parametrize("name", _RECORDS)
def test_records_equal_the_records_of_t2t(make, name):
    body = "unique = True" if name == "unique" else ""
    problem = make(_SMALL.format(base=_base(name), body=body))
    for split, expected in _RECORDS[name].items():
        records = make.records(problem, split)
        assert [[r["inputs"], r["targets"]] for r in records] == expected
        size = problem.feature_specs(make.data_dir)["inputs"].vocab_size
        assert max(max(ids) for pair in expected for ids in pair) < size


def test_package_defines_generator(make):
    problem = make(
        _SMALL.format(
            base="AlgorithmicProblem",
            body="""num_symbols = 4
    def generator(self, nbr_symbols, max_length, nbr_cases):
        assert nbr_symbols == 4
        for number in range(nbr_cases):
            yield {"inputs": [number % 4] * max_length, "targets": [number % 4]}""",
        )
    )
    train, dev = (make.records(problem, split) for split in ("train", "dev"))
    assert [row["inputs"] for row in dev] == [[2] * 12 + [1], [3] * 12 + [1], [4] * 12 + [1]]
    assert [row["targets"] for row in train] == [[2, 1], [3, 1], [4, 1], [5, 1], [2, 1]]
    assert problem.feature_specs(make.data_dir)["targets"].vocab_size == 6
    assert (problem.input_space_id, problem.target_space_id) == (10, 11)


@pytest.mark.parametrize("missing", ["num_symbols", "generator"])
def test_package_without_required_attribute_is_rejected(make, missing):
    others = {"num_symbols": "num_symbols = 2", "generator": "generator = None"}
    body = next(line for name, line in others.items() if name != missing)
    problem = make(_SMALL.format(base="AlgorithmicProblem", body=body), generated=False)
    with pytest.raises(DataError, match=rf"Mine must define {missing}.*a class without it\."):
        problem.generate_data(make.data_dir, make.data_dir)
    assert not [name for name in os.listdir(make.data_dir) if "train" in name]


def test_separator_of_addition_has_an_id_in_the_vocabulary(make):
    problem = make(_SMALL.format(base="AlgorithmicAdditionDecimal40", body=""))
    [row, *_] = make.records(problem, "train")
    separator = 10 + text_encoder.NUM_RESERVED_IDS
    assert separator in row["inputs"]
    assert problem.feature_specs(make.data_dir)["inputs"].vocab_size == separator + 1


def test_package_calls_generator_of_another_problem(make):
    # T2T's own TinyAlgo and its copies in packages call the generator in this way.
    problem = make(
        """
from tensor2tensor.data_generators import algorithmic, generator_utils

@registry.register_problem
class Mine(algorithmic.AlgorithmicIdentityBinary40):
    def generate_data(self, data_dir, _, task_id=-1):
        other = algorithmic.AlgorithmicReverseDecimal40()
        paths = (self.training_filepaths(data_dir, 1, shuffled=True),
                 self.dev_filepaths(data_dir, 1, shuffled=True))
        for path in paths:
            samples = ({name: [i + 2 for i in ids] + [1] for name, ids in case.items()}
                       for case in other.generator(10, 5, 20))
            generator_utils.generate_files(samples, path, 7)
"""
    )
    rows = make.records(problem, "train") + make.records(problem, "dev")
    assert len(rows) == 14
    assert all(row["targets"][:-1] == row["inputs"][-2::-1] for row in rows)
    assert problems.get("mine_rev").feature_specs(make.data_dir)["inputs"].vocab_size == 4


def test_package_generates_data_of_a_problem_of_t2t(make):
    """The files have the name that T2T gives to the class."""
    problem = make(
        """
from tensor2tensor.data_generators import algorithmic

class Small(algorithmic.AlgorithmicSortProblem):
    train_size, dev_size, num_shards = 5, 3, 1

@registry.register_problem
class Mine(algorithmic.AlgorithmicReverseBinary40Test):
    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        algorithmic.AlgorithmicReverseBinary40Test().generate_data(data_dir, tmp_dir)
        Small().generate_data(data_dir, tmp_dir)
        super().generate_data(data_dir, tmp_dir)
"""
    )
    names = {name.split("-")[0] for name in os.listdir(make.data_dir) if "-train-" in name}
    assert names == {"mine", "algorithmic_reverse_binary40_test", "algorithmic_sort_problem"}
    assert len(make.records(problem, "train")) == 1000


@pytest.mark.parametrize("name", _RECORDS)
def test_names_are_those_of_t2t(name):
    problem_class = getattr(algorithmic_problems, _base(name))
    assert problem_class.name in ("algorithmic_" + name, "algorithmic_sort_problem")
    assert problem_class().dataset_filename() == problem_class.name
