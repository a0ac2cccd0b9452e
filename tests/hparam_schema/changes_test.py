import pytest

from ut_keras import hparams
from ut_keras.hparam_schema import TransformerHParams, UniversalTransformerHParams, changes
from ut_keras.hparam_schema.field import HParamError, specs

_HP = hparams.get("adaptive_universal_transformer_tiny", "num_heads=2")


def test_non_defaults_restore_the_hparams():
    noted = changes.non_defaults(_HP)
    assert UniversalTransformerHParams().override(noted) == _HP
    assert noted["num_heads"] == 2 and len(noted) < 50
    assert changes.check_as_trained(_HP, noted, "hparams.json") == _HP


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_heads", 4),
        ("num_rec_steps", 3),
        ("act_epsilon", 0.2),
        ("act_halted_state", "copy"),
        ("norm_epsilon", 0.1),
        ("layer_preprocess_sequence", "nd"),
        ("activation_dtype", "bfloat16"),
    ],
)
def test_check_as_trained_rejects_another_function(name, value):
    edited = _HP.override({name: value})
    expected = f"^run/h.json must .*: {name}={getattr(_HP, name)!r}. Received: {name}={value!r}. "
    with pytest.raises(HParamError, match=expected):
        changes.check_as_trained(edited, changes.non_defaults(_HP), "run/h.json")
    assert changes.check_as_trained(edited, None, "run/h.json") is edited
    (line,) = changes.notes(_HP, edited, "run/h.json", inference_only=True)
    before = getattr(_HP, name)
    assert line == f"note: {name} is {value!r}; the run was trained with {before!r} (run/h.json)"


def test_notes_report_changed_updates():
    edited = _HP.override("batch_size=128,optimizer=adafactor,relu_dropout=0.3,max_length=100")
    assert changes.check_as_trained(edited, changes.non_defaults(_HP), "h.json") == _HP
    notes = changes.notes(_HP, edited, "h.json")
    assert [line.split()[1] for line in notes] == [
        "batch_size",
        "max_length",
        "optimizer",
        "relu_dropout",
    ]
    assert not changes.notes(_HP, edited, "h.json", inference_only=True)


def test_max_length_is_architecture_with_learned_positions():
    learned = TransformerHParams(pos="emb")
    with pytest.raises(HParamError, match="max_length=256. Received: max_length=300"):
        changes.check_as_trained(
            learned.override("max_length=300"), changes.non_defaults(learned), "h.json"
        )


def test_architecture_fields_are_not_training_fields():
    facts = {name: spec.facts for name, spec in specs(UniversalTransformerHParams).items()}
    assert not [name for name, fact in facts.items() if fact.architecture and fact.training]


def test_notes_skip_hparams_of_another_class():
    assert changes.notes(TransformerHParams(), _HP, "h.json") == []


# --- Architecture -------------------------------------------------------------------------------


def _assert_raises(message, saved, current):
    with pytest.raises(HParamError, match=message):
        changes.check_same_architecture(saved, current)


def test_same_architecture_accepts_changed_training():
    saved = UniversalTransformerHParams()
    current = saved.override(
        "batch_size=32,learning_rate_constant=1,attention_dropout=0.3,act_loss_weight=0,"
        "num_hidden_layers=12,activation_dtype=bfloat16,act_max_steps=24"
    )
    changes.check_same_architecture(saved, current)


def test_same_architecture_rejects_with_both_values():
    saved = TransformerHParams()
    current = saved.override("hidden_size=64,num_heads=4,batch_size=32")
    _assert_raises(
        r"Received: hidden_size=64 instead of 512; num_heads=4 instead of 8\. Commands ",
        saved,
        current,
    )
    _assert_raises(
        " TransformerHParams. Received: UniversalTransformerHParams.",
        saved,
        UniversalTransformerHParams(),
    )


@pytest.mark.parametrize(
    ("given", "changed", "is_other"),
    [
        ("recurrence_type=basic", "num_rec_steps=9", True),
        ("recurrence_type=basic,add_step_timing_signal=0", "num_rec_steps=9", False),
        ("recurrence_type=basic,step_timing_signal_type=sinusoid", "num_rec_steps=9", False),
        ("recurrence_type=dwa,step_timing_signal_type=sinusoid", "num_rec_steps=9", True),
        ("recurrence_type=act", "num_rec_steps=9", False),
        ("recurrence_type=act", "act_max_steps=9", True),
        ("recurrence_type=act,step_timing_signal_type=sinusoid", "act_max_steps=9", False),
        ("recurrence_type=basic", "act_type=stick_breaking", False),
        ("recurrence_type=act", "act_type=stick_breaking", True),
        ("recurrence_type=basic", "recurrence_type=act", True),
        ("pos=timing", "max_length=99", False),
        ("pos=emb", "max_length=99", True),
    ],
)
def test_table_sizes_are_architecture_if_there_is_a_table(given, changed, is_other):
    saved = UniversalTransformerHParams().override(given)
    current = saved.override(changed)
    name = changed.split("=")[0]
    if is_other:
        _assert_raises(f"{name}.*=.* instead of", saved, current)
    else:
        changes.check_same_architecture(saved, current)


def test_convergence_shares_weights_with_fixed_depth():
    saved = UniversalTransformerHParams()
    current = saved.override("recurrence_type=act,act_type=convergence,act_max_steps=6")
    changes.check_same_architecture(saved, current)
    changes.check_same_architecture(current, saved)
    _assert_raises(
        "num_rec_steps or act_max_steps=9 instead of 6",
        saved,
        current.override("act_max_steps=9"),
    )
    other = current.override("act_type=basic")
    _assert_raises("recurrence_type='act' instead of 'basic'", saved, other)
