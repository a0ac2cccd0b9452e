import os
import types

import numpy as np
import pytest
import tensorflow as tf

from tests.bin import small_run
from ut_keras import problems
from ut_keras.bin import command_line, flags, trainer, trainer_setup
from ut_keras.data.reading.indexed_batches import IndexedBatches
from ut_keras.decoding import beam_search
from ut_keras.inference import free_decoding
from ut_keras.training import output_folder

_DATA_DIR = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "data_dir")


@pytest.mark.parametrize("cluster", ["two", None])
def test_lost_worker_outside_training_is_reported(monkeypatch, capsys, cluster):
    def lost(*datasets):
        raise tf.errors.UnavailableError(None, None, "Connection reset by peer")

    setup = types.SimpleNamespace(cluster=cluster, writes=False, schedule="evaluate")
    made = (types.SimpleNamespace(evaluate=lost), None, None)
    monkeypatch.setattr(trainer_setup, "check", lambda args: setup)
    monkeypatch.setattr(trainer, "make_trainer", lambda setup: made)
    if cluster:
        assert trainer.main([]) == 75
        assert "Lost the connection to another worker. Run" in "".join(capsys.readouterr())
    else:
        with pytest.raises(tf.errors.UnavailableError):
            trainer.main([])


def _setup(tmp_path, *more):
    argv = [
        "--problem=algorithmic_reverse_binary40",
        "--model=transformer",
        "--hparams_set=transformer_tiny",
        f"--data_dir={_DATA_DIR}",
        f"--output_dir={tmp_path / 'run'}",
        "--random_seed=3",
        *("--train_steps=2", "--schedule=train"),
        f"--hparams={','.join(f'{name}={value}' for name, value in small_run.SMALL.items())}",
        *more,
    ]
    return trainer_setup.check(command_line.parse(flags.TRAINER, argv, "trainer.py", ""))


def test_trainer_reads_training_batches(tmp_path):
    _, make_epoch, _ = trainer.make_trainer(_setup(tmp_path))
    assert isinstance(make_epoch(0), IndexedBatches)


def test_free_decoding_reads_first_records_of_files(tmp_path):
    """With num_samples, ut-trainer decodes the same examples as ut-decoder and T2T."""
    setup = _setup(tmp_path, "--decode_hparams=num_samples=5")
    made, _, make_eval_dataset = trainer.make_trainer(setup)
    shown = []

    def outputs(rows, options):
        shown.extend(row.tolist() for row in rows)
        return [beam_search.Decoded(np.ones([1, 1], np.int32), np.zeros(1))] * len(rows)

    made.free_decoder._predictor.outputs = outputs
    made._decode(1, make_eval_dataset, types.SimpleNamespace(stops_evaluation=lambda: False), None)
    specs = setup.problem.feature_specs(_DATA_DIR)
    run = types.SimpleNamespace(problem=setup.problem, data_dir=_DATA_DIR, hp=setup.hp, specs=specs)
    rows, _ = free_decoding.read_rows(run, "dev", 5)
    assert shown == [row.tolist() for row in rows]


def test_trainer_reads_own_dataset_of_problem(tmp_path, monkeypatch):
    """The trainer uses the batches of a problem that overrides `dataset`."""
    base = type(problems.get("algorithmic_reverse_binary40"))
    plain, splits = base.dataset, []

    def dataset(self, split, *arguments, **settings):
        splits.append(split)
        return plain(self, split, *arguments, **settings).take(1)

    monkeypatch.setattr(base, "dataset", dataset)
    made, make_epoch, make_eval_dataset = trainer.make_trainer(_setup(tmp_path))
    orders = [[t.numpy().tolist() for _, t in make_epoch(number)] for number in (0, 1)]
    assert [len(order) for order in orders] == [1, 1] and orders[0] != orders[1]
    with output_folder.lock(str(tmp_path / "run")):
        made.train(make_epoch, make_eval_dataset)
    assert set(splits) == {"train"}
