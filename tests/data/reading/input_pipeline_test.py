import types

import numpy as np
import pytest
import tensorflow as tf

from tests.data.reading.small_files import (
    LENGTHS,
    SYMBOLS,
    arrays,
    assert_data_error,
    batches,
    example,
    rows,
    settings,
    write,
)
from ut_keras.data.features import FeatureSpec
from ut_keras.data.reading import input_pipeline, record_index
from ut_keras.data.reading.reading_options import ReadingOptions


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write three examples of each length in LENGTHS, and return the paths of the files.

    All tests share one index of these files.
    """
    folder = tmp_path_factory.mktemp("files")
    return write(folder, [example(n) for n in LENGTHS * 3], num_shards=2)


def test_evaluation_drops_nothing(files):
    found = batches(files)
    assert sorted(map(len, rows(found))) == sorted(LENGTHS * 3)
    again = batches(files)
    assert rows(found) == rows(again)
    for features, targets in found:
        assert features["inputs"].dtype == np.int32
        np.testing.assert_array_equal(features["targets"], targets)


def test_evaluation_keeps_order_within_bucket(tmp_path):
    examples = [{"inputs": [i, i, 1], "targets": [i, 1]} for i in range(2, 100)]
    found = batches(write(tmp_path, examples))
    assert rows(found) == [e["inputs"] for e in examples]


def test_training_drops_only_long_examples(files, capsys):
    expected = sorted([n for n in LENGTHS if n <= 32] * 3)
    assert sorted(map(len, rows(batches(files, training=True, seed=1)))) == expected
    dropped, total = 3 * len(LENGTHS) - len(expected), 3 * len(LENGTHS)
    note = f"note: max_length=32 skips {dropped} of {total} training examples\n"
    assert dropped and capsys.readouterr().out == note
    batches(files, training=True, settings=settings(max_length=max(LENGTHS), min_length=2))
    too_short = sum(n < 2 for n in LENGTHS) * 3
    assert ("min_length=2" in capsys.readouterr().out) == bool(too_short)
    batches(files)
    assert not capsys.readouterr().out  # an evaluation drops nothing


def test_eval_drop_long_sequences_drops_in_evaluation(files):
    found = batches(files, settings=settings(eval_drop_long_sequences=True))
    assert sorted(map(len, rows(found))) == sorted([n for n in LENGTHS if n <= 32] * 3)


def test_example_length_is_longest_feature(tmp_path):
    files = write(tmp_path, [example(5, 33), example(33, 5), example(32, 5)])
    assert list(map(len, rows(batches(files, training=True)))) == [32]


def test_min_length_drops_and_max_lengths_truncate(tmp_path):
    files = write(tmp_path, [example(3), example(20, 30)])
    cut = settings(min_length=4, max_input_seq_length=7, max_target_seq_length=9)
    ((features, _),) = batches(files, settings=cut)
    assert features["inputs"].shape == (1, 7)
    assert features["targets"].shape == (1, 9)


def test_truncation_cuts_segmentation_of_packed_row():
    parts = ("inputs", "inputs_position", "targets_segmentation", "inputs_of_another")
    row = {name: tf.ragged.constant([[1] * 9]) for name in parts}
    cut = input_pipeline._truncate(row, settings(max_input_seq_length=7, max_target_seq_length=4))
    assert [int(cut[name].row_lengths()[0]) for name in parts] == [7, 7, 4, 9]
    uncut = input_pipeline._truncate(row, settings(max_input_seq_length=-5))
    assert [int(uncut[name].row_lengths()[0]) for name in parts] == [9] * 4


def test_batch_size_counts_tokens_per_replica(tmp_path):
    files = write(tmp_path, [example(32) for _ in range(7)])
    for num_replicas, sizes in ((1, [1, 2, 2, 2]), (3, [1, 6])):
        found = batches(files, training=True, num_replicas=num_replicas)
        assert sorted(targets.shape[0] for _, targets in found) == sizes


def test_prepended_length_is_inputs_and_targets(tmp_path):
    """Features other than inputs and targets do not change the length of an example."""
    files = write(tmp_path, [{**example(9, n), "domain": [3]} for n in (10, 22, 23)])
    specs = {"domain": FeatureSpec(5, "class_label"), **SYMBOLS}
    chosen = settings(prepend_mode="prepend_inputs_full_attention")
    found = batches(files, training=True, specs=specs, settings=chosen)
    assert sorted(targets.shape for _, targets in found) == [(1, 10), (1, 22)]
    assert all(features["domain"].tolist() == [[3]] for features, _ in found)


def test_use_fixed_batch_size_counts_examples(tmp_path):
    files = write(tmp_path, [example(n) for n in (3, 30, 9, 15, 31)])
    found = batches(files, settings=settings(batch_size=4, use_fixed_batch_size=True))
    assert [targets.shape for _, targets in found] == [(4, 30), (1, 31)]


def test_shuffling_is_reproducible_and_differs_per_epoch(tmp_path):
    examples = [{"inputs": [i, 1], "targets": [1]} for i in range(2, 302)]
    files = write(tmp_path, examples, num_shards=3)
    chosen = settings(batch_shuffle_size=4)

    def two_passes(seed):
        tf.random.set_seed(11)
        dataset = input_pipeline.make_dataset(files, SYMBOLS, chosen, training=True, seed=seed)
        ids = [i for f, _ in dataset.repeat(2) for i in f["inputs"][:, 0].numpy().tolist()]
        return ids[:300], ids[300:]

    first, second = two_passes(seed=5)
    assert (first, second) == two_passes(seed=5)
    assert first != second
    assert first != two_passes(seed=6)[0]
    assert sorted(first) == sorted(second) == list(range(2, 302))


def test_static_shapes_pad_to_bucket_boundaries(tmp_path):
    """Evaluation keeps examples that are longer than all boundaries."""
    lengths = [n for n in range(1, 33) for _ in range(3)]
    files = write(tmp_path, [example(n, 1 + n // 2) for n in [*lengths, 100]])
    scheme = input_pipeline._scheme(settings(), drop_long=True, num_replicas=1)
    boundaries = [*scheme.boundaries, 33]
    shapes = dict(zip([b - 1 for b in boundaries], scheme.batch_sizes, strict=True))
    for training in (True, False):
        found = batches(files, training, settings=settings(static_shapes=True), seed=1)
        for features, targets in found:
            size, length = targets.shape
            assert features["inputs"].shape == (size, length)
            if not training and length > 32:
                assert (features["inputs"] > 0).sum() == 100
            else:
                assert size == shapes[length] if training else size <= shapes[length]
        if training:  # The pipeline repeats examples to fill a batch, and loses no example.
            expected = {tuple(example(n)["inputs"]) for n in lengths}
            assert {tuple(row) for row in rows(found)} == expected
        else:
            assert sorted(map(len, rows(found))) == [*lengths, 100]


def test_merged_buckets_have_few_shapes(tmp_path):
    """The pipeline pads each feature to its greatest length in a bucket, and loses no example."""
    lengths = [n for n in range(1, 33) for _ in range(3)]
    files = write(tmp_path, [example(n, 1 + n // 2) for n in lengths])
    chosen = settings(static_shapes=True, most_shapes=3)
    made = input_pipeline.make_batches(files, SYMBOLS, chosen, training=True, seed=1)
    found = arrays(made.one_pass())
    shapes = {(f["inputs"].shape, targets.shape) for f, targets in found}
    assert len(shapes) == made.merged.num_shapes == 3
    assert max(shape[1] for shape, _ in shapes) == 32
    for (size, length), (other_size, target_length) in shapes:
        assert size == other_size and target_length == 1 + length // 2
        assert size * length <= 64
    assert {len(row) for row in rows(found)} == set(lengths)
    # The pipeline merges no buckets for evaluation or for datasets without static shapes.
    for training, unused in ((False, chosen), (True, settings(most_shapes=3))):
        assert not input_pipeline.make_batches(files, SYMBOLS, unused, training).merged


def test_shapes_of_class_labels_and_sentences(tmp_path):
    specs = {
        "inputs": FeatureSpec(9, "sentences", (3, 2)),
        "targets": FeatureSpec(5, "class_label"),
    }
    files = write(tmp_path, [{"inputs": [2, 3, 0, 0, 8, 0], "targets": [0]}])
    ((features, targets),) = batches(files, specs=specs)
    assert features["inputs"].tolist() == [[[2, 3], [0, 0], [8, 0]]]
    assert targets.tolist() == [[0]]
    static = batches(files, True, specs, settings=settings(static_shapes=True))
    assert static[0][0]["inputs"].shape == (8, 3, 2)


def test_language_model_batches_have_no_inputs(tmp_path):
    files = write(tmp_path, [{"targets": [2, 3, 1]}])
    ((features, targets),) = batches(files, specs={"targets": FeatureSpec(4)})
    assert list(features) == ["targets"]
    assert targets.tolist() == [[2, 3, 1]]


def test_preprocess_changes_features(tmp_path):
    files = write(tmp_path, [{"inputs": [5, 1], "context": [6, 1], "targets": [2]}])

    def join(features):
        inputs = tf.concat([features["inputs"], features["context"]], axis=1)
        return {"inputs": inputs, "targets": features["targets"]}

    specs = {**SYMBOLS, "context": FeatureSpec(10)}
    ((features, _),) = batches(files, specs=specs, options=ReadingOptions(preprocess=join))
    assert features["inputs"].tolist() == [[5, 1, 6, 1]]


def test_weights_are_the_third_element(tmp_path):
    """`preprocess` may return weights per example or per target.

    The pipeline truncates weights per target in the same way as the targets.
    """

    def of_rows(features):
        total = tf.reduce_sum(tf.cast(features["targets"], tf.float32), axis=1, keepdims=True)
        return {**features, "weights": total}

    def of_targets(features):
        return {**features, "weights": tf.cast(features["targets"], tf.float32) / 2}

    files = write(tmp_path, [example(3), example(5, 7), example(7)])
    chosen = settings(max_target_seq_length=5)
    for training, preprocess, width in ((False, of_rows, 1), (True, of_targets, 5)):
        dataset = input_pipeline.make_dataset(
            files, SYMBOLS, chosen, training=training, options=ReadingOptions(preprocess)
        )
        ((features, targets, weights),) = dataset
        assert sorted(features) == ["inputs", "targets"]
        assert weights.dtype == tf.float32
        assert weights.shape == (3, width)
        if width > 1:
            np.testing.assert_array_equal(weights, targets / 2)


@pytest.mark.parametrize(
    ("chosen", "training"),
    [
        ({}, False),
        ({"static_shapes": True}, True),
        ({"use_fixed_batch_size": True}, False),
        pytest.param({}, True, marks=pytest.mark.slow),
        pytest.param({"static_shapes": True}, False, marks=pytest.mark.slow),
        pytest.param({"use_fixed_batch_size": True}, True, marks=pytest.mark.slow),
    ],
)
def test_cardinality_is_known_before_iteration(files, training, chosen):
    """If `fit` knows the cardinality, `fit` knows where an epoch ends and prints no warning."""
    chosen = settings(batch_size=20, min_length=2, **chosen)
    dataset = input_pipeline.make_dataset(files, SYMBOLS, chosen, training=training)
    number = int(dataset.cardinality())
    assert number > 1
    # TensorFlow raises an error if the number of batches differs from the cardinality.
    assert sum(1 for _ in dataset.repeat(2)) == 2 * number


def test_rows_of_padding_and_of_length_one(tmp_path):
    files = write(
        tmp_path, [{"inputs": [0, 0, 0], "targets": [0]}, {"inputs": [1], "targets": [1]}]
    )
    ((features, targets),) = batches(files, training=True)
    assert sorted(features["inputs"].tolist()) == [[0, 0, 0], [1, 0, 0]]
    assert sorted(targets.tolist()) == [[0], [1]]


def test_batch_of_one_example(files):
    found = batches(files, training=True, settings=settings(batch_size=1))
    assert [targets.shape[0] for _, targets in found] == [1] * 3 * sum(n <= 32 for n in LENGTHS)


def test_index_with_wrong_lengths_raises(tmp_path, monkeypatch):
    files = write(tmp_path, [example(5), example(6)])
    made = record_index.get

    def wrong(*args):
        index = made(*args)
        return types.SimpleNamespace(
            lengths=index.lengths + 1,
            read=index.read,
            check_shares=index.check_shares,
            files=index.files,
            path="the index",
            __len__=index.__len__,
        )

    monkeypatch.setattr(record_index, "get", wrong)
    pattern = "length [67] .*Received: length [56]. Remove the index"
    assert_data_error(pattern, files, training=True)


def test_settings_from_hparams_keeps_defaults():
    hparams = types.SimpleNamespace(batch_size=2048, max_length=256, min_length_bucket=9, other=1)
    found = input_pipeline.InputSettings.from_hparams(hparams)
    assert (found.batch_size, found.max_length, found.min_length_bucket) == (2048, 256, 9)
    assert found.length_bucket_step == 1.1
    assert input_pipeline.InputSettings(batch_size=77).longest == 77
