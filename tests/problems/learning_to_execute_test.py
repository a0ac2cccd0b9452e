import collections
import itertools
import types

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.problems import learning_to_execute

HPARAMS = types.SimpleNamespace(batch_size=4096, max_length=256)
PROGRAMS = ["lte_addition", "lte_algebra", "lte_algebra_control", "lte_control", "lte_program"]
MEMORY = ["lte_copy", "lte_double", "lte_reverse"]
NAMES = sorted([*PROGRAMS, *MEMORY, "lte_program_zaremba"])


def samples(name, split, count=2000, seed=1):
    return list(
        itertools.islice(problems.get(name).generate_samples(split, None, None, seed), count)
    )


def test_names():
    assert [name for name in problems.names() if name.startswith("lte_")] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_splits_share_no_inputs(name):
    found = [
        {s["inputs"] for s in samples(name, split, seed=3)} for split in ("train", "dev", "test")
    ]
    for one, other in itertools.combinations(found, 2):
        assert not one & other


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name):
    assert samples(name, "train", 20, seed=1) == samples(name, "train", 20, seed=1)
    assert samples(name, "train", 20, seed=1) != samples(name, "train", 20, seed=2)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("lte_copy", lambda text: text),
        ("lte_double", lambda text: text + text),
        ("lte_reverse", lambda text: text[::-1]),
    ],
)
def test_memory_tasks(name, answer):
    lengths = collections.Counter()
    for sample in samples(name, "train", 5500):
        assert sample["targets"] == answer(sample["inputs"])
        assert sample["inputs"].isdigit()
        assert sample["inputs"][0] != "0"
        lengths[len(sample["inputs"])] += 1
    assert sorted(lengths) == list(range(1, 56))
    # About 100 of each.
    assert min(lengths.values()) > 50
    assert max(lengths.values()) < 160
    assert {len(sample["inputs"]) for sample in samples(name, "test", 50)} == {55}


def test_program_mix_and_limits():
    kinds = collections.Counter()
    for sample in samples("lte_addition", "train", 5000):
        numbers = sample["inputs"].replace("(", "").replace(")", "").split("+")
        [digits] = {len(number) for number in numbers}
        kinds[digits, len(numbers) - 1] += 1
    assert sorted(kinds) == list(itertools.product(range(1, 6), (1, 2)))
    assert min(kinds.values()) > 300
    for sample in samples("lte_addition", "test"):
        left, right = sample["inputs"].split(")+")
        assert len(left) == 12
        assert len(right) == 5


def test_worked_record(tmp_path, monkeypatch):
    sizes = {"train": 200, "dev": 20, "test": 20}
    monkeypatch.setattr(learning_to_execute, "_SIZES", sizes)
    problem = problems.get("lte_program")
    encoder = problem.feature_encoders()["targets"]
    assert encoder.encode("137738") == [51, 53, 57, 57, 53, 58]
    assert problem.generate_data(tmp_path) == sizes
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if "-of-" in path.name}
    assert len(files) == 12
    problem.generate_data(tmp_path / "again")
    for name, content in files.items():
        assert (tmp_path / "again" / name).read_bytes() == content
    [path] = tfrecords.find(tmp_path, "lte_program", "test")
    for record in tfrecords.read(path):
        assert record["inputs"][-1] == record["targets"][-1] == 1
        text = encoder.decode(record["inputs"][:-1])
        assert text.count("(") == 1
        assert encoder.decode(record["targets"][:-1]).isdigit()
    assert sum(len(targets) for _, targets in problem.dataset("train", tmp_path, HPARAMS)) == 200
