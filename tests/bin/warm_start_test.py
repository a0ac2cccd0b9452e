import re
import types

import pytest

from ut_keras.bin import trainer
from ut_keras.data.features import FeatureSpec
from ut_keras.inference import feature_record
from ut_keras.text import text_encoder


def _record(words, space=0):
    encoder = text_encoder.TokenTextEncoder(tokens=words)
    specs = dict.fromkeys(("inputs", "targets"), FeatureSpec(encoder.vocab_size))
    return feature_record.FeatureRecord(specs, dict.fromkeys(specs, encoder), space)


def _problem(record):
    return types.SimpleNamespace(
        feature_specs=lambda data_dir: record.specs,
        feature_encoders=lambda data_dir: record.encoders,
        target_space_id=record.target_space_id,
    )


@pytest.mark.parametrize(
    ("words", "space", "note"),
    [("ab", 3, ""), ("ba", 3, "vocabulary of 'inputs'"), ("ab", 4, "target_space_id .* 3")],
)
@pytest.mark.parametrize("path", ["{folder}", "{folder}/model.ckpt-7"])
def test_warm_start_from_other_vocabulary_prints_note(tmp_path, capsys, words, space, note, path):
    (tmp_path / "old").mkdir()
    feature_record.save(str(tmp_path / "old"), _record("ab", 3))
    args = types.SimpleNamespace(
        output_dir=str(tmp_path / "new"),
        data_dir="",
        warm_start_from=path.format(folder=tmp_path / "old"),
    )
    setup = types.SimpleNamespace(
        trains=False, schedule="train", args=args, problem=_problem(_record(words, space))
    )
    trainer._check_features(setup)
    assert not capsys.readouterr().out  # without training, there are no first weights
    setup.trains = True
    trainer._check_features(setup)
    printed = capsys.readouterr().out
    assert re.search(f"--warm_start_from .*{note}", printed) if note else not printed
