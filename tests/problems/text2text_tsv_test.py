import os
import re
import shutil
import types

import pytest

from ut_keras import problems
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.text import text_encoder

HPARAMS = types.SimpleNamespace(batch_size=512, max_length=256)
VOCAB = "vocab.text2text_tsv.8192.subwords"


def lines(start, stop):
    return [f"Quelle {i} ä_\\.\tSource {i}, it's." for i in range(start, stop)]


def write(folder, **splits):
    for split, content in splits.items():
        (folder / f"{split}.tsv").write_bytes("\n".join([*content, ""]).encode())


def generate(tmp_path):
    problem = problems.get("text2text_tsv")
    return problem, problem.generate_data(tmp_path / "data", str(tmp_path))


def pairs(problem, tmp_path, split):
    """Return the decoded texts of a split in the order of the files."""
    encoders = problem.feature_encoders(tmp_path / "data")
    found = []
    for path in tfrecords.find(tmp_path / "data", problem.filename, split):
        for example in tfrecords.read(path):
            assert example["inputs"][-1] == example["targets"][-1] == text_encoder.EOS
            texts = [encoders[n].decode(example[n][:-1]) for n in ("inputs", "targets")]
            found.append("\t".join(texts))
    return found


def test_every_split_has_its_file(tmp_path, capsys):
    write(tmp_path, train=lines(0, 50), dev=lines(50, 60), test=lines(60, 63))
    problem, counts = generate(tmp_path)
    assert counts == {"train": 50, "dev": 10, "test": 3}
    assert capsys.readouterr().out.count("\n") == 2  # lines about the vocabulary and the examples
    assert sorted(pairs(problem, tmp_path, "train")) == sorted(lines(0, 50))
    assert pairs(problem, tmp_path, "train") != lines(0, 50)
    assert pairs(problem, tmp_path, "dev") == lines(50, 60)
    assert pairs(problem, tmp_path, "test") == lines(60, 63)
    specs = problem.feature_specs(tmp_path / "data")
    assert specs["inputs"] == specs["targets"]
    assert 10 < specs["inputs"].vocab_size < 300
    batches = problem.dataset("train", tmp_path / "data", HPARAMS)
    assert sum(targets.shape[0] for _, targets in batches) == 50


def test_dev_is_every_twentieth_line_without_file(tmp_path, capsys):
    write(tmp_path, train=lines(1, 61))
    problem, counts = generate(tmp_path)
    assert counts == {"train": 57, "dev": 3}
    held_out = [line for i in (20, 40, 60) for line in lines(i, i + 1)]
    assert pairs(problem, tmp_path, "dev") == held_out
    assert not set(held_out) & set(pairs(problem, tmp_path, "train"))
    assert "every 20th line" in capsys.readouterr().out


def test_existing_vocabulary_is_used(tmp_path):
    write(tmp_path, train=lines(0, 30))
    alphabet = sorted({c for line in lines(0, 30) for c in line} | set("\\_u;0123456789"))
    os.mkdir(tmp_path / "data")
    own = text_encoder.SubwordTextEncoder(subtokens=["<pad>_", "<EOS>_", *alphabet])
    own.store_to_file(str(tmp_path / "data" / VOCAB))
    problem, _ = generate(tmp_path)
    assert problem.feature_specs(tmp_path / "data")["inputs"].vocab_size == len(alphabet) + 2


def test_line_ends_byte_order_mark_and_empty_lines(tmp_path):
    text = "\ufeffa\tb\r\n\r\n c d \te\r\n" + "x\ty\r\n" * 17 + "last\tone"
    (tmp_path / "train.tsv").write_bytes(text.encode())
    problem, counts = generate(tmp_path)
    assert counts == {"train": 19, "dev": 1}
    assert set(pairs(problem, tmp_path, "train")) == {"a\tb", "c d\te", "x\ty"}
    assert pairs(problem, tmp_path, "dev") == ["last\tone"]


def test_carriage_returns_inside_lines_are_noted(tmp_path, capsys):
    mixed = [*lines(0, 20), "one\teins\rtwo", "three\tdrei\r"]
    write(tmp_path, train=mixed, dev=lines(20, 30))
    problem, counts = generate(tmp_path)
    assert counts == {"train": 22, "dev": 10}
    assert "one\teins\rtwo" in pairs(problem, tmp_path, "train")
    printed = capsys.readouterr().out
    assert "text2text_tsv, train split: 1 line contains carriage returns" in printed
    assert "dev split" not in printed


def assert_data_error(pattern, tmp_path):
    with pytest.raises(DataError, match=pattern) as error:
        generate(tmp_path)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "data").glob("*"))


@pytest.mark.parametrize("bad", ["no tab", "two\ttabs\there", "\tno source", "no target\t "])
@pytest.mark.parametrize("split", ["train", "dev"])
def test_invalid_line_is_named(tmp_path, bad, split):
    write(tmp_path, **{"train": lines(0, 30), "dev": lines(0, 5)})
    write(tmp_path, **{split: [*lines(0, 2), "", bad, *lines(3, 30)]})
    assert_data_error(rf"source<TAB>target.*{split}.tsv, line 4: ", tmp_path)


def test_invalid_utf8_is_named(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"a\tb\n\xe4\tb\n")
    assert_data_error(r"UTF-8.*train.tsv, line 2", tmp_path)


def test_missing_file_and_too_few_lines_raise(tmp_path):
    assert_data_error(f"train.tsv.*tmp_dir='{tmp_path}'", tmp_path)
    write(tmp_path, train=lines(0, 19))
    assert_data_error("dev split.*at least 20", tmp_path)


def test_rebuilt_vocabulary_is_rejected_for_older_records(tmp_path):
    """The records keep the ids of the vocabulary with which they were made."""
    write(tmp_path, train=lines(0, 50), dev=lines(50, 60))
    problem, _ = generate(tmp_path)
    vocabulary = tmp_path / "data" / VOCAB
    former = vocabulary.read_bytes()
    vocabulary.unlink()
    assert generate(tmp_path)[1] == {} and vocabulary.read_bytes() == former
    vocabulary.unlink()
    write(tmp_path, train=[line.replace("Source", "Origin") for line in lines(0, 50)])
    with pytest.raises(DataError, match=f"{VOCAB} .* text2text_tsv-train-.* Received: another"):
        generate(tmp_path)
    assert not vocabulary.exists()
    # The line ends may change, but not the subwords.
    vocabulary.write_bytes(former.replace(b"\n", b"\r\n"))
    problem.dataset("train", tmp_path / "data", HPARAMS)
    vocabulary.write_bytes(former.removesuffix(b"\n"))
    problem.dataset("train", tmp_path / "data", HPARAMS)
    vocabulary.write_bytes(former + b"'new'\n")
    with pytest.raises(DataError, match=f"{VOCAB} .* Received: another"):
        problem.dataset("train", tmp_path / "data", HPARAMS)
    first, second, *others = former.splitlines()[2:]
    swapped = [*former.splitlines()[:2], second, first, *others]
    vocabulary.write_bytes(b"\n".join([*swapped, b""]))
    with pytest.raises(DataError, match=f"{VOCAB} .* text2text_tsv-dev-.* Received: another"):
        problem.dataset("dev", tmp_path / "data", HPARAMS)


def test_vocabulary_built_for_copied_files_is_noted(tmp_path, capsys):
    """The files were copied without the vocabulary and without the record of their generation."""
    write(tmp_path, train=lines(0, 50), dev=lines(50, 60))
    generate(tmp_path)
    vocabulary = tmp_path / "data" / VOCAB
    vocabulary.unlink()
    generate(tmp_path)
    assert "was missing" not in capsys.readouterr().out  # the record has the vocabulary's digest
    vocabulary.unlink()
    shutil.rmtree(tmp_path / "data" / ".ut_keras-records")
    generate(tmp_path)
    printed = capsys.readouterr().out
    assert f"note: {VOCAB} was missing and has been built" in printed
    assert "text2text_tsv-train-*, text2text_tsv-dev-* existed before" in printed
    generate(tmp_path)
    assert "was missing" not in capsys.readouterr().out


def test_note_names_files_that_changed_after_generation(tmp_path, capsys):
    write(tmp_path, train=lines(0, 50))
    problem, _ = generate(tmp_path)
    write(tmp_path, dev=lines(50, 53))
    for changed in (["dev.tsv"], ["train.tsv", "dev.tsv"]):  # one note for each changed file
        capsys.readouterr()
        assert generate(tmp_path)[1] == {}
        notes = [line for line in capsys.readouterr().out.splitlines() if "note:" in line]
        for name, note in zip(changed, notes, strict=True):
            assert f"changed: {name}. To generate them again, remove" in note
        write(tmp_path, train=lines(1, 51))
    for path in (tmp_path / "data").glob("text2text_tsv-*"):
        path.unlink()
    generate(tmp_path)
    capsys.readouterr()
    generate(tmp_path)
    problem.generate_data(tmp_path / "data", str(tmp_path / "without files"))
    assert "note:" not in capsys.readouterr().out


def test_changed_files_print_notes_only_for_their_splits(tmp_path, capsys):
    write(tmp_path, train=lines(0, 50), dev=lines(50, 53))
    generate(tmp_path)
    changes = [
        ({"test": lines(53, 55)}, set()),  # this call generates the test split
        ({}, set()),
        ({"dev": lines(60, 63)}, {"dev"}),
        ({"train": lines(1, 51)}, {"train", "dev"}),
        ({"test": lines(54, 56)}, {"train", "dev", "test"}),
    ]
    for files, splits in changes:
        write(tmp_path, **files)
        capsys.readouterr()
        generate(tmp_path)
        notes = [line for line in capsys.readouterr().out.splitlines() if "note:" in line]
        assert len(notes) == len(splits)
        for split in splits:
            expected = f"text2text_tsv-{split}-* were not made from .* changed: {split}.tsv[.] "
            assert any(re.search(expected.replace("*", "[*]", 1), note) for note in notes)


def test_note_names_the_splits_that_max_cases_limited(tmp_path, capsys):
    write(tmp_path, train=lines(0, 50), dev=lines(50, 53))
    problem = problems.get("text2text_tsv")
    problem.generate_data(tmp_path / "data", str(tmp_path), max_cases=9)
    for max_cases, noted in ((None, True), (10, True), (9, False)):
        capsys.readouterr()
        problem.generate_data(tmp_path / "data", str(tmp_path), max_cases=max_cases)
        out = capsys.readouterr().out
        assert ("text2text_tsv-train-* have only the first 9 samples" in out) == noted
        assert "text2text_tsv-dev" not in out
    for path in (tmp_path / "data").glob("text2text_tsv-*"):
        path.unlink()
    for noted in (True, False):  # the second call finds the data of the first one
        capsys.readouterr()
        generate(tmp_path)
        assert (f"{VOCAB} may be built from the first 9" in capsys.readouterr().out) == noted


def test_missing_vocabulary_is_named(tmp_path):
    write(tmp_path, train=lines(0, 30))
    problem, _ = generate(tmp_path)
    os.remove(tmp_path / "data" / VOCAB)
    with pytest.raises(DataError, match=f"vocabulary file.*{VOCAB}"):
        problem.dataset("train", tmp_path / "data", HPARAMS)
