"""Five packages for T2T (tests/testdata/t2t_packages) work from generation to decoding."""

import json
import os
import re
import shutil

import pytest

import trainer
from ut_keras import hparams, problems
from ut_keras.bin import datagen, decoder
from ut_keras.data import tfrecords

_PACKAGES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "testdata", "t2t_packages"
)
# Each entry is (folder, problem, numbers of samples per split, hparams set for training).
_ALL = [
    ("example_usr_dir", "counted_lines", {"train": 90, "dev": 10}, "counted_small"),
    ("gcp/trainer", "verse_pairs", {"train": 30, "dev": 9}, "transformer_verse"),
    ("language/problems", "sentence_model", {"train": 32, "dev": 8}, "transformer_sentences"),
    ("parallel", "second_corpus", {"train": 32, "dev": 8}, "transformer_tiny"),
    ("gec_ro", "corrections", {"train": 32, "dev": 8}, "transformer_tiny"),
]
_SMALL = "batch_size=64,hidden_size=16,filter_size=16,num_heads=2,num_hidden_layers=1"


@pytest.fixture
def world(tmp_path):
    """Return a folder with copies of the packages and their raw data."""
    shutil.copytree(_PACKAGES, tmp_path / "packages")
    for folder in ("tmp", "data", "data/corrections"):
        (tmp_path / folder).mkdir()
    lines = [f"Line {number} of forty, and the last word is {number * 7}" for number in range(40)]
    (tmp_path / "tmp" / "raw.txt").write_text("\n".join(lines) + "\n")
    for name in ("first.en", "first.fa", "second.en", "second.fa"):
        (tmp_path / "data" / name).write_text("".join(f"{line} {name}\n" for line in lines))
    triples = "".join(f"{line.lower()}\n{line}\n\n" for line in lines)
    (tmp_path / "data" / "corrections" / "a.txt").write_text(triples)
    return tmp_path


def _flags(world, folder, problem):
    data = world / "data" / "corrections" if problem == "corrections" else world / "data"
    return [
        f"--t2t_usr_dir={world / 'packages' / folder}",
        f"--problem={problem}",
        f"--data_dir={data}",
        f"--tmp_dir={world / 'tmp'}",
    ]


def _examples(world, folder, problem, split):
    data_dir = _flags(world, folder, problem)[2].removeprefix("--data_dir=")
    return [
        json.dumps(example, sort_keys=True)
        for path in tfrecords.find(data_dir, problem, split)
        for example in tfrecords.read(path)
    ]


@pytest.mark.slow
def test_packages_generate_disjoint_train_and_dev_data(world, registries, capsys):
    for folder, problem, sizes, _ in _ALL:
        assert datagen.main([*_flags(world, folder, problem), "--inspect=1"]) == 0
        out = capsys.readouterr().out
        assert f"{problem}, train\n1  " in out and f"{problem}, dev\n1  " in out
        examples = {split: _examples(world, folder, problem, split) for split in sizes}
        assert {split: len(found) for split, found in examples.items()} == sizes
        assert not set(examples["train"]) & set(examples["dev"])
        left = list((world / "data").rglob("*-splits.json"))
        assert left == []
    # As in T2T, the samples go to the files in turn. The last of the 4 files is the dev split.
    encoder = problems.get("verse_pairs").feature_encoders(str(world / "data"))["inputs"]
    dev = [json.loads(example) for example in _examples(world, "gcp/trainer", "verse_pairs", "dev")]
    assert encoder.decode(dev[0]["inputs"][:-1]).startswith("line 3 of forty")
    assert encoder.decode(dev[1]["inputs"][:-1]).startswith("line 7 of forty")
    # The hparams sets of the packages are derived from built-in sets.
    hp = hparams.get("transformer_verse", "num_heads=4")
    assert (hp.hidden_size, hp.num_heads, hp.attention_dropout) == (16, 4, 0.6)
    assert hparams.get("transformer_verse_tpu").optimizer == "Adafactor"
    assert [item.name for item in hparams.get_range("transformer_verse_range")] == [
        "learning_rate_constant",
        "hidden_size",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("folder, problem, sizes, hparams_set", _ALL)
def test_packages_train_decode_and_evaluate(
    world, registries, capsys, folder, problem, sizes, hparams_set
):
    run = world / f"run_{problem}"
    flags = [*_flags(world, folder, problem), f"--output_dir={run}"]
    changed = f"--hparams={_SMALL}"
    train = ["--model=transformer", f"--hparams_set={hparams_set}", changed, "--train_steps=2"]
    schedule = "--schedule=train_and_evaluate"
    assert trainer.main([*flags, *train, schedule, "--generate_data", "--eval_steps=1"]) == 0
    assert "evaluation at step 2" in capsys.readouterr().out
    decoding = "--decode_hparams=beam_size=1,extra_length=2,num_samples=2"
    if problem == "sentence_model":  # a language model continues lines
        lines = (world / "tmp" / "raw.txt").read_text().splitlines()[:2]
        (world / "lines.txt").write_text("\n".join(lines) + "\n")
        files = [f"--decode_from_file={world}/lines.txt", f"--decode_to_file={world}/decoded.txt"]
        assert decoder.main([*flags, decoding, *files]) == 0
        assert (world / "decoded.txt").read_bytes().count(b"\n") == 2
        capsys.readouterr()
    else:
        assert decoder.main([*flags, decoding]) == 0
        assert capsys.readouterr().out.count("OUTPUT: ") == 2
    assert trainer.main([*flags, "--model=transformer", "--schedule=evaluate"]) == 0
    shown = capsys.readouterr().out
    metric = "accuracy" if problem == "sentence_model" else "accuracy_per_sequence"
    assert re.search(rf"^{metric}=", shown, re.MULTILINE)
