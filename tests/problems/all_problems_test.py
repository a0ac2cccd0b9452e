"""Tests of all problems that generate their data or read the user's files."""

import pytest

from ut_keras import hparams, problems
from ut_keras.data import tfrecords
from ut_keras.problems.registration import REGISTRY
from ut_keras.text import text_encoder

_OWN = {
    **{f"{split}.tsv": "a text\tgood\nanother\tbad\n" * 20 for split in ("train", "dev", "test")},
    **{f"{split}.txt": "a text\nanother one\n" * 20 for split in ("train", "dev", "test")},
    **{
        f"{side}.{split}.txt": "a text\nanother\n" * 20
        for side in ("inputs", "targets")
        for split in ("train", "eval", "test")
    },
    "vocab.txt": "a\ntext\nanother\nUNK\n",
}
# All SCAN problems have the same commands, so the default run tests one problem for each kind of
# split.
_SCAN = ("scan_addprim_jump_valid", "scan_length_valid", "scan_simple", "scan_template_right")
_WITHOUT = [
    name
    for name, problem in ((name, problems.get(name)) for name in problems.names())
    if type(problem).__module__.startswith("ut_keras.problems.") and not problem.raw_files
]


def _of_each_kind():
    """Return the names of problems, one for each way to make samples and ids."""
    kinds = {}
    for name in _WITHOUT:
        cls = type(problems.get(name))
        kinds.setdefault((cls.generate_samples, cls.encode_samples, cls.feature_encoders), name)
    return list(kinds.values())


@pytest.fixture
def generated(tmp_path):
    """Return a function that generates a problem by name and returns (problem, counts)."""
    for name, content in _OWN.items():
        (tmp_path / name).write_text(content)

    def generate(name):
        problem = problems.get(name)
        problem.num_train_shards = 1
        counts = problem.generate_data(str(tmp_path), str(tmp_path), num_processes=1, max_cases=20)
        assert set(counts) == set(problem.splits_to_generate(str(tmp_path)))
        assert all(0 < count <= 20 for count in counts.values())
        return problem, counts

    return generate


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name.startswith("scan_") and name not in _SCAN
        else name
        for name in _WITHOUT
    ],
)
def test_ids_are_in_the_vocabulary_and_decode_to_text(generated, tmp_path, name):
    problem, counts = generated(name)
    encoders = problem.feature_encoders(str(tmp_path))
    specs = problem.record_specs(str(tmp_path))
    for split, count in counts.items():
        [path] = tfrecords.find(str(tmp_path), problem.filename, split)
        records = list(tfrecords.read(path))
        assert len(records) == count
        for record in records:
            assert record.keys() == specs.keys()
            for feature, ids in record.items():
                assert min(ids) >= 0 and max(ids) < specs[feature].vocab_size
                if feature not in problem.class_label_features:
                    assert ids.pop() == text_encoder.EOS and text_encoder.EOS not in ids
                assert encoders[feature].encode(encoders[feature].decode(ids)) == ids


# One problem per kind of features is enough here. The test above covers the records of all
# problems.
_READ = ("algorithmic_algebra_inverse", "text2class_tsv", "text2self_txt", "text2text_tsv")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n not in _READ)) for n in _of_each_kind()],
)
def test_dataset_yields_a_batch(generated, tmp_path, name):
    problem, counts = generated(name)
    hp = hparams.get("transformer_tiny", "batch_size=4096")
    for split in counts.keys() - {"test"}:  # "dev" and "test" are read in the same way
        count = counts[split]
        batches = list(problem.dataset(split, str(tmp_path), hp))
        read = sum(len(targets) for _, targets, *_ in batches)
        assert read == count or split == "train" and read > 0  # training drops long examples
        for features, targets, *_ in batches:
            assert set(features) == set(problem.feature_specs(str(tmp_path)))
            assert targets.dtype == "int32" and len(features["targets"]) == len(targets)


def test_renamed_problems_of_t2t_name_existing_problems():
    reasons = REGISTRY.unsupported()
    named = [reason.split()[-1] for reason in reasons.values() if "renamed" in reason]
    assert "translate_ende_wmt32k" in named
    for name in named:
        problems.get(name)
