import pytest
import tensorflow as tf

from ut_keras.data import features, tfrecords
from ut_keras.data.reading import inspection
from ut_keras.errors import DataError
from ut_keras.text import text_encoder


def _report(tmp_path, records, encoders, specs=None, **options):
    paths = tfrecords.shard_paths(tmp_path, "p", "train", 2)
    tfrecords.write(records, paths)
    if specs is None:
        specs = {name: features.FeatureSpec(e.vocab_size) for name, e in encoders.items()}
    return inspection.report(paths, specs, encoders, **options).split("\n")


def test_report_shows_records_as_text_and_ids(tmp_path):
    encoder = text_encoder.IntegerTextEncoder(12)
    records = [{"inputs": [i, 3, 1], "targets": [i, 1]} for i in (5, 6, 7)]
    lines = _report(tmp_path, records, {"inputs": encoder, "targets": encoder}, num_shown=2)
    assert lines[:4] == [
        '1  inputs   3 ids  "3 1"  [5, 3, 1]',
        '   targets  2 ids  "3"  [5, 1]',
        '2  inputs   3 ids  "5 1"  [7, 3, 1]',
        '   targets  2 ids  "5"  [7, 1]',
    ]
    assert lines[4] == "3 records in 2 files"
    assert lines[5] == "inputs   3 to 3 ids, 3.0 on average; 5 of the vocabulary's 12 ids occur"
    assert len(lines) == 8


def test_report_counts_records_by_longest_feature(tmp_path):
    encoder = text_encoder.IntegerTextEncoder(12)
    encoders = {"inputs": encoder, "targets": encoder}
    records = [{"inputs": [2] * i, "targets": [2] * 5} for i in range(3, 13)]
    lines = _report(tmp_path, records, encoders, max_length=10)
    assert lines[-1] == ("2 records (20.00 %) are longer than max_length=10: training skips them")
    lines = _report(tmp_path, records, encoders, max_length=4, training=False)
    assert lines[-1] == "10 records (100.00 %) are longer than max_length=4: evaluation keeps them"


def test_report_shows_packed_rows(tmp_path):
    encoder = text_encoder.TokenTextEncoder(tokens=["<unk>", "a", "b"], replace_oov="<unk>")
    records = [{"targets": [3, 1, 4, 4, 1]}]
    lines = _report(tmp_path, records, {"targets": encoder}, num_shown=4)
    assert lines[0] == '1  targets  5 ids  "a | b b"  [3, 1, 4, 4, 1]'


def test_report_shows_class_labels(tmp_path):
    labels = text_encoder.ClassLabelEncoder(labels=["no", "yes", "perhaps"])
    specs = {"targets": features.FeatureSpec(3, "class_label")}
    records = [{"targets": [i % 2]} for i in range(5)]
    lines = _report(tmp_path, records, {"targets": labels}, specs, num_shown=1)
    assert lines[0] == '1  targets  1 ids  "no"  [0]'
    assert lines[2] == "targets  1 to 1 ids, 1.0 on average; 2 of the vocabulary's 3 ids occur"


def test_report_counts_weights_instead_of_ids(tmp_path):
    encoder = text_encoder.IntegerTextEncoder(12)

    def with_weights(batch):
        return {**batch, "weights": tf.cast(batch["targets"], tf.float32) / 2}

    records = [{"targets": [3, 1]}]
    lines = _report(tmp_path, records, {"targets": encoder}, preprocess=with_weights, num_shown=1)
    assert lines[1] == "   weights  2 weights  [1.5, 0.5]"
    assert "weights  2 to 2 weights, 2.0 on average" in lines
    assert lines[0].startswith("1  targets  2 ids")


def test_report_rejects_ids_outside_vocabulary(tmp_path):
    encoder = text_encoder.IntegerTextEncoder(4)
    with pytest.raises(DataError, match=r"'targets' must hold ids in \[0, 4\)"):
        _report(tmp_path, [{"targets": [9]}], {"targets": encoder})


def test_report_gives_lengths_per_feature(tmp_path):
    encoder = text_encoder.IntegerTextEncoder(12)
    names = ("inputs", "targets", "inputs_position")
    records = [{"inputs": [2] * 9, "targets": [2], "inputs_position": [0] * 9}]
    specs = {name: features.FeatureSpec(12) for name in names}
    lines = _report(tmp_path, records, {"inputs": encoder, "targets": encoder}, specs)
    assert any(line.split()[:5] == ["targets", "1", "to", "1", "ids,"] for line in lines)
