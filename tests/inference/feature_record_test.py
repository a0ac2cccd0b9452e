import json

import pytest

from tests.text import subword_text_encoder_test as golden
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError
from ut_keras.inference import feature_record
from ut_keras.text import text_encoder

SUBWORDS = golden.load(golden.VOCABS[0])
WORDS = text_encoder.TokenTextEncoder(tokens=["where", "is", "<UNK>"], replace_oov="<UNK>")
LABELS = text_encoder.ClassLabelEncoder(labels=["no", "yes, \u00e9"])


def _record(**encoders):
    specs = {name: FeatureSpec(encoder.vocab_size) for name, encoder in encoders.items()}
    return feature_record.FeatureRecord(specs, encoders, 7)


@pytest.mark.parametrize(
    "encoder",
    [
        SUBWORDS,
        WORDS,
        LABELS,
        text_encoder.ByteTextEncoder(),
        text_encoder.IntegerTextEncoder(12),
    ],
)
def test_save_and_load(encoder, tmp_path):
    feature_record.save(str(tmp_path), _record(targets=encoder))
    loaded = feature_record.load(str(tmp_path))
    assert loaded.target_space_id == 7
    assert loaded.specs == {"targets": FeatureSpec(encoder.vocab_size)}
    again = loaded.encoders["targets"]
    assert type(again) is type(encoder) and again.vocab_size == encoder.vocab_size
    ids = list(range(2, encoder.vocab_size)) or [0, 1]
    assert again.decode(ids) == encoder.decode(ids)
    if encoder is WORDS:
        assert again.encode("is it") == encoder.encode("is it")


def test_load_keeps_shared_encoder(tmp_path):
    feature_record.save(str(tmp_path), _record(inputs=SUBWORDS, targets=SUBWORDS))
    assert feature_record.filenames(str(tmp_path)) == ["features.json", "vocab.inputs.subwords"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "features.json",
        "vocab.inputs.subwords",
    ]
    encoders = feature_record.load(str(tmp_path)).encoders
    assert encoders["inputs"] is encoders["targets"]


def test_load_keeps_shape_of_stories(tmp_path):
    specs = {
        "inputs": FeatureSpec(WORDS.vocab_size, "sentences", (71, 12)),
        "targets": FeatureSpec(WORDS.vocab_size),
    }
    encoders = {"inputs": WORDS, "targets": WORDS}
    feature_record.save(str(tmp_path), feature_record.FeatureRecord(specs, encoders))
    assert feature_record.load(str(tmp_path)).specs == specs


def test_save_omits_unknown_encoder(tmp_path):
    class Own(text_encoder.ByteTextEncoder):
        pass

    feature_record.save(str(tmp_path), _record(targets=Own()))
    assert feature_record.load(str(tmp_path)).encoders == {"targets": None}


def test_other_target_space_is_rejected(tmp_path):
    record = _record(inputs=SUBWORDS, targets=SUBWORDS)
    feature_record.check_same_features(str(tmp_path), record)  # there is no record yet
    feature_record.save(str(tmp_path), record)
    feature_record.check_same_features(str(tmp_path), record)
    with pytest.raises(DataError, match="target_space_id .* must be 7.*Received: 8"):
        feature_record.check_same_features(str(tmp_path), record._replace(target_space_id=8))


def test_target_space_of_a_language_model_is_not_checked(tmp_path):
    record = _record(targets=SUBWORDS)
    feature_record.save(str(tmp_path), record)
    feature_record.check_same_features(str(tmp_path), record._replace(target_space_id=8))


def test_load_without_record(tmp_path):
    assert feature_record.load(str(tmp_path)) is None
    assert feature_record.filenames(str(tmp_path)) == []


def test_load_rejects_torn_record(tmp_path):
    path = tmp_path / "features.json"
    for text in ("{", "[]", "{}", '{"features": {"a": {}}}', '{"features": []}'):
        path.write_text(text)
        with pytest.raises(text_encoder.DataError, match=r"features.json must"):
            feature_record.load(str(tmp_path))
    feature_record.save(str(tmp_path), _record(targets=SUBWORDS))
    (tmp_path / "vocab.targets.subwords").unlink()
    with pytest.raises(text_encoder.DataError, match="vocab.targets.subwords"):
        feature_record.load(str(tmp_path))


@pytest.mark.parametrize("changes", [{"lower": True}, {"filename": None}])
def test_load_rejects_unknown_encoder_arguments(tmp_path, changes):
    """Unknown arguments come from a later version of ut_keras or from an edited record."""
    feature_record.save(str(tmp_path), _record(targets=SUBWORDS))
    path = tmp_path / "features.json"
    content = json.loads(path.read_text())
    encoder = {**content["features"]["targets"]["encoder"], **changes}
    content["features"]["targets"]["encoder"] = {k: v for k, v in encoder.items() if v}
    path.write_text(json.dumps(content))
    with pytest.raises(text_encoder.DataError, match=r"features.json must be as ut-trainer"):
        feature_record.load(str(tmp_path))


def test_load_rejects_vocabulary_outside_folder(tmp_path):
    feature_record.save(str(tmp_path), _record(targets=SUBWORDS))
    path = tmp_path / "features.json"
    content = json.loads(path.read_text())
    content["features"]["targets"]["encoder"]["filename"] = "/etc/passwd"
    path.write_text(json.dumps(content))
    with pytest.raises(text_encoder.DataError, match="Received: .*'/etc/passwd'"):
        feature_record.load(str(tmp_path))
