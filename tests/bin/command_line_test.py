import pytest

from ut_keras.bin import command_line, flags
from ut_keras.errors import UsageError


def _parse(*argv):
    return command_line.parse(flags.TRAINER, list(argv), "trainer.py", "")


@pytest.mark.parametrize(
    "argv",
    [
        ["--problem=a", "--train_steps=5", "--generate_data"],
        ["--problem", "a", "--train_steps", "5", "--generate_data=True"],
        ["-problem=a", "-train_steps", "5", "-generate_data"],
        ["--generate_data", "--problem", "a", "--train_steps=5"],
        ["--nogenerate_data", "--generate_data=t", "--problem=a", "--train_steps=5"],
    ],
)
def test_parse_accepts_all_spellings(argv):
    values = _parse(*argv)
    assert (values.problem, values.train_steps, values.generate_data) == ("a", 5, True)


def test_parse_turns_switches_off():
    assert _parse("--generate_data", "--nogenerate_data").generate_data is False
    assert _parse("--generate_data", "--generate_data=False").generate_data is False


@pytest.mark.parametrize(
    "argv, value",
    [
        ([], "auto"),
        (["--xla_compile=auto"], "auto"),
        (["--xla_compile"], True),
        (["--xla_compile=True"], True),
        (["--xla_compile", "1"], True),
        (["--noxla_compile"], False),
        (["--xla_compile=False"], False),
    ],
)
def test_xla_compile_is_auto_or_switch(argv, value):
    assert _parse(*argv).xla_compile is value


def test_xla_compile_rejects_other_words():
    with pytest.raises(UsageError, match="--xla_compile.* auto, True or False.*'atuo'"):
        _parse("--xla_compile=atuo")


def test_decoder_has_the_xla_compile_of_the_trainer():
    for argv, value in ([], "auto"), (["--noxla_compile"], False), (["--xla_compile"], True):
        assert command_line.parse(flags.DECODER, argv, "", "").xla_compile is value


def test_exporter_does_not_compile_by_default():
    for argv, value in ([], False), (["--noxla_compile"], False), (["--xla_compile"], True):
        assert command_line.parse(flags.EXPORTER, argv, "", "").xla_compile is value


def test_parse_accepts_negative_and_empty_values():
    values = _parse("--eval_steps", "-1", "--hparams", "", "--output_dir=")
    assert (values.eval_steps, values.hparams, values.output_dir) == (-1, "", "")


def test_hp_flags_are_unknown_without_hparams_flag():
    with pytest.raises(UsageError, match="--hp_hidden_size"):
        command_line.parse(flags.DATAGEN, ["--hp_hidden_size=64"], "ut-datagen", "")


def test_hp_flags_are_appended_to_hparams():
    values = _parse("--hparams=a=1", "--hp_hidden_size=64", "--hp_pos", "None")
    assert values.hparams == "a=1,hidden_size=64,pos=None"


def test_unknown_flag_lists_nearest_names():
    with pytest.raises(UsageError, match="--hparams_set") as caught:
        _parse("--hparam_set=base")
    assert "'--hparam_set'" in str(caught.value)


@pytest.mark.parametrize(
    "word, suggestion",
    [
        ("--train_stesp=5", "The nearest name: --train_steps."),
        ("--seed=1", "Use --decode_hparams=seed=…. The nearest name: --random_seed."),
        ("--foo=5", "--help lists all flags."),
        ("--epochs", "--help lists all flags."),
        ("--hidden_size=64", "Use --hparams=hidden_size=…."),
        ("--beam_size=4", "Use --decode_hparams=beam_size=…."),
        (
            "--decode_use_last_position_only",
            "Use --decode_hparams=use_last_position_only=….",
        ),
        (
            "--decode_beam_size=4",
            "Use --decode_hparams=beam_size=…. The nearest name: --decode_hparams.",
        ),
    ],
)
def test_unknown_flag_suggests_only_similar_names_and_fields(word, suggestion):
    with pytest.raises(UsageError) as caught:
        _parse(word)
    name = word.partition("=")[0]
    assert str(caught.value) == f"Unknown flag: '{name}'. {suggestion}"


@pytest.mark.parametrize(
    "value, suggestion",
    [
        ("tflit", " The nearest value: litert."),
        ("TFLite", " The nearest value: litert."),
        ("savedmodel", " The nearest value: saved_model."),
        ("pdf", ""),
    ],
)
def test_wrong_choice_suggests_the_nearest_value(value, suggestion):
    with pytest.raises(UsageError) as caught:
        command_line.parse(flags.EXPORTER, [f"--format={value}"], "ut-exporter", "")
    assert str(caught.value).endswith(f"ctranslate2. Received: {value!r}.{suggestion}")


def test_parse_rejects_abbreviations():
    with pytest.raises(UsageError, match="Unknown flag: '--train_step'"):
        _parse("--train_step=5")


def test_parse_rejects_argument_without_flag():
    with pytest.raises(UsageError, match="Received: 'stray'"):
        _parse("stray")


@pytest.mark.parametrize("argv", [["--train_steps=many"], ["--generate_data=perhaps"]])
def test_parse_rejects_value_of_wrong_type(argv):
    with pytest.raises(UsageError, match=r"(?s)--(train_steps|no)?.*(many|perhaps)"):
        _parse(*argv)


@pytest.mark.parametrize("flag", ["data_dir", "tmp_dir", "output_dir", "warm_start_from"])
def test_path_rejects_bucket_address(flag):
    with pytest.raises(UsageError, match=f"--{flag}: .*Received: 'gs://bucket/a'"):
        _parse(f"--{flag}=gs://bucket/a")


@pytest.mark.parametrize("word", ["--help", "-h", "--helpfull", "-helpfull", "--helpshort"])
def test_help_accepts_absl_names(word, capsys):
    with pytest.raises(SystemExit) as caught:
        _parse(word)
    assert caught.value.code == 0 and "--train_steps" in capsys.readouterr().out


def test_parse_rejects_flag_without_value():
    with pytest.raises(UsageError, match="--train_steps"):
        _parse("--train_steps")


def test_unsupported_flag_gives_reason_and_accepts_default():
    with pytest.raises(UsageError, match="^--sync .*TF_CONFIG.*Received: True"):
        _parse("--sync")
    assert _parse("--sync=False", "--ps_gpu=0", "--tpu_num_shards=8").sync is False


@pytest.mark.parametrize("flag", ["hparams", "decode_hparams"])
def test_parse_notes_that_the_last_overrides_replace_others(flag, capsys):
    assert vars(_parse(f"--{flag}=a=1", f"-{flag}", "b=2"))[flag] == "b=2"
    note = capsys.readouterr().out
    assert note.startswith(f"note: --{flag} ") and "'b=2'" in note and "'a=1'" in note
    for argv in ([f"--{flag}=a=1"], [f"--{flag}=a=1", f"--{flag}=a=1"], ["--hp_a=1", "--hp_b=2"]):
        _parse(*argv)
        assert not capsys.readouterr().out
