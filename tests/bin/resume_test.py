"""A rejected trainer command changes no file, and a resumed run loses no results."""

import hashlib
import json
import shutil

import pytest
import tensorflow as tf

import trainer
from tests.bin import small_run
from ut_keras.bin import datagen

PROBLEM = "text2text_tsv"
VOCABULARY = f"vocab.{PROBLEM}.8192.subwords"
STEPS = 6


def _argv(folder, **changed):
    hparams = {**small_run.SMALL, "batch_size": 256, **changed.pop("hparams", {})}
    values = {
        "problem": PROBLEM,
        "model": "transformer",
        "hparams_set": "transformer_tiny",
        "hparams": ",".join(f"{key}={value}" for key, value in hparams.items()),
        "data_dir": f"{folder}/data",
        "output_dir": f"{folder}/run",
        "train_steps": STEPS,
        "local_eval_frequency": 2,
        "eval_steps": 1,
        "random_seed": 1,
        "schedule": "continuous_train_and_eval",
    }
    return [f"--{name}={value}" for name, value in {**values, **changed}.items()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder with data and a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "raw").mkdir()
    for split in ("train", "dev"):
        lines = "".join(f"number {i} is here\tthere is {i}\n" for i in range(150))
        (folder / "raw" / f"{split}.tsv").write_text(lines)
    argv = [f"--problem={PROBLEM}", f"--data_dir={folder}/data", f"--tmp_dir={folder}/raw"]
    assert datagen.main(argv) == 0
    assert trainer.main(_argv(folder)) == 0
    return folder


@pytest.fixture
def world(finished, tmp_path):
    """Return a copy of the folder `finished` that the test can damage."""
    return shutil.copytree(finished, tmp_path / "world")


def _content(folder):
    """Return {path: (time of change, digest)} of all files in a folder."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _vocabulary(world):
    return (world / "data" / VOCABULARY).read_text().splitlines(keepends=True)


def _forget_side_files(world):
    """Remove the digests of the side files from the JSON files of the splits.

    Older versions did not write these digests.
    """
    for path in (world / "data" / ".ut_keras-records").glob("datagen.*.json"):
        origin = json.loads(path.read_text())
        del origin["side_files"]
        path.write_text(json.dumps(origin))


def _with_another_entry(world):
    (world / "data" / VOCABULARY).write_text("".join([*_vocabulary(world), "'another_'\n"]))


def _with_another_entry_in_older_data(world):
    _forget_side_files(world)
    _with_another_entry(world)


def _in_another_order(world):
    _forget_side_files(world)
    lines = _vocabulary(world)
    lines[-2:] = reversed(lines[-2:])
    (world / "data" / VOCABULARY).write_text("".join(lines))


def _of_an_older_version(world):
    """Change the vocabulary and remove its digests, which older versions did not write.

    Then only the shapes of the variables show that the vocabulary changed.
    """
    (world / "run" / "features.json").unlink()
    _with_another_entry_in_older_data(world)


def _damage(world, *steps):
    for step in steps:
        index = world / "run" / f"model.ckpt-{step}.index"
        index.write_bytes(index.read_bytes()[:100])


def _without_checkpoints(world):
    for path in [*(world / "run").glob("model.ckpt-*"), world / "run" / "checkpoint"]:
        path.unlink()


def _damage_all(world):
    (world / "run" / "checkpoint").unlink()
    _damage(world, 2, 4, 6)


def _damage_data(world):
    path = next((world / "data").glob(f"{PROBLEM}-train-00000-*"))
    path.write_bytes(path.read_bytes()[:-3])


# {name: (function that damages the folder, changed flags, part of the error message)}
REJECTED = {
    "optimizer": (None, {"hparams": {"optimizer": "momentum"}}, "optimizer must be adam "),
    "size": (None, {"hparams": {"hidden_size": 32}}, "hidden_size=32 instead of 16"),
    "heads": (None, {"hparams": {"num_heads": 4}}, "num_heads=4 instead of 2"),
    "no hparam": (None, {"hparams": {"hiden_size": 3}}, "hidden_size"),
    "no number": (None, {"hparams": {"dropout": "much"}}, "dropout"),
    "torn hparams": (None, {"hparams": {"a": "[1"}}, "must end with ']'"),
    "other problem": (None, {"problem": "algorithmic_identity_binary40"}, "--problem="),
    "other model": (None, {"model": "universal_transformer"}, "--model="),
    "unknown flag": (None, {"trian_steps": 3}, "--train_steps"),
    "bad flag": (None, {"moving_average_decay": 1}, "must be in [0, 1)"),
    "unknown decode hparam": (None, {"decode_hparams": "beam=3"}, "beam_size"),
    "no data": (lambda world: shutil.rmtree(world / "data"), {}, "does not exist"),
    "damaged data": (_damage_data, {}, "-train-00000"),
    "a vocabulary with one more": (
        _with_another_entry_in_older_data,
        {},
        "vocabulary of 'inputs' must match",
    ),
    "a vocabulary with which no data were made": (_with_another_entry, {}, f"{VOCABULARY} in "),
    "a vocabulary in another order": (_in_another_order, {}, "vocabulary of 'inputs' must match"),
    "an older run, another vocabulary": (
        _of_an_older_version,
        {},
        "must belong to the same model and vocabulary",
    ),
    "a file checkpoint that names none": (
        lambda world: (world / "run" / "checkpoint").write_text(""),
        {},
        "must name a checkpoint",
    ),
    "damaged checkpoints": (_damage_all, {}, "must be readable"),
    "lost checkpoints": (_without_checkpoints, {}, "must contain a checkpoint"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REJECTED)
def test_rejected_command_changes_no_file(world, capsys, name):
    spoil, changed, message = REJECTED[name]
    if spoil:
        spoil(world)
    before = _content(world / "run")
    assert "best/hparams.json" in before
    line = small_run.error(capsys, trainer.main, _argv(world, **changed))
    assert message in line
    assert _content(world / "run") == before


def _steps_of_records(run):
    return [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def _weights(run):
    reader = tf.train.load_checkpoint(f"{run}/model.ckpt-{STEPS}")
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("model/")]
    return {name: reader.get_tensor(name).tolist() for name in names}


@pytest.mark.parametrize(
    "damaged, lost, resumed_step",
    [
        pytest.param([], ["checkpoint"], 6, marks=pytest.mark.slow),
        pytest.param([6], ["checkpoint"], 4, marks=pytest.mark.slow),
        pytest.param([6], ["model.ckpt-4.index"], 2, marks=pytest.mark.slow),
    ],
)
def test_resume_uses_newest_complete_checkpoint(
    world, finished, capsys, damaged, lost, resumed_step
):
    _damage(world, *damaged)
    for name in lost:
        (world / "run" / name).unlink()
    assert trainer.main(_argv(world)) == 0
    shown = capsys.readouterr().out
    assert f"Resuming from step {resumed_step} " in shown
    assert shown.count("Skipped a checkpoint that cannot be read: ") == (6 - resumed_step) // 2
    run = world / "run"
    assert sorted(set(_steps_of_records(run))) == [2, 4, 6]
    assert _weights(run) == _weights(finished / "run")


@pytest.mark.slow
def test_rolled_back_run_reports_rewritten_checkpoints(world, capsys):
    lines = 'model_checkpoint_path: "model.ckpt-2"\nall_model_checkpoint_paths: "model.ckpt-2"\n'
    (world / "run" / "checkpoint").write_text(lines)
    assert trainer.main(_argv(world, schedule="train", train_steps=2)) == 0
    shown = capsys.readouterr().out
    assert "Resuming from step 2 " in shown
    assert "note: model.ckpt-4, model.ckpt-6 will be overwritten" in shown
