"""The curriculum adds longer examples above an accuracy threshold, and resumes exactly."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tests.data.reading import small_files
from tests.training import toy
from ut_keras.checkpoints import checkpoint_files
from ut_keras.data.reading import input_pipeline
from ut_keras.data.reading.reading_options import ReadingOptions
from ut_keras.errors import DataError
from ut_keras.training import curriculum, distribution

_LENGTHS = [2, 3, 4, 9, 12]


def _epoch(folder, lengths=_LENGTHS, number=4, **changed):
    """Return `IndexedBatches` of sequences with these lengths and with ids of the toy model."""
    random = np.random.RandomState(0)
    examples = []
    for length in list(lengths) * number:
        ids = [*random.randint(2, toy.VOCAB_SIZE, length - 1).tolist(), 1]
        examples.append({"inputs": ids, "targets": ids})
    files = small_files.write(folder, examples)
    settings = small_files.settings(batch_size=24, min_length_bucket=4, **changed)
    return input_pipeline.make_batches(
        files, small_files.SYMBOLS, settings, True, seed=lambda number: 5 + number
    )


def _make(epoch, **settings):
    values = {"start_length": 3, "length_step": 2, "accuracy": 0.75, "updates": 2, **settings}
    strategy = distribution.get_strategy(devices=["CPU:0"])
    return curriculum.Curriculum(curriculum.CurriculumSettings(**values), epoch, strategy)


def _result(correct, sequences):
    return types.SimpleNamespace(
        newest_correct=tf.constant(float(correct)), newest_sequences=tf.constant(float(sequences))
    )


def test_curriculum_lengthens_at_the_threshold(tmp_path):
    made = _make(_epoch(tmp_path))
    assert made.length == 3
    assert made.add(_result(2, 2)) is None
    assert made.add(_result(0, 1)) is None  # the accuracy is 2/3, below the threshold of 3/4
    assert made.length == 3
    assert made.add(_result(2, 3)) is None  # a new measurement of the accuracy begins
    assert "75.0%" in made.add(_result(1, 1))
    assert made.length == 5
    for _ in range(2):
        made.add(_result(1, 1))
    assert made.length == 9  # there are no examples of length 7
    for _ in range(2):
        made.add(_result(1, 1))
    assert made.length == 12 and made.is_finished
    assert made.add(_result(1, 1)) is made.add(_result(1, 1)) is None


def test_curriculum_measures_until_a_batch_has_the_newest_lengths(tmp_path):
    made = _make(_epoch(tmp_path))
    for _ in range(5):
        assert made.add(_result(0, 0)) is None
    assert made.length == 3
    assert made.add(_result(1, 1)) is not None


def test_newest_weights_select_the_newest_lengths(tmp_path):
    made = _make(_epoch(tmp_path))
    inputs = np.int32([[3, 1, 0, 0], [3, 0, 3, 1], [4, 4, 1, 0]])
    targets = np.int32([[3, 1, 0, 0, 0], [1, 0, 0, 0, 0], [3, 3, 3, 3, 1]])
    features = {"inputs": inputs, "targets": targets}
    np.testing.assert_array_equal(made.newest_weights(features, targets), np.ones([3, 1]))
    for _ in range(2):
        made.add(_result(1, 1))
    newest = [[0.0], [1.0], [1.0]]  # two sequences are longer than 3
    np.testing.assert_array_equal(made.newest_weights(features, targets), newest)
    weights = np.float32([0.5, 0.25, 2])
    np.testing.assert_array_equal(
        made.newest_weights(features, targets, weights), [[0.0], [0.25], [2.0]]
    )
    stories = np.int32([[[0, 1], [0, 0]]] * 3)
    classes = {"inputs": stories, "targets": np.int32([[1]] * 3)}
    np.testing.assert_array_equal(
        made.newest_weights(classes, classes["targets"]), np.zeros([3, 1])
    )


def test_state_is_restored_from_the_position(tmp_path):
    epoch = _epoch(tmp_path)
    first, second = _make(epoch), _make(epoch)
    for values in ((1, 1), (1, 1), (1, 2)):
        first.add(_result(*values))
    first.write()
    for name, variable in first.position.items():
        second.position[name].assign(variable)
    second.read()
    second.write()
    for name, variable in first.position.items():
        assert second.position[name].numpy() == variable.numpy(), name
    assert first.add(_result(1, 1)) == second.add(_result(1, 1)) is None
    assert first.add(_result(9, 9)) == second.add(_result(9, 9)) is None
    assert first.add(_result(9, 9)) == second.add(_result(9, 9)) is not None


def test_up_to_keeps_buckets_and_skips_long_examples(tmp_path):
    batches = _epoch(tmp_path)
    short = batches.up_to(4)
    lengths = [int(np.count_nonzero(row)) for _, ids in short.one_pass() for row in ids.numpy()]
    assert sorted(lengths) == sorted([2, 3, 4] * 4)
    assert short.num_batches < batches.num_batches
    assert short.fingerprint != batches.fingerprint == batches.up_to(12).fingerprint
    assert {len(ids) for _, ids in short.one_pass()} <= {len(ids) for _, ids in batches.one_pass()}


def test_data_without_curriculum_are_rejected(tmp_path):
    settings = curriculum.CurriculumSettings(1)
    with pytest.raises(DataError, match="curriculum_start_length must be .* 2. Received: 1"):
        curriculum.check(settings, _epoch(tmp_path))
    with pytest.raises(DataError, match="requires data that .*Received: a _RangeDataset"):
        curriculum.check(settings, tf.data.Dataset.range(3))
    files = small_files.write(tmp_path, [small_files.example(3)])
    with pytest.raises(DataError, match="curriculum_start_length must be 0 .* Received: 5"):
        chosen = small_files.settings(curriculum_start_length=5)
        input_pipeline.make_batches(files, small_files.SYMBOLS, chosen, True, seed=1)


def test_mixture_of_problems_is_rejected(tmp_path):
    files = small_files.write(tmp_path, [small_files.example(3)] * 4, num_shards=2)
    mixed = input_pipeline.make_batches(
        files,
        small_files.SYMBOLS,
        small_files.settings(),
        True,
        seed=lambda number: number,
        options=ReadingOptions(groups=[1, 1]),
    )
    with pytest.raises(DataError, match="Received: a mixture"):
        curriculum.check(curriculum.CurriculumSettings(3), mixed)


def _train(output_dir, epoch, train_steps, **settings):
    chosen = curriculum.CurriculumSettings(3, 1, **settings)
    trainer, _ = toy.make_trainer(
        output_dir, train_steps=train_steps, eval_every_steps=100, curriculum=chosen
    )
    trainer.train(lambda number: epoch)


def _checkpoint(folder):
    reader = tf.train.load_checkpoint(checkpoint_files.newest(str(folder)))
    return {
        key: reader.get_tensor(key)
        for key in reader.get_variable_to_shape_map()
        if key != "_CHECKPOINTABLE_OBJECT_GRAPH"
    }


@pytest.mark.parametrize(
    ("stop", "last", "settings"),
    [
        # The first part of the resumed run stops between two increases of the length.
        pytest.param(5, 12, {"accuracy": 0.0, "updates": 3}, marks=pytest.mark.slow),
        # The first part of the resumed run stops while the accuracy is measured.
        (5, 6, {"accuracy": 0.5, "updates": 50}),
    ],
)
def test_resumed_run_equals_uninterrupted_run(tmp_path, capsys, stop, last, settings):
    (tmp_path / "data").mkdir()
    epoch = _epoch(tmp_path / "data")
    for name in ("at_once", "resumed"):
        (tmp_path / name).mkdir()
    _train(tmp_path / "at_once", epoch, last, **settings)
    messages = [line for line in capsys.readouterr().out.splitlines() if "Curriculum" in line]
    _train(tmp_path / "resumed", epoch, stop, **settings)
    _train(tmp_path / "resumed", epoch, last, **settings)
    again = [line for line in capsys.readouterr().out.splitlines() if "Curriculum" in line]
    assert messages == again
    wanted, found = _checkpoint(tmp_path / "at_once"), _checkpoint(tmp_path / "resumed")
    assert wanted.keys() == found.keys()
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)
    names = {key.split("/")[1]: value for key, value in wanted.items() if "curriculum" in key}
    if settings["updates"] == 3:
        assert [line.split("up to ")[1].split()[0] for line in messages] == ["4", "9", "12"]
        assert names["curriculum_length"] == 12 and names["curriculum_previous"] == 9
    else:
        assert messages == [] and names["curriculum_updates"] == 6
        assert names["curriculum_sequences"] > 6


def test_curriculum_can_begin_in_a_run_without_one(tmp_path):
    (tmp_path / "data").mkdir()
    epoch = _epoch(tmp_path / "data")
    trainer, _ = toy.make_trainer(tmp_path, train_steps=3, eval_every_steps=100)
    trainer.train(lambda number: epoch)
    _train(tmp_path, epoch, 5, accuracy=1.0, updates=50)
    found = {k.split("/")[1]: v for k, v in _checkpoint(tmp_path).items() if "curriculum" in k}
    assert found["curriculum_length"] == 3 and found["curriculum_updates"] == 2
