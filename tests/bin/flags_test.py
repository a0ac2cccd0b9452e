import re
import types

import pytest

from ut_keras.bin import command_line, flags, old_flags, tune
from ut_keras.errors import UsageError


def _parse(*argv):
    return command_line.parse(flags.TRAINER, list(argv), "trainer.py", "")


def test_flag_defaults_match_t2t():
    values = _parse()
    assert values.train_steps == 250000
    assert values.eval_steps == 100
    assert values.local_eval_frequency == 1000
    assert values.keep_checkpoint_max == 20
    assert values.schedule == "continuous_train_and_eval"
    assert values.tmp_dir == "/tmp/t2t_datagen"
    assert values.random_seed is None
    assert values.generate_data is False
    assert values.hparams == "" and values.decode_hparams == ""


@pytest.mark.parametrize(
    "table", [getattr(flags, name) for name in ("TRAINER", "DATAGEN", "DECODER", "IMPORT_T2T")]
)
def test_help_texts_are_sentences(table, capsys):
    with pytest.raises(SystemExit):
        command_line.parse(table, ["--help"], "program", "What it does.")
    assert "Default: -1" not in capsys.readouterr().out
    for flag in table:
        assert flag.unsupported or re.fullmatch(r"[A-Z].*[^\w\s]", flag.help), flag.name


_TABLES = {name: table for name, table in vars(flags).items() if name.isupper() and name[0] != "_"}
_TABLES = {name: table for name, table in _TABLES.items() if isinstance(table, tuple)}


@pytest.mark.parametrize("table", _TABLES.values(), ids=_TABLES)
def test_flag_tables_have_unique_names(table):
    assert len(_TABLES) >= 10
    names = [flag.name for flag in table]
    assert len(set(names)) == len(names)
    for flag in table:
        assert bool(flag.help) != bool(flag.unsupported), flag.name


def test_help_hides_unsupported_flags(capsys):
    with pytest.raises(SystemExit) as caught:
        _parse("--help")
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "--local_eval_frequency" in shown and "Default: 1000." in shown
    assert "--sync" not in shown and "--nogenerate_data" not in shown


def test_help_lists_the_schedules(capsys):
    with pytest.raises(SystemExit):
        _parse("--help")
    shown = " ".join(capsys.readouterr().out.split())
    for name, what in flags.SCHEDULES.items():
        assert f"{name}: {what}" in shown


@pytest.mark.parametrize("word", ["--flagfile=flags.txt", "--v=1", "--alsologtostderr"])
@pytest.mark.parametrize("table", [flags.TRAINER, flags.DATAGEN, flags.DECODER])
def test_absl_flags_name_the_alternative(table, word):
    with pytest.raises(
        UsageError, match=rf"^{word.partition('=')[0]} .*(TF_CPP_MIN_LOG_LEVEL|cat FILE)"
    ):
        command_line.parse(table, [word], "", "")


@pytest.mark.parametrize(
    "word, remedy",
    [
        ("--source=text", "--decode_from_file"),
        ("--model_dir=run", "--output_dir"),
        ("--translations_dir=translations", "once per checkpoint, with --checkpoint_path"),
        ("--min_steps=0", "once per checkpoint"),
        ("--wait_minutes=10", "once per checkpoint"),
        ("--decoder_command={params}", "once per checkpoint"),
        ("--locally_shard_to_cpu", "uses the CPU if there is no GPU"),
    ],
)
def test_flags_of_t2t_name_the_alternative_in_the_decoder(word, remedy):
    """`ut-decoder` replaces `t2t-translate-all`, whose flags it does not have."""
    with pytest.raises(UsageError, match=rf"^{word.partition('=')[0]} .*{remedy}"):
        command_line.parse(flags.DECODER, [word], "", "")


@pytest.mark.parametrize("first", ["one", "two"])
def test_second_package_prints_a_note(capsys, first):
    """As in T2T, a command loads one package."""
    args = _parse(f"--t2t_usr_dir={first}", "--t2t_usr_dir=two")
    note = "note: --t2t_usr_dir is given more than once. As in T2T, only the last value has an"
    assert args.t2t_usr_dir == "two"
    assert (f"{note} effect: 'two', not 'one'" in capsys.readouterr().out) == (first == "one")


def test_schedules_are_supported_or_not():
    assert not flags.SCHEDULES.keys() & flags.OTHER_SCHEDULES.keys()
    assert "train_and_evaluate" in flags.OTHER_SCHEDULES["local_run"]


_COMMANDS = {"TRAINER": flags.TRAINER, "DATAGEN": flags.DATAGEN, "DECODER": flags.DECODER}


@pytest.mark.parametrize("command", _COMMANDS)
def test_old_flags_raise_with_their_alternative(command):
    alternatives = getattr(old_flags, command)
    assert "model_dir" in alternatives or "problems" in alternatives
    for name, alternative in alternatives.items():
        with pytest.raises(UsageError) as error:
            command_line.parse(_COMMANDS[command], [f"--{name}=1"], "x", "")
        assert str(error.value) == f"--{name} is not supported: {alternative}."


@pytest.mark.parametrize("command", _COMMANDS)
def test_alternatives_of_old_flags_name_supported_flags(command):
    tables = (*_COMMANDS.values(), flags.EXPORTER)
    supported = {flag.name for table in tables for flag in table if not flag.unsupported}
    named = re.findall(r"--([a-z]\w+)", " ".join(getattr(old_flags, command).values()))
    assert named and supported.issuperset(named)


def test_trial_of_a_search_gets_the_given_flags():
    """The flags for errors have no value, because the command does not parse them."""
    args = _parse("--problem=some", "--output_dir=run", "--train_steps=5")
    args.package_words = []
    trial = types.SimpleNamespace(number=2, user_attrs={"hparams": {"num_heads": "4"}})
    words = tune.trial_arguments(args, trial, seed=1)
    assert {"--problem=some", "--train_steps=5", "--output_dir=run/trial-2"} <= set(words)
    assert not [word for word in words if word.startswith("--train_dir")]


def test_help_gives_at_most_one_default():
    """`command_line` adds "Default: …" to the help text of a flag with a visible default."""
    tables = [value for name, value in vars(flags).items() if name.isupper() and name[0] != "_"]
    found = [flag for table in tables if isinstance(table, tuple) for flag in table]
    assert len(found) > 100
    for flag in found:
        if flag.default not in (None, "", False, -1) and not flag.unsupported:
            assert "Default:" not in flag.help, flag.name
