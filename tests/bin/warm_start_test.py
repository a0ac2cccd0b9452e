import re
import types

import pytest

from ut_keras import hparam_schema, hparams
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
        text_prefix=lambda name: "",
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
        trains=False,
        schedule="train",
        args=args,
        problem=_problem(_record(words, space)),
        hp=hparams.get("transformer_tiny"),
    )
    trainer._check_features(setup)
    assert not capsys.readouterr().out  # without training, there are no first weights
    setup.trains = True
    trainer._check_features(setup)
    printed = capsys.readouterr().out
    assert re.search(f"--warm_start_from .*{note}", printed) if note else not printed


@pytest.mark.parametrize(
    ("changes", "note"),
    [("", ""), ("learning_rate=3.0", ""), ("num_heads=2", "trained with num_heads=8, not 2")],
)
def test_warm_start_from_other_hparams_prints_note(tmp_path, capsys, changes, note):
    (tmp_path / "old").mkdir()
    before = hparams.get("transformer_tiny", "num_heads=8")
    hparam_schema.save(before, str(tmp_path / "old" / "hparams.json"))
    args = types.SimpleNamespace(
        output_dir=str(tmp_path / "new"), data_dir="", warm_start_from=str(tmp_path / "old")
    )
    setup = types.SimpleNamespace(
        trains=True,
        schedule="train",
        args=args,
        problem=_problem(_record("ab")),
        hp=before.override(hparam_schema.overrides.parse(changes)),
    )
    trainer._check_features(setup)
    printed = capsys.readouterr().out
    assert note in printed if note else not printed
