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
def test_all_spellings(argv):
    values = _parse(*argv)
    assert (values.problem, values.train_steps, values.generate_data) == ("a", 5, True)


def test_switches_can_be_turned_off():
    assert _parse("--generate_data", "--nogenerate_data").generate_data is False
    assert _parse("--generate_data", "--generate_data=False").generate_data is False


def test_negative_and_empty_values():
    values = _parse("--eval_steps", "-1", "--hparams", "", "--output_dir=")
    assert (values.eval_steps, values.hparams, values.output_dir) == (-1, "", "")


def test_hp_flags_are_unknown_where_nothing_has_hparams():
    with pytest.raises(UsageError, match="--hp_hidden_size"):
        command_line.parse(flags.DATAGEN, ["--hp_hidden_size=64"], "ut-datagen", "")


def test_hp_flags_join_the_hparams():
    values = _parse("--hparams=a=1", "--hp_hidden_size=64", "--hp_pos", "None")
    assert values.hparams == "a=1,hidden_size=64,pos=None"


def test_unknown_flag_lists_the_nearest():
    with pytest.raises(UsageError, match="--hparams_set") as caught:
        _parse("--hparam_set=base")
    assert "'--hparam_set'" in str(caught.value)


def test_abbreviations_are_unknown():
    with pytest.raises(UsageError, match="Unknown flag: '--train_step'"):
        _parse("--train_step=5")


def test_word_without_a_flag():
    with pytest.raises(UsageError, match="Received: 'stray'"):
        _parse("stray")


@pytest.mark.parametrize("argv", [["--train_steps=many"], ["--generate_data=perhaps"]])
def test_value_of_the_wrong_type(argv):
    with pytest.raises(UsageError, match=r"(?s)--(train_steps|no)?.*(many|perhaps)"):
        _parse(*argv)


@pytest.mark.parametrize("flag", ["data_dir", "tmp_dir", "output_dir", "warm_start_from"])
def test_addresses_of_buckets_are_no_paths(flag):
    with pytest.raises(UsageError, match=f"--{flag}: expected a path .*Received: 'gs://bucket/a'"):
        _parse(f"--{flag}=gs://bucket/a")


@pytest.mark.parametrize("word", ["--help", "-h", "--helpfull", "-helpfull", "--helpshort"])
def test_help_by_the_names_of_absl(word, capsys):
    with pytest.raises(SystemExit) as caught:
        _parse(word)
    assert caught.value.code == 0 and "--train_steps" in capsys.readouterr().out


def test_flag_without_its_value():
    with pytest.raises(UsageError, match="--train_steps"):
        _parse("--train_steps")


def test_refused_flags_say_why_and_accept_their_default():
    with pytest.raises(UsageError, match="^--sync .*TF_CONFIG.*Received: True"):
        _parse("--sync")
    assert _parse("--sync=False", "--ps_gpu=0", "--tpu_num_shards=8").sync is False
