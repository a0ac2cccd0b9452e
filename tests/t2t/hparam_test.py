import pickle

import pytest

from ut_keras import hparam_schema as hparam_lib
from ut_keras import hparams
from ut_keras.hparam_schema import (
    LSTMHParams,
    TransformerHParams,
    UniversalTransformerHParams,
    changes,
)
from ut_keras.hparam_schema.field import HParamError
from ut_keras.t2t import hparam, models


def test_changed_hparams_become_dataclass():
    changed = models.transformer_base()
    changed.hidden_size = 128
    changed.num_heads += 8
    changed.set_hparam("filter_size", 256)
    changed.override_from_dict({"label_smoothing": 0.0})
    changed.parse("num_hidden_layers=2,pos=none,use_pad_remover=False")
    hp = hparam.to_dataclass(changed, "set")
    assert type(hp) is TransformerHParams
    assert hp == hparams.get(
        "transformer_base",
        "hidden_size=128,num_heads=16,filter_size=256,label_smoothing=0.0,"
        "num_hidden_layers=2,pos=none,use_pad_remover=False",
    )


@pytest.mark.parametrize("name", ["transformer_big", "adaptive_universal_transformer_tiny"])
def test_unchanged_hparams_equal_built_in_set(name):
    assert hparam.to_dataclass(getattr(models, name)(), name) == hparams.get(name)


def test_fields_select_the_dataclass():
    assert type(hparam.to_dataclass(models.lstm_seq2seq(), "set")) is LSTMHParams
    made = models.transformer_tiny()
    models.update_hparams_for_universal_transformer(made)
    made.add_hparam("gates_inputs", "s")  # T2T's sets do not have this field
    hp = hparam.to_dataclass(made, "set")
    assert type(hp) is UniversalTransformerHParams
    assert (hp.num_rec_steps, hp.act_max_steps, hp.pos, hp.gates_inputs) == (2, 4, None, "s")
    basic = models.basic_params1()
    basic.add_hparam("filter_size", 64)
    hp = hparam.to_dataclass(basic, "set")
    assert (type(hp), hp.hidden_size, hp.filter_size) == (TransformerHParams, 64, 64)
    assert (hp.initializer, hp.learning_rate_schedule) == ("orthogonal", "legacy")


@pytest.mark.parametrize("name", ["transformer_big", "transformer_small", "transformer_clean_big"])
def test_update_hparams_for_tpu_matches_t2t(name):
    made = models.update_hparams_for_tpu(getattr(models, name)())
    assert hparam.to_dataclass(made, "set") == hparams.get(f"{name}_tpu")


def test_added_field_prints_one_note(capsys):
    for _ in range(2):
        changed = models.transformer_tiny()
        changed.add_hparam("made_up_by_hparam_test", 3)
        hp = hparam.to_dataclass(changed, "hparams set mine")
    assert vars(hp) == {**vars(hparams.get("transformer_tiny")), "made_up_by_hparam_test": 3}
    (line,) = capsys.readouterr().out.splitlines()
    assert "hparams set mine" in line and "made_up_by_hparam_test" in line


def test_derived_set_keeps_added_fields(load):
    load("""
        from tensor2tensor.models import transformer
        from tensor2tensor.utils import registry

        @registry.register_hparams
        def parent():
            hparams = transformer.transformer_tiny()
            hparams.add_hparam("noise", 0.25)
            return hparams

        @registry.register_hparams
        def child():
            hparams = registry.hparams("parent")
            return hparams.parse(f"noise={hparams.noise * 2},hidden_size=32")
    """)
    assert hparams.get("child").hidden_size == 32
    assert (hparams.get("parent").noise, hparams.get("child").noise) == (0.25, 0.5)


def test_added_field_can_be_overridden_and_saved(tmp_path):
    def made():
        values = models.transformer_tiny()
        added = {"noise": 0.5, "cuts": (3, 4), "style": None, "draw": len, "turn": True}
        for name, value in added.items():
            values.add_hparam(name, value)
        return hparam.to_dataclass(values, "hparams set mine")

    hp = made().override("noise=1,cuts=[5,.5],turn=False,hidden_size=32")
    assert (hp.noise, hp.cuts, hp.style, hp.turn) == (1.0, [5, 0.5], None, False)
    assert not hasattr(hp, "draw")  # no file can store `draw`
    hparam_lib.save(hp, str(tmp_path / "hparams.json"))
    assert hparam_lib.load(str(tmp_path / "hparams.json")) == hp == pickle.loads(pickle.dumps(hp))
    assert hparam.from_dataclass(hp).cuts == [5, 0.5]
    with pytest.raises(HParamError, match="noise must be a number or None. Received: noise='loud'"):
        made().override({"noise": "loud"})
    for name in ("architecture", "class"):  # a method of ut_keras and a keyword of Python
        with pytest.raises(HParamError, match=f"new name .* Received: {name}"):
            hparam.to_dataclass(hparam.HParams(**{name: 1}), "set")
    with pytest.raises(HParamError, match="added must be a dict. Received: added=3"):
        hparam_lib.from_dict({"added": 3})
    # A package may change between two runs in a folder.
    without = hparams.get("transformer_tiny", "hidden_size=32,batch_size=64")
    hparam_lib.check_same_architecture(hp, without)
    for there, here in ((hp, without), (without, hp)):
        (line,) = changes.notes(there, here, "hparams.json")
        assert line.startswith("note: batch_size is ")
    with pytest.raises(
        HParamError, match="TransformerHParams. Received: UniversalTransformerHParams"
    ):
        hparam_lib.check_same_architecture(hp, hparams.get("universal_transformer_tiny"))


def test_invalid_value_raises():
    changed = models.transformer_tiny()
    changed.hidden_size = "wide"
    with pytest.raises(HParamError, match="hidden_size must be an int"):
        hparam.to_dataclass(changed, "set")
    with pytest.raises(ValueError, match="Received: no_such"):
        changed.set_hparam("no_such", 1)
    with pytest.raises(AttributeError):
        models.transformer_no_such  # noqa: B018


def test_hparams_has_t2ts_methods():
    values = hparam.HParams(a=1, b=[2.0], c="text", d=True)
    values.parse("a=2,b=[3,4],c=other,d=False")
    assert values.values() == {"a": 2, "b": [3.0, 4.0], "c": "other", "d": False}
    assert values.get("no_such", 5) == 5 and "a" in values
    assert hparam.HParams(a=0).parse_json('{"a": 7}').a == 7
    assert values.to_json(sort_keys=True).startswith('{"a": 2')
    for words in ("d=yes", "d=TRUE", "a=[1,2]"):  # T2T also rejects these words
        with pytest.raises(ValueError, match=f"must be of type .*Received: {words[0]}="):
            values.parse(words)
    assert values.d is False
    values.del_hparam("a")
    assert not hasattr(values, "a")
