"""Tests of the commands with a Neural GPU: curriculum, resuming, decoding and scoring."""

import numpy as np
import pytest
import tensorflow as tf

import trainer
import ut_keras
from tests.bin import small_run
from ut_keras.bin import decoder
from ut_keras.checkpoints import checkpoint_files
from ut_keras.files import metrics_file

PROBLEM = "algorithmic_reverse_binary40_test"
HPARAMS = (
    "hidden_size=8,batch_size=128,curriculum_start_length=4,curriculum_length_step=2,"
    "curriculum_accuracy=1e-9,curriculum_updates=2"
)


def _train(folder, output_dir, steps, *more, hparams=HPARAMS):
    return trainer.main(
        [
            f"--problem={PROBLEM}",
            "--model=neural_gpu",
            "--hparams_set=neural_gpu",
            f"--hparams={hparams}",
            f"--data_dir={folder}/data",
            f"--output_dir={output_dir}",
            f"--train_steps={steps}",
            "--local_eval_frequency=3",
            "--eval_steps=1",
            "--random_seed=3",
            "--log_step_count_steps=3",
            "--schedule=train_eval_and_decode",
            "--decode_hparams=num_samples=20",
            *more,
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with data and a run of 6 updates."""
    folder = tmp_path_factory.mktemp("neural_gpu")
    assert _train(folder, folder / "run", 6, "--generate_data") == 0
    return folder


def _checkpoint(output_dir):
    reader = tf.train.load_checkpoint(checkpoint_files.newest(str(output_dir)))
    names = reader.get_variable_to_shape_map()
    ignored = ("_", "save_counter")  # prefixes of variables that TensorFlow adds
    return {name: reader.get_tensor(name) for name in names if not name.startswith(ignored)}


def test_trainer_evaluates_and_decodes(folder):
    records = list(metrics_file.records(str(folder / "run")))
    names = {name for record in records for name in record}
    assert {"loss", "accuracy_per_sequence", "decode/accuracy"} <= names


@pytest.mark.slow
def test_resumed_run_equals_uninterrupted_run(folder, tmp_path):
    for steps in (3, 6):
        assert _train(folder, tmp_path / "run", steps) == 0
    wanted, found = _checkpoint(folder / "run"), _checkpoint(tmp_path / "run")
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_decoder_writes_outputs_and_scores(folder):
    source, target = folder / "source", folder / "out"
    source.write_text("0 1 1\n\n1 0\n0 0 1 0 1\n")
    argv = [f"--output_dir={folder}/run", f"--data_dir={folder}/data"]
    assert decoder.main([*argv, f"--decode_from_file={source}", f"--decode_to_file={target}"]) == 0
    outputs = next(folder.glob("out*")).read_text().splitlines()
    assert len(outputs) == 4 and outputs[1] == ""

    run = ut_keras.load(folder / "run")
    assert [text for ((text, _),) in run.generate(["0 1 1", "1 0", "0 0 1 0 1"])] == [
        line for number, line in enumerate(outputs) if number != 1
    ]
    (folder / "pairs").write_text("0 1 1\t1 1 0\n1 0\t0 1\n")
    pairs = [f"--score_file={folder}/pairs", f"--decode_to_file={folder}/scores"]
    assert decoder.main([*argv, *pairs]) == 0
    ids = {"inputs": np.int32([[2, 3, 3, 1]]), "targets": np.int32([[3, 3, 2, 1]])}
    written = float((folder / "scores").read_text().split()[0])
    np.testing.assert_allclose(written, -run.model.score(ids)[0] / 4, atol=1e-5)


def test_trainer_rejects_a_start_below_all_examples(folder, tmp_path, capsys):
    argv = [
        f"--problem={PROBLEM}",
        "--model=neural_gpu",
        "--hparams_set=neural_gpu",
        "--hparams=curriculum_start_length=1",
        f"--data_dir={folder}/data",
        f"--output_dir={tmp_path}/run",
        "--train_steps=3",
    ]
    line = small_run.error(capsys, trainer.main, argv)
    assert "curriculum_start_length" in line and "Received: 1" in line
    assert not list(tmp_path.glob("run/*"))
