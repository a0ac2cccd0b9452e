"""Tests of checks, notes, overrides and files of hyperparameters."""

import dataclasses
import importlib
import json
import pathlib
import re
import sys

import pytest

from ut_keras import hparam_schema, parts
from ut_keras.hparam_schema import (
    HParamError,
    LSTMHParams,
    TransformerHParams,
    UniversalTransformerHParams,
    removed_fields,
    saved,
)
from ut_keras.hparam_schema.field import specs

T2T = pathlib.Path(__file__).parent.parent / "testdata/t2t"
CLASSES = [TransformerHParams, UniversalTransformerHParams, LSTMHParams]


def assert_raises(message, function, *args):
    with pytest.raises(HParamError, match=message) as error:
        function(*args)
    assert "\n" not in str(error.value)


# --- Declarations -----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES)
def test_declarations_are_consistent(cls):
    for name, spec in specs(cls).items():
        assert spec.kind in (int, float, bool, str), name
        if spec.facts.supported is not None:
            for value in spec.supported_values:
                assert spec.checked(value) == value, name
        # A field without effect cannot change the weights, and accepts all values.
        if spec.facts.ignored:
            assert not spec.facts.architecture, name
            assert spec.facts.supported is None, name


@pytest.mark.parametrize("cls", CLASSES)
def test_defaults_are_supported(cls):
    cls().check_supported()


def test_hparams_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TransformerHParams().hidden_size = 64


def test_values_are_checked_in_every_constructor():
    message = r"hidden_size must be an int in \[1, inf\). Received: hidden_size=0."
    hp = TransformerHParams()
    assert_raises(message, lambda: TransformerHParams(hidden_size=0))
    assert_raises(message, lambda: dataclasses.replace(hp, hidden_size=0))
    assert_raises(message, hp.override, "hidden_size=0")
    assert_raises(message, hp.override, {"hidden_size": 0})
    assert_raises(message, hparam_schema.from_dict, {"hidden_size": 0})


# --- Overrides --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("hidden_size=64", "hidden_size", 64),
        ("learning_rate_constant=1e-3", "learning_rate_constant", 1e-3),
        ("learning_rate_constant=3", "learning_rate_constant", 3.0),
        ("use_pad_remover=False", "use_pad_remover", False),
        ("use_pad_remover=false", "use_pad_remover", False),
        ("use_pad_remover=0", "use_pad_remover", False),
        ("shared_embedding=True", "shared_embedding", True),
        ("shared_embedding=true", "shared_embedding", True),
        ("shared_embedding=1", "shared_embedding", True),
        ("position_start_index=random", "position_start_index", "random"),
        ("pos=timing", "pos", "timing"),
        ("pos=None", "pos", None),
        ("learning_rate_minimum=None", "learning_rate_minimum", None),
        ("learning_rate_minimum=1", "learning_rate_minimum", 1.0),
        ("mix_with_transformer=", "mix_with_transformer", None),
        ("position_start_index=''", "position_start_index", None),
        ("mix_with_transformer=before_ut", "mix_with_transformer", "before_ut"),
        ("mix_with_transformer='before_ut,after_ut'", "mix_with_transformer", "before_ut,after_ut"),
        ("mix_with_transformer=[before_ut,after_ut]", "mix_with_transformer", "before_ut,after_ut"),
        ("attention_dropout_broadcast_dims=[0,1]", "attention_dropout_broadcast_dims", "0,1"),
        ("attention_dropout_broadcast_dims='-1,0'", "attention_dropout_broadcast_dims", "-1,0"),
        ("attention_dropout_broadcast_dims=", "attention_dropout_broadcast_dims", ""),
        ("learning_rate_schedule=constant*cosdecay", "learning_rate_schedule", "constant*cosdecay"),
    ],
)
def test_override_sets_the_value(text, name, expected):
    before = UniversalTransformerHParams()
    hp = before.override(text)
    assert type(hp) is UniversalTransformerHParams
    assert getattr(hp, name) == expected
    assert type(getattr(hp, name)) is type(expected)
    assert {k for k, v in hp.to_dict().items() if v != before.to_dict()[k]} <= {name}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hiden_size=64", "Unknown hparam: 'hiden_size'. The nearest name"),
        ("hidden_size=big", "hidden_size must be an int .* Received: hidden_size=big."),
        ("hidden_size=1.5", "hidden_size must be an int .* Received: hidden_size=1.5."),
        ("hidden_size=None", "hidden_size must be an int .* Received: hidden_size=None."),
        ("hidden_size='64'", "hidden_size must be an int .* Received: hidden_size='64'."),
        ("hidden_size=[64]", r"hidden_size must be an int .* Received: hidden_size=\[64\]."),
        ("hidden_size=", "hidden_size must be an int .* Received: hidden_size=."),
        ("use_pad_remover=2", "use_pad_remover must be True or False. Received"),
        ("attention_dropout=1", r"attention_dropout must be a number in \[0, 1\). Received"),
        ("attention_dropout=-0.1", "attention_dropout must be a number in .* Received"),
        ("act_epsilon=0", r"act_epsilon must be a number in \(0, 1\). Received"),
        ("act_epsilon=nan", "act_epsilon must be a number in .* Received"),
        ("act_halting_bias_init=inf", "act_halting_bias_init must be a number. Received"),
        ("act_max_steps=0", r"act_max_steps must be an int in \[1, 1024\]. Received"),
        (
            "length_bucket_step=1",
            r"length_bucket_step must be a number in \[1.001, inf\). Received",
        ),
        ("recurrence_type=rnn", "recurrence_type must be one of 'basic', 'act', .* Received"),
        ("recurrence_type=None", "recurrence_type must be one of .* Received"),
        ("pos=sine", "pos must be one of .* or None. Received: pos=sine."),
        ("pos='None'", "pos must be one of .* Received: pos='None'."),
        ("layer_preprocess_sequence=da", "layer_preprocess_sequence must be 'none' or letters"),
        ("layer_postprocess_sequence=dax", "layer_postprocess_sequence must be 'none' or letters"),
        ("relu_dropout_broadcast_dims=x", "relu_dropout_broadcast_dims must be dimension numbers"),
        ("relu_dropout_broadcast_dims='0,\u00b2'", "must be dimension numbers"),
        ("relu_dropout_broadcast_dims=--1", "must be dimension numbers"),
        ("learning_rate_schedule=constant*exp", "factors joined by .* Received: learning_rate_sch"),
        ("gates_inputs=x", "gates_inputs must be letters from s"),
        (
            "hidden_size=100,num_heads=8",
            "hidden_size must be divisible by num_heads. Received: hidden_size=100, num_heads=8.",
        ),
        (
            "num_heads=8,attention_key_channels=12",
            "attention_key_channels must be divisible by num_heads. "
            "Received: attention_key_channels=12, num_heads=8.",
        ),
        *(
            (
                f"learning_rate_warmup_steps=0{schedule}",
                "learning_rate_warmup_steps must be at least 1 .* Received: learning_rate_w",
            )
            for schedule in (
                "",
                ",learning_rate_schedule=constant*rsqrt_normalized_decay",
                ",learning_rate_schedule=legacy,learning_rate_decay_scheme=cyclelinear10x",
            )
        ),
    ],
)
def test_override_rejects_invalid_values(text, message):
    assert_raises(message, UniversalTransformerHParams().override, text)


def test_override_by_dict_checks_types():
    hp = TransformerHParams().override({"hidden_size": 64, "attention_dropout": 0, "pos": None})
    assert (hp.hidden_size, hp.attention_dropout, hp.pos) == (64, 0.0, None)
    assert_raises("hidden_size must be an int", hp.override, {"hidden_size": "64"})
    assert_raises("hidden_size must be an int", hp.override, {"hidden_size": True})
    assert_raises("use_pad_remover must be True", hp.override, {"use_pad_remover": 1})
    assert_raises("'num_rec_steps' is not an hparam", hp.override, {"num_rec_steps": 4})


def test_num_heads_must_divide_the_used_channels():
    hp = TransformerHParams().override(
        "hidden_size=10,num_heads=4,attention_key_channels=8,attention_value_channels=16"
    )
    assert hp.hidden_size == 10


# --- Supported values -------------------------------------------------------------------------


def test_check_supported_names_fields_values_and_choices():
    hp = UniversalTransformerHParams(proximity_bias=True, pos="timing_from_features")
    assert_raises(
        r"^Unsupported .*: proximity_bias=True \(supported: False\); "
        r"pos='timing_from_features' "
        r"\(supported: None, 'timing', 'emb', 'none', 'randomized', 'rotary'\)\.$",
        hp.check_supported,
    )


@pytest.mark.parametrize(
    "overrides",
    [
        "pos=emb",
        "pos=none",
        "use_pad_remover=0",
        "layer_preprocess_sequence=none,layer_postprocess_sequence=dan",
        "activation_dtype=bfloat16",
        "optimizer=true_adam,clip_grad_norm=1",
        "learning_rate_schedule=legacy,learning_rate_decay_scheme=cosine",
        "recurrence_type=act,act_type=random,act_halted_state=copy,act_mask_padding=1",
        "num_inrecurrence_layers=3,transformer_ffn_type=sepconv",
        "position_start_index=step,step_timing_signal_type=sinusoid",
        "add_or_concat_timing_signal=concat,add_step_timing_signal=0",
        "recurrence_type=lstm,add_sru=1,mix_with_transformer=after_ut,hard_attention_k=8",
        "self_attention_type=local_mask_right,block_length=4,ffn_layer=parameter_attention",
        "batch_size=16,use_fixed_batch_size=1,max_target_seq_length=40",
        "daisy_chain_variables=1,symbol_modality_num_shards=1,dropout=0",
        "optimizer=Adafactor,optimizer_adafactor_clipping_threshold=None",
        "optimizer=adafactor,optimizer_adafactor_beta1=0.9,optimizer_adafactor_decay_type=adam",
        "optimizer=multistep_adam,optimizer_multistep_accumulate_steps=2",
        "optimizer=momentum,optimizer_momentum_nesterov=1,weight_decay=0.1,grad_noise_scale=0.1",
        "initializer=orthogonal,initializer_gain=2,optimizer_zero_grads=1",
    ],
)
def test_check_supported_accepts(overrides):
    UniversalTransformerHParams().override(overrides).check_supported()


@pytest.mark.parametrize(
    "override",
    [
        "self_attention_type=masked_dilated_1d",
        "ffn_layer=local_moe",
        "norm_type=batch",
        "vocab_divisor=2",
        "pos=timing_from_features",
        "optimizer=ftrl",
        "weight_noise=0.1",
        "activation_dtype=float16",
        "sampling_method=random",
        "learning_rate_decay_scheme=piecewise",
    ],
)
def test_check_supported_rejects(override):
    hp = UniversalTransformerHParams().override(override)
    name = override.split("=")[0]
    assert_raises(rf"^Unsupported [^;]*: {name}=[^;]*\.$", hp.check_supported)


def test_check_supported_without_training_skips_training_fields():
    hp = UniversalTransformerHParams(optimizer="ftrl", weight_noise=0.1)
    hp.check_supported(training=False)
    assert_raises(r"weight_noise=0.1 \(.*; optimizer='ftrl' \(", hp.check_supported)
    hp = hp.override("norm_type=batch")
    assert_raises(r"^Unsupported [^;]*: norm_type='batch' \([^;]*$", check_for_use(hp))


def check_for_use(hp):
    return lambda: hp.check_supported(training=False)


def test_ignored_notes_cover_changed_fields():
    before = UniversalTransformerHParams(num_hidden_layers=2)
    hp = before.override("daisy_chain_variables=1,hidden_size=64")
    (note,) = hp.ignored_notes(before)
    assert note.startswith("daisy_chain_variables=True has no effect: tf.distribute places")


@pytest.mark.parametrize(
    "before, overrides, expected",
    [
        (TransformerHParams(), "learning_rate=0.05", "reads learning_rate_constant, learning_rate"),
        (TransformerHParams(), "learning_rate_schedule=legacy,learning_rate=0.05", ""),
        (
            TransformerHParams(),
            "optimizer=adafactor,optimizer_adam_beta2=0.9",
            "optimizer='adafactor' ignores it and reads optimizer_adafactor_beta1, ",
        ),
        (TransformerHParams(), "optimizer=Momentum,optimizer_momentum_nesterov=True", ""),
        (
            TransformerHParams(optimizer="sgd"),
            "optimizer_adam_beta1=0.5",
            "optimizer='sgd' ignores it.",
        ),
        (UniversalTransformerHParams(), "num_rec_steps=4,learning_rate_warmup_steps=9", ""),
        (
            UniversalTransformerHParams(recurrence_type="act"),
            "num_rec_steps=4,act_epsilon=0.1",
            "num_rec_steps=4 has no effect: recurrence_type='act' ignores it and reads num_inrecur",
        ),
        (UniversalTransformerHParams(), "act_loss_weight=1", "act_loss_weight=1.0 has no effect"),
        (
            UniversalTransformerHParams(recurrence_type="act"),
            "act_type=convergence,act_halting_bias_init=-3",
            "act_type='convergence' ignores it.",
        ),
        (
            UniversalTransformerHParams(recurrence_type="act", act_type="ponder_net"),
            "ponder_net_prior=0.1,act_halting_bias_init=-3,act_loss_weight=0.1",
            "",
        ),
        (
            UniversalTransformerHParams(),
            "act_type=ponder_net",
            "reads num_rec_steps, num_inrec",
        ),
        (
            UniversalTransformerHParams(recurrence_type="act"),
            "ponder_net_output=mean",
            "act_type='basic' ignores it and reads act_halting_bias_init, act_loss_weight, act_fo",
        ),
        (UniversalTransformerHParams(), "copy_gate_dropout=0.1", "copy_gate=False ignores it."),
        (UniversalTransformerHParams(), "copy_gate=True,copy_gate_dropout=0.1", ""),
        (UniversalTransformerHParams(), "pos_randomized_range=99", "pos=None ignores it."),
        (TransformerHParams(pos="randomized"), "pos_randomized_range=999", ""),
        (TransformerHParams(), "pos=emb", ""),
        (UniversalTransformerHParams(), "pos=emb", "pos='emb' has no effect: add_position_ti"),
        (UniversalTransformerHParams(), "pos=rotary", ""),
        (UniversalTransformerHParams(add_position_timing_signal=False), "pos=timing", ""),
        (
            TransformerHParams(),
            "self_attention_type=dot_product_relative_xl,max_relative_position=8",
            "self_attention_type='dot_product_relative_xl' ignores it.",
        ),
        (TransformerHParams(), "ffn_layer=swiglu,relu_dropout_broadcast_dims=1", ""),
        (
            UniversalTransformerHParams(),
            "transformer_ffn_type=sepconv,ffn_layer=swiglu",
            "transformer_ffn_type='sepconv' ignores it.",
        ),
        (
            UniversalTransformerHParams(),
            "num_mixedin_layers=1",
            "mix_with_transformer=None ignores it.",
        ),
        (
            UniversalTransformerHParams(mix_with_transformer="after_ut,before_ut"),
            "num_mixedin_layers=1",
            "",
        ),
        (LSTMHParams(), "layer_prepostprocess_dropout=0.5", "an LSTM reads the field dropout"),
        (LSTMHParams(), "norm_type=rms", "an LSTM has no norms"),
        (LSTMHParams(), "max_relative_position=4", "an LSTM has no self-attention"),
        (
            UniversalTransformerHParams(add_step_timing_signal=False),
            "step_timing_signal_type=sinusoid",
            "add_step_timing_signal=False ignores it.",
        ),
        (TransformerHParams(ffn_layer="sru"), "relu_dropout=0.2", "ffn_layer='sru' ignores it"),
        (TransformerHParams(), "relu_dropout=0.2", ""),
        (
            UniversalTransformerHParams(ffn_layer="parameter_attention"),
            "relu_dropout=0.2",
            "ffn_layer='parameter_attention' ignores it",
        ),
        (
            UniversalTransformerHParams(ffn_layer="parameter_attention", copy_gate=True),
            "copy_gate_activation=relu,relu_dropout=0.2",
            "",
        ),
        (
            TransformerHParams(optimizer="adafactor"),
            "optimizer_adafactor_beta2=0.9",
            "optimizer_adafactor_decay_type='pow' ignores it and reads optimizer_adafactor_memory_",
        ),
        (
            TransformerHParams(optimizer="adafactor", optimizer_adafactor_decay_type="adam"),
            "optimizer_adafactor_memory_exponent=0.5",
            "optimizer_adafactor_decay_type='adam' ignores it",
        ),
        (
            TransformerHParams(optimizer="adafactor"),
            "optimizer_adafactor_decay_type=adam,optimizer_adafactor_beta2=0.9",
            "",
        ),
        (
            LSTMHParams(),
            "curriculum_accuracy=0.9",
            "has no effect: curriculum_start_length=0 ignores it.",
        ),
        (LSTMHParams(), "curriculum_start_length=5,curriculum_updates=9", ""),
        (TransformerHParams(), "use_fixed_batch_size=True,length_bucket_step=2", "=True ignores"),
        (TransformerHParams(), "initializer=xavier,initializer_gain=2", "'xavier' ignores it."),
        (TransformerHParams(), "shared_embedding=True", "softmax_weights=True ignores it."),
        (
            TransformerHParams(),
            "shared_embedding=True,shared_embedding_and_softmax_weights=False",
            "",
        ),
    ],
)
def test_ignored_notes_explain_unread_fields(before, overrides, expected):
    notes = before.override(overrides).ignored_notes(before)
    assert len(notes) == bool(expected) and expected in "".join(notes)


def test_registered_recurrence_may_read_any_field(monkeypatch):
    monkeypatch.setitem(parts.recurrences._entries, "mine", None)
    before = UniversalTransformerHParams(recurrence_type="mine")
    assert not before.override("num_rec_steps=4,act_epsilon=0.1").ignored_notes(before)


def test_notebook_cell_can_register_a_class_again(monkeypatch):
    monkeypatch.setattr(saved, "_CLASSES", [*saved._CLASSES])
    before = len(hparam_schema.classes())
    for _ in range(2):
        namespace = {"__module__": "__main__", "mine": 1}
        cls = type(
            "Mine", (UniversalTransformerHParams,), {**namespace, "__annotations__": {"mine": int}}
        )
        cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        hparam_schema.register(cls)
    assert len(hparam_schema.classes()) == before + 1
    assert type(hparam_schema.from_dict(cls().to_dict())) is cls


# --- Dicts and files --------------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES)
def test_dict_round_trip(cls):
    other = {"dropout": 0.25} if cls is LSTMHParams else {"pos": None, "attention_dropout": 0.25}
    hp = cls(hidden_size=64, **other)
    values = hp.to_dict()
    assert list(values) == [field.name for field in dataclasses.fields(cls)]
    again = hparam_schema.from_dict(json.loads(json.dumps(values)))
    assert type(again) is cls
    assert again == hp


@pytest.mark.parametrize("cls", CLASSES)
def test_file_round_trip(cls, tmp_path):
    path = tmp_path / "hparams.json"
    hparam_schema.save(cls(), path)
    hparam_schema.save(cls(hidden_size=64), path)
    assert hparam_schema.load(path) == cls(hidden_size=64)
    assert [p.name for p in tmp_path.iterdir()] == ["hparams.json"]


@pytest.mark.parametrize(("content", "message"), [("{", "a JSON object"), ("[]", "a JSON object")])
def test_load_rejects_other_files(content, message, tmp_path):
    path = tmp_path / "hparams.json"
    path.write_text(content)
    assert_raises(f"hparams.json must hold .*{message}. Received: ", hparam_schema.load, path)


@pytest.mark.parametrize(
    ("model", "cls"),
    [
        ("transformer", TransformerHParams),
        ("adaptive_universal_transformer", UniversalTransformerHParams),
    ],
)
def test_load_reads_t2t_checkpoint_hparams(model, cls):
    path = T2T / "ckpt" / model / "hparams.json"
    hp = hparam_schema.load(path)
    assert type(hp) is cls
    assert (hp.hidden_size, hp.filter_size, hp.num_heads, hp.optimizer) == (32, 64, 2, "true_adam")
    values = json.loads(path.read_text())
    assert (
        not values.keys()
        - hp.to_dict().keys()
        - removed_fields.T2T_BOOKKEEPING.keys()
        - saved.T2T_FUNCTION_TABLES
    )
    assert all(values[name] == value for name, value in hp.to_dict().items() if name in values)
    hp.check_supported()


GOLDENS = sorted((T2T / "model").glob("*.a.json"))


@pytest.mark.parametrize("path", GOLDENS, ids=[path.name for path in GOLDENS])
def test_from_dict_reads_all_golden_models(path):
    golden = json.loads(path.read_text())
    base = json.loads((T2T / "model/base_hparams.json").read_text())
    hp = hparam_schema.from_dict(base[golden["base_hparams_set"]] | golden["overrides"])
    assert all(getattr(hp, name) == value for name, value in golden["overrides"].items())
    # T2T's set lstm_seq2seq has no fields of an LSTM, so only the model name identifies the LSTM.
    kinds = {"universal_transformer_base": UniversalTransformerHParams}
    kinds |= {name: LSTMHParams for name in base if name.startswith("lstm_") and "att" in name}
    assert type(hp) is kinds.get(golden["base_hparams_set"], TransformerHParams)


def test_from_dict_reads_backprop_steps_of_earlier_versions():
    """In earlier versions, the value 0 meant no truncation. Now None means no truncation."""
    values = {"recurrence_type": "basic", "recurrence_backprop_steps": 0}
    assert hparam_schema.from_dict(values) == UniversalTransformerHParams(recurrence_type="basic")


def test_from_dict_rejects_unknown_names():
    assert_raises(
        "Unknown hparam: 'num_head'. The nearest name",
        hparam_schema.from_dict,
        {"num_head": 4},
    )
    assert_raises("top must be empty", hparam_schema.from_dict, {"top": {"targets": "f"}})


OLDER = {
    "moe_num_experts": 64,
    "moe_loss_coef": 0.01,
    "symbol_modality_skip_top": False,
    "input_modalities": "default",
    "target_modality": "default",
    "modality": {},
    "problem_choice": "adaptive",
    "tpu_batch_size_per_shard": 24,
    "shared_embedding_and_softmax_weights": 1,
    "use_pad_remover": 0,
    "optimizer_multistep_accumulate_steps": None,
    "mix_with_transformer": "",
    "hidden_size": 64,
}


def test_load_reads_hparams_of_older_t2t(tmp_path):
    (tmp_path / "hparams.json").write_text(json.dumps(OLDER))
    hp = hparam_schema.load(tmp_path / "hparams.json")
    hp.check_supported()
    assert hp == UniversalTransformerHParams(
        hidden_size=64,
        moe_num_experts=64,
        moe_loss_coef=0.01,
        shared_embedding_and_softmax_weights=True,
        use_pad_remover=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("symbol_modality_skip_top", True),
        ("target_modality", "symbol:ctc"),
        ("input_modalities", "inputs:audio:identity"),
        ("prepend_inputs_to_targets", 1),
    ],
)
def test_from_dict_rejects_unsupported_values_of_older_t2t(name, value):
    message = f" {name} must be .* Received: {name}={value!r}"
    assert_raises(message, hparam_schema.from_dict, {**OLDER, name: value})


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("batching_mantissa_bits", "min_length_bucket"),
        ("target_modality", "problem determines"),
        ("residual_dropout", "layer_prepostprocess_dropout"),
        ("train_steps", "--train_steps"),
        ("model_dir", "--output_dir"),
    ],
)
def test_override_names_remedy_for_removed_names_of_t2t(name, remedy):
    assert_raises(f"{name}.*{remedy}", TransformerHParams().override, f"{name}=1")


def test_hparam_of_another_model_names_the_kinds_of_hparams():
    message = "not an hparam of TransformerHParams, but of UniversalTransformerHParams"
    assert_raises(f"'num_rec_steps' is {message}", TransformerHParams().override, "num_rec_steps=4")


def test_old_modality_in_a_file_is_rejected_with_remedy():
    values = {**OLDER, "target_modality": "symbol:default"}
    assert_raises(
        "Received: target_modality='symbol:default'.* Omit it", hparam_schema.from_dict, values
    )


def test_removed_fields_are_unknown_fields_and_every_remedy_names_known_fields():
    known = set().union(*(specs(cls) for cls in hparam_schema.classes()))
    assert not known & {*removed_fields.REMOVED, *removed_fields.T2T_BOOKKEEPING}
    remedies = [removed.remedy for removed in removed_fields.REMOVED.values()]
    named = {word for text in remedies for word in re.findall(r"(?<!--)\b[a-z]+_\w+", text)}
    assert "layer_prepostprocess_dropout" in named
    assert named - {"ut_keras", "multi_problem", "use_tpu"} <= known


def test_from_dict_converts_only_0_and_1_to_bool():
    assert_raises(
        "use_pad_remover must be True or False", hparam_schema.from_dict, {"use_pad_remover": 2}
    )


def test_old_package_name_warns_and_gives_the_same_objects():
    sys.modules.pop("ut_keras.hparam", None)
    with pytest.warns(DeprecationWarning, match="hparam_schema"):
        old = importlib.import_module("ut_keras.hparam")
    assert old.UniversalTransformerHParams is hparam_schema.UniversalTransformerHParams
    assert old.HParamError is hparam_schema.HParamError
