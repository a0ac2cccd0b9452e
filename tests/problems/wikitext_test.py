import itertools
import os
import types

import pytest

from tests.problems import archives
from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.text import text_encoder

HPARAMS = types.SimpleNamespace(batch_size=4096, max_length=8)
SAMPLE = " \n = Robert <unk> = \n \n Robert <unk> is an English film actor . \n"


def generate(tmp_path, **parts):
    for part, text in parts.items():
        (tmp_path / f"{part}.txt").write_text(text, encoding="utf-8")
    problem = problems.get("languagemodel_wikitext2")
    problem.num_train_shards = 1
    counts = problem.generate_data(str(tmp_path / "data"), str(tmp_path), num_processes=1)
    return problem, counts


def stream(problem, tmp_path, split):
    paths = tfrecords.find(tmp_path / "data", problem.filename, split)
    return [record["targets"] for path in paths for record in tfrecords.read(path)]


def test_wikitext2_matches_worked_record(tmp_path):
    problem, counts = generate(
        tmp_path, train=SAMPLE * 3, valid=SAMPLE, test=" Robert is outside . \n"
    )
    assert counts == {"train": 1, "dev": 1, "test": 1}
    encoder = problem.feature_encoders(str(tmp_path / "data"))["targets"]
    (dev,) = stream(problem, tmp_path, "dev")
    assert encoder.decode(dev) == (
        "<EOS> = Robert <unk> = <EOS> <EOS> Robert <unk> is an English film actor . <EOS>"
    )
    (test,) = stream(problem, tmp_path, "test")
    assert encoder.decode(test) == "Robert is <unk> . <EOS>"
    lines = text_encoder.read_lines(str(tmp_path / "data" / "vocab.languagemodel_wikitext2.tokens"))
    assert lines[:5] == ["<pad>", "<EOS>", "<unk>", "=", "Robert"]
    # The dataset is the same for every max_length of the hparams.
    assert sum(t.shape[0] for _, t in problem.dataset("train", tmp_path / "data", HPARAMS)) == 1


def test_windows_of_the_real_text(shared_dir, tmp_path):
    folder = os.path.join(shared_dir, "data", "wikitext2")
    for part in ("valid", "test"):
        os.symlink(os.path.join(folder, f"{part}.txt"), tmp_path / f"{part}.txt")
    # The shared folder has no train split, because the split is too large.
    os.symlink(os.path.join(folder, "valid.txt"), tmp_path / "train.txt")
    problem, _ = generate(tmp_path)
    for split, words in (("dev", 217_646), ("test", 245_569)):
        windows = stream(problem, tmp_path, split)
        assert {len(window) for window in windows[:-1]} == {256}
        assert sum(map(len, windows)) == words
    encoder = problem.feature_encoders(str(tmp_path / "data"))["targets"]
    with open(os.path.join(folder, "valid.txt"), encoding="utf-8") as file:
        text = file.read().replace("\n", " <EOS> ").split()
    ids = itertools.chain.from_iterable(stream(problem, tmp_path, "dev"))
    assert encoder.decode(ids).split() == text


pytestmark = pytest.mark.usefixtures("no_checksums")

_TEXT = " = Robert <unk> = \n \n Robert <unk> is an English film actor . \n"


def _write(tmp_path, folder, ending):
    members = {
        f"{folder}/wiki.{part}.{ending}": _TEXT * (3 if part == "train" else 1)
        for part in ("train", "valid", "test")
    }
    archives.write(tmp_path / f"{folder}-v1.zip", members)


def test_wikitext103_has_one_example_per_line(tmp_path):
    _write(tmp_path, "wikitext-103", "tokens")
    problem, counts = archives.generate("languagemodel_wikitext103", tmp_path)
    assert counts == {"train": 6, "dev": 2, "test": 2}
    assert archives.texts(problem, tmp_path, "test") == [
        ("= Robert <unk> =",),
        ("Robert <unk> is an English film actor .",),
    ]
    words = (tmp_path / "data" / "vocab.languagemodel_wikitext103.tokens").read_text().split("\n")
    # The vocabulary is in T2T's order: reserved tokens, then words by frequency and alphabet.
    assert words[:5] == ["<pad>", "<EOS>", "<unk>", "=", "Robert"]


def test_unrelated_train_file_is_not_read(tmp_path):
    _write(tmp_path, "wikitext-2", "tokens")
    (tmp_path / "train.txt").write_text("somebody's\n")
    _, counts = archives.generate("languagemodel_wikitext2", tmp_path)
    assert counts == {"train": 1, "dev": 1, "test": 1}
    words = (tmp_path / "data" / "vocab.languagemodel_wikitext2.tokens").read_text().split("\n")
    assert "Robert" in words and "somebody's" not in words


def test_characters_encode_the_raw_text(tmp_path):
    _write(tmp_path, "wikitext-103-raw", "raw")
    problem, counts = archives.generate("languagemodel_wikitext103_characters", tmp_path)
    assert counts["dev"] == 2
    assert archives.texts(problem, tmp_path, "dev")[0] == ("= Robert <unk> =",)


def test_lines_are_joined_to_the_limit(tmp_path):
    _write(tmp_path, "wikitext-103", "tokens")
    problem = problems.get("languagemodel_wikitext103_l4k")
    assert problem.max_length == 4096
    problem.max_length = 13  # this is two lines of 4 and 8 words, and EOS
    samples = list(problem.generate_samples("train", None, str(tmp_path), seed=0))
    assert [len(sample["targets"].split()) for sample in samples] == [12, 12, 12]
