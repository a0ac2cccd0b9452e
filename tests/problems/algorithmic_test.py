import collections
import json
import os
import types

import numpy as np
import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.problems import algorithmic

T2T_DATA_DIR = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "data_dir")
with open(os.path.join(T2T_DATA_DIR, "../algorithmic/ciphers.json"), encoding="utf-8") as _file:
    CIPHERS = json.load(_file)
HPARAMS = types.SimpleNamespace(batch_size=512, max_length=256)
NAMES = [
    name
    for name in problems.names()
    if isinstance(problems.get(name), algorithmic.AlgorithmicProblem)
]


def small(name, train_size=200, dev_size=100, test_size=50):
    problem = problems.get(name)
    problem.train_size, problem.dev_size, problem.test_size = train_size, dev_size, test_size
    return problem


def samples(problem, split="train"):
    return list(problem.generate_encoded_samples(split, None, None, seed=3))


def test_algorithmic_problems_are_registered():
    assert NAMES == [
        "algorithmic_addition_binary40",
        "algorithmic_addition_decimal40",
        "algorithmic_cipher_shift200",
        "algorithmic_cipher_shift5",
        "algorithmic_cipher_vigenere200",
        "algorithmic_cipher_vigenere5",
        "algorithmic_identity_binary40",
        "algorithmic_identity_decimal40",
        "algorithmic_identity_vocab95_train20_eval30",
        "algorithmic_multiplication_binary40",
        "algorithmic_multiplication_decimal40",
        "algorithmic_reverse_binary40",
        "algorithmic_reverse_binary40_test",
        "algorithmic_reverse_decimal40",
        "algorithmic_reverse_decimal40_held_out",
        "algorithmic_reverse_nlplike32k",
        "algorithmic_reverse_nlplike8k",
        "algorithmic_shift_decimal40",
        "algorithmic_sort_problem",
        "tiny_algo",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_ids_and_lengths_of_the_split(name):
    problem = small(name)
    specs = problem.feature_specs(None)
    for split, longest in (("train", problem.train_length), ("dev", problem.dev_length)):
        found = samples(problem, split)
        for example in found:
            for feature in ("inputs", "targets"):
                *symbols, eos = example[feature]
                assert eos == 1
                assert all(2 <= i < specs[feature].vocab_size for i in symbols)
            assert 1 <= len(example["inputs"]) - 1 <= longest
        if "nlplike" not in name:
            assert max(len(e["inputs"]) - 1 for e in found) > 0.7 * longest


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("identity_decimal40", lambda symbols: symbols),
        ("reverse_binary40", lambda symbols: symbols[::-1]),
        ("reverse_nlplike8k", lambda symbols: symbols[::-1]),
        ("shift_decimal40", lambda symbols: [s + 10 for s in symbols]),
        ("sort_problem", sorted),
    ],
)
def test_targets_follow_the_task(task, expected):
    for example in samples(small(f"algorithmic_{task}")):
        assert example["targets"] == [*expected(example["inputs"][:-1]), 1]


@pytest.mark.parametrize(("base", "name"), [(2, "binary40"), (10, "decimal40")])
@pytest.mark.parametrize("operation", ["addition", "multiplication"])
def test_arithmetic_targets_are_the_result(operation, base, name):
    def number(digits):
        assert all(0 <= d < base for d in digits)
        assert len(digits) == 1 or digits[-1] != 0
        return sum(d * base**i for i, d in enumerate(digits))

    separated_at = collections.Counter()
    for example in samples(small(f"algorithmic_{operation}_{name}")):
        symbols = [i - 2 for i in example["inputs"][:-1]]
        at = symbols.index(base)
        left, right = number(symbols[:at]), number(symbols[at + 1 :])
        expected = left + right if operation == "addition" else left * right
        assert number([i - 2 for i in example["targets"][:-1]]) == expected
        separated_at[at] += 1
    assert min(separated_at) == 1
    assert max(separated_at) == 20
    # In T2T, the vocabulary size is num_symbols + 2, so the separator has no id.
    problem = problems.get(f"algorithmic_{operation}_{name}")
    assert problem.feature_specs(None)["inputs"].vocab_size == base + 3


@pytest.mark.parametrize("name", CIPHERS)
def test_cipher_encrypts_like_t2t(name):
    problem = problems.get(f"algorithmic_cipher_{name}")
    for inputs, targets in CIPHERS[name]["train"] + CIPHERS[name]["dev"]:
        symbols = np.array(inputs[:-1]) - 2
        rng = types.SimpleNamespace(choice=lambda number, size, p, found=symbols: found)
        _, encrypted = problem.sample(rng, len(symbols))
        assert [*(symbol + 2 for symbol in encrypted), 1] == targets


def test_cipher_symbols_have_the_frequencies_of_t2t():
    examples = samples(small("algorithmic_cipher_shift5"))
    counts = collections.Counter(i for row in examples for i in row["inputs"][:-1])
    shares = [counts[2 + symbol] / counts.total() for symbol in range(5)]
    assert shares == pytest.approx([0.4, 0.3, 0.2, 0.08, 0.02], abs=0.015)
    examples = samples(small("algorithmic_cipher_vigenere200"))
    assert {len(row["inputs"]) for row in examples} == {201}
    counts = collections.Counter(i for row in examples for i in row["inputs"][:-1])
    assert counts[2] == 0  # in T2T, the weight of symbol i is i
    upper_half = sum(counts[2 + symbol] for symbol in range(100, 200)) / counts.total()
    assert upper_half == pytest.approx(0.751, abs=0.01)


def test_addition_matches_worked_record():
    encoders = problems.get("algorithmic_addition_decimal40").feature_encoders(None)
    assert encoders["inputs"].encode("9 5 10 4") == [11, 7, 12, 6]
    assert encoders["targets"].encode("3 6") == [5, 8]
    assert encoders["targets"].decode([5, 8, 1, 0, 9]) == "3 6"


def test_nlplike_symbols_follow_zipfs_law():
    counts = collections.Counter()
    for example in samples(small("algorithmic_reverse_nlplike8k", train_size=2000)):
        counts.update(example["inputs"][:-1])
    frequencies = [counts[2 + rank] / counts.total() for rank in range(4)]
    # The expected share of rank r is r^-1.3 / (sum of i^-1.3 over i = 1 .. 8,000). For rank 1, it
    # is about 0.27.
    assert frequencies[0] == pytest.approx(0.273, abs=0.02)
    assert frequencies[1] / frequencies[0] == pytest.approx(2**-1.3, abs=0.05)
    assert frequencies[3] / frequencies[0] == pytest.approx(4**-1.3, abs=0.05)


def test_generate_data(tmp_path, capsys):
    problem = small("algorithmic_reverse_binary40")
    counts = problem.generate_data(tmp_path, seed=5)
    assert counts == {"train": 200, "dev": 100, "test": 50}
    assert capsys.readouterr().out.count("\n") == 1
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names[0] == "algorithmic_reverse_binary40-dev-00000-of-00001"
    assert names[-1] == "algorithmic_reverse_binary40-train-00009-of-00010"
    assert len(names) == 12

    # A second call writes only the missing file.
    assert problem.generate_data(tmp_path, seed=5) == {}
    first = (tmp_path / names[-1]).read_bytes()
    os.remove(tmp_path / names[-2])
    assert problem.generate_data(tmp_path, seed=5) == {"train": 20}
    assert (tmp_path / names[-1]).read_bytes() == first

    train = problem.dataset("train", tmp_path, HPARAMS, seed=1)
    assert sum(targets.shape[0] for _, targets in train) == 200


def test_generation_is_repeatable(tmp_path):
    def content(folder, seed):
        small("algorithmic_sort_problem").generate_data(tmp_path / folder, seed=seed)
        paths = (tmp_path / folder).rglob("*")
        return {p.name: p.read_bytes() for p in paths if p.is_file()}

    first = content("a", 1)
    assert first == content("b", 1)
    assert first != content("c", 2)


@pytest.mark.parametrize("name", NAMES)
def test_test_split_has_exactly_the_longest_length(name):
    problem = small(name, test_size=20)
    if "test" not in problem.splits:
        return
    inputs = [example["inputs"] for example in samples(problem, "test")]
    assert len({tuple(ids) for ids in inputs}) == 20
    assert {len(ids) - 1 for ids in inputs} == {problem.dev_length}
    assert problem.dev_length > problem.train_length
    if name.endswith("40") and "shift" not in name:
        assert (problem.train_length, problem.dev_length) == (40, 400)


def test_held_out_strings_are_not_in_training():
    problem = small("algorithmic_reverse_decimal40_held_out", train_size=5000, dev_size=500)
    assert (problem.train_length, problem.dev_length) == (40, 40)
    train, dev = (
        [tuple(e["inputs"]) for e in samples(problem, split)] for split in ("train", "dev")
    )
    assert not set(train) & set(dev)
    # Short strings are also held out. Otherwise, most short strings would be in the train split.
    assert sum(len(ids) == 3 for ids in dev) > 3
    assert {len(ids) for ids in train} == set(range(2, 42))
    assert {len(ids) for ids in dev} == set(range(3, 42))
    # No string and no length has a large share of the dev split.
    assert collections.Counter(dev).most_common(1)[0][1] <= 20
    assert collections.Counter(map(len, dev)).most_common(1)[0][1] <= 40


def test_dataset_reads_folder_of_t2t():
    problem = problems.get("algorithmic_reverse_binary40")
    for split in ("train", "dev"):
        examples = 0
        for features, targets in problem.dataset(split, T2T_DATA_DIR, HPARAMS):
            assert features["inputs"].shape == targets.shape
            assert int(targets.numpy().max()) == 3
            examples += targets.shape[0]
        assert examples > 50


def test_dataset_names_missing_files(tmp_path):
    problem = problems.get("tiny_algo")
    with pytest.raises(DataError, match="tiny_algo-train.*--generate_data"):
        problem.dataset("train", tmp_path / "absent", HPARAMS)
    problem.generate_data(tmp_path)
    with pytest.raises(DataError, match="tiny_algo-test"):
        problem.dataset("test", tmp_path, HPARAMS)


@pytest.mark.parametrize(
    ("name", "inputs", "targets", "shown"),
    [
        ("algorithmic_reverse_decimal40", [4, 1, 9], [9, 1, 4], r"'inputs'.*\[4, 1, 9\]"),  # 1.0
        ("algorithmic_reverse_decimal40", [5, 2], [2, 5, 1], r"'inputs'.*\[5, 2\]"),  # 1.0.3
        ("algorithmic_reverse_decimal40_rev", [5, 2], [2, 5, 1], r"'inputs'.*\[5, 2\]"),
        ("algorithmic_identity_binary40", [3, 1], [3] * 20, r"'targets'.*\[3(, 3){9}, …\]"),
        ("tiny_algo", [0, 1, 1], [0, 1, 1], r"'inputs'.*\[0, 1, 1\]"),  # all versions of T2T
    ],
)
def test_records_of_older_versions_raise(name, inputs, targets, shown, tmp_path):
    problem = problems.get(name)
    path = str(tmp_path / f"{problem.filename}-dev-00000-of-00001")
    right = {"inputs": [3, 1], "targets": [3, 1]}  # a record of T2T 1.0.1 can be right by chance
    tfrecords.write([right, {"inputs": inputs, "targets": targets}], [path])
    with pytest.raises(DataError, match=f"{shown} in {path}.*Generate the data again"):
        problem.dataset("dev", str(tmp_path), HPARAMS)


class ReverseWithoutEnd(algorithmic.AlgorithmicProblem):
    """A user's problem whose records have no EOS."""

    name = "reverse_without_end"
    train_size = dev_size = test_size = 20
    dev_length = 40

    def answer(self, symbols):
        return symbols[::-1]

    def generate_encoded_samples(self, *args):
        for record in super().generate_encoded_samples(*args):
            yield {name: ids[:-1] for name, ids in record.items()}


def test_subclass_may_write_records_of_another_form(tmp_path):
    problem = ReverseWithoutEnd()
    problem.generate_data(str(tmp_path))
    features, *_ = next(iter(problem.dataset("dev", str(tmp_path), HPARAMS)))
    assert not (features["inputs"].numpy() == 1).any()


def test_reversed_problem_has_space_id_of_its_targets():
    """T2T's Transformers look up an embedding with the target space id."""
    ids = {"": 11, "_rev": 10, "_copy": 10, "_copy_rev": 11}
    for ending, space in ids.items():
        assert problems.get(f"algorithmic_reverse_binary40{ending}").target_space_id == space
