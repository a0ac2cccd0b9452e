"""ut-trainer reports invalid flags before it loads TensorFlow."""

import json
import pathlib
import re
import subprocess
import sys

import pytest
from sacrebleu.tokenizers import tokenizer_ja_mecab

import trainer
from tests.bin import small_run
from ut_keras import hparams, problems
from ut_keras.bin import command_line, datagen, decoder, exporter, flags, import_t2t, trainer_setup
from ut_keras.errors import DataError, UsageError
from ut_keras.inference import run_json

_ROOT = pathlib.Path(__file__).parents[2]


def _argv(tmp_path, *more):
    return [
        f"--problem={small_run.PROBLEM}",
        "--model=transformer",
        "--hparams_set=transformer_tiny",
        f"--data_dir={tmp_path}",
        f"--output_dir={tmp_path / 'run'}",
        *more,
    ]


@pytest.mark.parametrize(
    "more, message",
    [
        (["--eval_early_stopping_metric=decode/bleu"], "requires --schedule=train_eval_and_decode"),
        (["--eval_early_stopping_steps=5", "--schedule=train"], "trains and evaluates"),
        (["--moving_average_decay=1.5"], "must be in [0, 1). Received: 1.5"),
        (["--profile=9-3"], "A-B. Received: '9-3'"),
        (["--profile=yes"], "A-B. Received: 'yes'"),
        (["--global_batch_size=64", "--hparams=batch_size=32"], "=64, batch_size=32"),
        (["--global_batch_size=0"], "global_batch_size must be at least 1. Received: 0"),
        (["--eval_early_stopping_metric=acuracy"], "neg_log_perplexity, step. Received: 'acuracy'"),
        (
            ["--eval_early_stopping_metric=metrics-x/targets/blue"],
            "Received: 'metrics-x/targets/blue'",
        ),
        (
            ["--eval_early_stopping_metric=decode/bleu", "--schedule=train_eval_and_decode"],
            "decode/accuracy_per_sequence",
        ),
        (["--hparams=beam_size=4"], "--decode_hparams=beam_size="),
        (["--hparams=keep_checkpoint_max=3"], "use the flag --keep_checkpoint_max=… instead."),
        (["--hparams=train_steps=3"], "use the flag --train_steps=… instead."),
        (["--hparams=eval_run_autoregressive=True"], "--schedule=train_eval_and_decode"),
        (["--worker_gpu_memory_fraction=2"], "Received: 2.0"),
    ],
)
def test_check_rejects_invalid_flags(tmp_path, capsys, more, message):
    assert message in small_run.error(capsys, trainer.main, _argv(tmp_path, *more))


def test_missing_bleu_tokenizer_is_reported_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    monkeypatch.setattr(type(problems.get("translate_ende_multi30k")), "target", "ja")
    argv = ["--problem=translate_ende_multi30k", "--train_steps=8"]
    for schedule in ("train_eval_and_decode", "evaluate_and_decode"):
        with pytest.raises(UsageError, match=r"sacrebleu\[ja\]"):
            _check(tmp_path, *argv, f"--schedule={schedule}")
    _check(tmp_path, *argv)  # the default schedule does not decode
    _check(
        tmp_path, argv[0] + "_rev", "--schedule=train_eval_and_decode", argv[1]
    )  # the targets of this problem are English


@pytest.mark.parametrize("missing", ["data_dir", "output_dir", "problem"])
def test_misspelt_name_is_reported_before_missing_flag(tmp_path, capsys, missing):
    misspelt = {"problem": "algorithmic_reverse_decimal41", "model": "transformr"}
    flag = "model" if missing == "problem" else "problem"
    argv = [*_argv(tmp_path), f"--{flag}={misspelt[flag]}"]
    argv = [word for word in argv if not word.startswith(f"--{missing}=")]
    for main in (trainer.main, decoder.main, exporter.main, import_t2t.main):
        if main is import_t2t.main:
            argv = [word for word in argv if not word.startswith("--hparams_set=")]
        line = small_run.error(capsys, main, argv)
        assert f"Unknown {flag}" in line.replace("registered ", "") and misspelt[flag] in line


def test_check_rejects_invalid_cluster(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    assert "TF_CONFIG must be JSON" in small_run.error(capsys, trainer.main, _argv(tmp_path))
    workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(workers))
    message = small_run.error(capsys, trainer.main, _argv(tmp_path, "--use_tpu"))
    assert "--use_tpu cannot be combined" in message


def _check(tmp_path, *more):
    return trainer_setup.check(
        command_line.parse(flags.TRAINER, _argv(tmp_path, *more), "trainer.py", "")
    )


def test_global_batch_size_sets_batch_size(tmp_path):
    assert _check(tmp_path, "--global_batch_size=640").hp.batch_size == 640


def test_train_schedule_requires_no_evaluation_split(tmp_path, monkeypatch):
    monkeypatch.setattr(type(problems.get(small_run.PROBLEM)), "splits", ("train",))
    assert _check(tmp_path, "--schedule=train").eval_split == "dev"
    with pytest.raises(UsageError, match="must have the split 'dev'. Received: train."):
        _check(tmp_path)


@pytest.mark.parametrize("name", ["text2class_tsv", "text2text_tsv", "text2text_tsv_rev"])
def test_test_split_of_own_files_can_be_evaluated(tmp_path, name):
    for split, count in {"train": 20, "test": 3}.items():
        (tmp_path / f"{split}.tsv").write_text("a text\tlabel 1\n" * count)
    data_dir, problem = str(tmp_path / "data"), problems.get(name)
    problem.generate_data(data_dir, str(tmp_path))
    args = command_line.parse(flags.TRAINER, ["--eval_use_test_set"], "", "")
    split = trainer_setup.eval_split(args, problem)
    hp = hparams.get("transformer_tiny")
    assert sum(len(targets) for _, targets in problem.dataset(split, data_dir, hp)) == 3


def test_missing_test_split_of_own_files_is_named(tmp_path):
    (tmp_path / "train.tsv").write_text("a text\tlabel 1\n" * 20)
    problem = problems.get("text2class_tsv")
    problem.generate_data(str(tmp_path / "data"), str(tmp_path))
    with pytest.raises(DataError, match=r"text2class_tsv-test"):
        problem.dataset("test", str(tmp_path / "data"), hparams.get("transformer_tiny"))


def test_optimizer_in_camel_case_is_noted_for_the_schedule_legacy(tmp_path, capsys):
    rates = "--hparams=learning_rate_schedule=legacy,optimizer=Adam"
    _check(tmp_path, rates)
    assert "note: with optimizer=Adam, the learning rate is 500 times" in capsys.readouterr().out


def test_missing_dev_split_is_noted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(type(problems.get(small_run.PROBLEM)), "splits", ("train", "test"))
    assert _check(tmp_path).eval_split == "test"
    assert "has no split 'dev', so 'test' is used" in capsys.readouterr().out


@pytest.mark.parametrize("schedule", ["train", "train_and_evaluate"])
def test_early_stopping_steps_zero_never_stops(tmp_path, schedule):
    """T2T adds its hook for early stopping only if the number is not 0."""
    setup = _check(tmp_path, "--eval_early_stopping_steps=0", f"--schedule={schedule}")
    assert setup.early_stopping.patience_steps is None


def test_early_stopping_accepts_t2t_flags(tmp_path):
    setup = _check(
        tmp_path,
        "--eval_early_stopping_metric=metrics-x/targets/accuracy",
        "--eval_early_stopping_steps=100",
        "--eval_early_stopping_metric_delta=0.5",
    )
    stopping = setup.early_stopping
    for step, value in ((100, 0.1), (200, 0.7), (250, 0.8)):
        stopping.add(step, {"accuracy": value})
        assert not stopping.should_stop
    stopping.add(300, {"accuracy": 0.8})
    assert stopping.should_stop and stopping.best_step == 300


def test_early_stopping_accepts_all_metrics_of_a_problem(tmp_path):
    def measures(problem, name):
        return problems.get(problem).may_measure(name)

    babi, translation = "babi_qa_concat_task1_1k", "translate_ende_wmt8k"
    assert measures(babi, "error/task_1") and measures(babi, "mean_error")
    assert not measures(babi, "decode/bleu") and not measures(babi, "mean_eror")
    assert measures(translation, "approx_bleu_score") and measures(translation, "decode/bleu")
    assert not measures(translation, "bleu") and not measures(translation, "decode/blue")
    assert measures("wsj_parsing", "decode/labelled_f1")
    assert measures("sva_number_prediction", "accuracy/attractors_2")
    assert not measures("languagemodel_ptb10k", "perplexity")
    assert measures("languagemodel_ptb10k", "per_word_perplexity")


def test_early_stopping_accepts_metrics_of_overridden_methods():
    class Mine(type(problems.get("translate_ende_wmt8k"))):
        def score_decoded(self, sources, references, hypotheses):
            return {"mine": 1.0}

    class Named(Mine):
        other_results = ("decode/mine",)

    assert Mine().may_measure("decode/mine") and not Mine().may_measure("mine")
    assert Named().may_measure("decode/mine") and not Named().may_measure("decode/bleu")


def test_early_stopping_accepts_t2t_tag_without_targets(tmp_path):
    argv = _argv(tmp_path, "--eval_early_stopping_metric=metrics-x/approx_bleu_score")
    argv[0] = "--problem=translate_ende_wmt8k"
    args = command_line.parse(flags.TRAINER, argv, "", "")
    assert trainer_setup.check(args).early_stopping.metric == "approx_bleu_score"


def test_unknown_metric_is_rejected_without_tensorflow(tmp_path):
    program = (
        "import sys; from ut_keras.bin import trainer; code = trainer.main(sys.argv[1:]); "
        "sys.exit(3 if 'tensorflow' in sys.modules else code)"
    )
    argv = _argv(tmp_path, "--eval_early_stopping_metric=metrics-x/blue")
    words = [sys.executable, "-c", program, *argv]
    result = subprocess.run(words, capture_output=True, text=True, cwd=_ROOT, timeout=60)
    assert result.returncode == 2 and "Received: 'metrics-x/blue'" in result.stderr
    assert not (tmp_path / "run").exists()


def test_ignored_field_prints_a_note(tmp_path, capsys):
    _check(tmp_path)
    assert "note: " not in capsys.readouterr().out
    _check(tmp_path, "--hparams=daisy_chain_variables=False,hidden_size=64")
    [note] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert note.startswith("note: daisy_chain_variables=False has no effect: ")


def test_field_that_the_model_does_not_read_prints_a_note(tmp_path, capsys):
    changed = "--hparams_set=lstm_luong_attention", "--hparams=num_heads=2,hidden_size=64"
    _check(tmp_path, "--model=lstm_seq2seq_attention", *changed)
    assert "note: " not in capsys.readouterr().out
    _check(tmp_path, "--model=lstm_seq2seq", *changed)
    note = "note: num_heads=2 has no effect: lstm_seq2seq does not read it."
    assert note in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("model", "lines"), [("transformer", 1), ("universal_transformer", 0)])
def test_recurrence_that_the_model_does_not_have_prints_a_note(tmp_path, capsys, model, lines):
    _check(tmp_path, f"--model={model}", "--hparams_set=adaptive_universal_transformer_tiny")
    printed = capsys.readouterr().out
    assert printed.count("note: recurrence_type='act' and the other hparams") == lines
    assert printed.count("use --model=universal_transformer.") == lines


@pytest.mark.parametrize("schedule", ["train", "evaluate", "train_eval_and_decode"])
def test_decode_hparams_without_decoding_print_a_note(tmp_path, capsys, schedule):
    _check(tmp_path, f"--schedule={schedule}", "--decode_hparams=beam_size=1")
    note = f"note: --decode_hparams has no effect: --schedule={schedule} does not decode."
    assert (note in capsys.readouterr().out) == (schedule != "train_eval_and_decode")


@pytest.mark.parametrize("given", [["--autotune_objective=loss", "--autotune_max_trials=3"], []])
def test_flags_of_a_search_without_a_search_print_a_note(tmp_path, capsys, given):
    _check(tmp_path, *given)
    note = "note: --autotune_objective, --autotune_max_trials: no effect without --hparams_range."
    assert (note in capsys.readouterr().out) == bool(given)


def test_evaluation_of_another_problem_is_noted(tmp_path, capsys):
    """Problems such as NAME and NAME_rev have the same vocabulary."""
    run_json.write(str(tmp_path), problem=small_run.PROBLEM, model="transformer")
    argv = [f"--output_dir={tmp_path}", "--schedule=evaluate"]
    _check(tmp_path, *argv)
    assert "note: " not in capsys.readouterr().out
    _check(tmp_path, *argv, f"--problem={small_run.PROBLEM}_rev")
    note = f"trained on {small_run.PROBLEM} and is evaluated on {small_run.PROBLEM}_rev"
    assert note in capsys.readouterr().out


@pytest.mark.parametrize("schedule", ["train", "evaluate"])
def test_error_about_a_removed_set_of_a_run_says_to_omit_it(tmp_path, capsys, schedule):
    argv = [*_argv(tmp_path), f"--output_dir={tmp_path}", f"--schedule={schedule}"]
    argv.append("--hparams_set=set_of_no_package")
    small_run.write(tmp_path)
    assert "omit" not in small_run.error(capsys, trainer.main, argv)
    run_json.write(str(tmp_path), hparams_set="set_of_no_package")
    line = small_run.error(capsys, trainer.main, argv)
    assert f"{tmp_path}/hparams.json has the hparams of this run" in line
    assert "omit --hparams_set." in line
    argv.pop()
    assert _check(tmp_path, *argv[1:], "--hparams_set=").hp.hidden_size == 16


def test_renamed_problem_of_a_package_can_use_the_run(tmp_path, capsys):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    small_run.write(tmp_path)
    run_json.write(str(tmp_path), problem="old_name", model="transformer")
    argv = [f"--output_dir={tmp_path}", "--hparams_set=", f"--t2t_usr_dir={package}"]
    evaluated = _check(tmp_path, *argv, "--schedule=evaluate")
    assert evaluated.problem.name == small_run.PROBLEM
    assert "old_name" in capsys.readouterr().out
    remedy = f'If {small_run.PROBLEM} is the new name of old_name, change "problem" in '
    with pytest.raises(UsageError, match=re.escape(f"{remedy}{tmp_path}/run.json")):
        _check(tmp_path, *argv, "--schedule=train")
    run_json.write(str(tmp_path), problem=small_run.PROBLEM)
    assert _check(tmp_path, *argv, "--schedule=train").problem.name == small_run.PROBLEM


@pytest.mark.parametrize(
    "hparams, steps, updates",
    [
        ("", 400, "400"),  # transformer_tiny has 8,000 steps of warm-up
        ("", 8000, ""),
        ("learning_rate_warmup_steps=40", 400, ""),
        ("learning_rate_schedule=legacy,learning_rate_decay_scheme=noam", 800, "800"),
        ("learning_rate_schedule=constant", 400, ""),
        ("optimizer=multistep_adam,optimizer_multistep_accumulate_steps=4", 8000, "2,000"),
    ],
)
def test_run_that_ends_in_the_warm_up_prints_a_note(tmp_path, capsys, hparams, steps, updates):
    _check(tmp_path, f"--hparams={hparams}", f"--train_steps={steps}")
    found = re.findall(
        r"ends after (.*) of the 8,000 updates of the warm-up", capsys.readouterr().out
    )
    assert found == ([updates] if updates else [])


def test_note_on_a_warm_up_names_a_value_without_note(tmp_path, capsys):
    _check(tmp_path, "--train_steps=100")
    [remedy] = re.findall(r"the hparam (\w+=\d+)", capsys.readouterr().out)
    _check(tmp_path, "--train_steps=100", f"--hparams={remedy}")
    assert "warm-up" not in capsys.readouterr().out


def test_resumed_run_does_not_repeat_notes_on_hparams(tmp_path, capsys):
    argv = [f"--output_dir={tmp_path}", "--hparams=learning_rate=0.5"]
    _check(tmp_path, *argv)
    assert "learning_rate=0.5 has no effect" in capsys.readouterr().out
    small_run.write(tmp_path, learning_rate=0.5)
    _check(tmp_path, *argv)
    assert "has no effect" not in capsys.readouterr().out
    _check(tmp_path, argv[0], "--hparams=learning_rate=0.4")
    assert "learning_rate=0.4 has no effect" in capsys.readouterr().out


def test_profile_flag_gives_steps(tmp_path):
    assert _check(tmp_path).profile_steps is None
    assert _check(tmp_path, "--profile=False").profile_steps is None
    assert _check(tmp_path, "--profile=100-110").profile_steps == (100, 110)


def test_too_few_train_steps_are_rejected_before_data(tmp_path, capsys):
    schedule = "--hparams=learning_rate_schedule=single_cycle_cos_decay"
    argv = _argv(tmp_path, "--generate_data", f"{schedule},learning_rate_warmup_steps=200")
    line = small_run.error(capsys, trainer.main, [*argv, "--train_steps=100"])
    assert "Received: train_steps=100, learning_rate_warmup_steps=200." in line
    assert not list(tmp_path.iterdir())
    [remedy] = re.findall(r"the hparam (\w+=\d+)", line)
    argv = _argv(tmp_path, "--generate_data", f"{schedule},{remedy}")
    parsed = command_line.parse(flags.TRAINER, [*argv, "--train_steps=100"], "", "")
    assert trainer_setup.check(parsed).hp.learning_rate_warmup_steps == 10


def test_all_missing_flags_are_named(capsys):
    line = small_run.error(capsys, trainer.main, ["--model=transformer"])
    assert line.startswith(
        "error: --problem, --data_dir and --output_dir are required: --registry_help "
    )


@pytest.mark.parametrize("factor", ["linear_decay", "single_cycle_cos_decay"])
def test_accumulation_notes_that_the_schedule_does_not_end(tmp_path, capsys, factor):
    schedule = f"learning_rate_schedule=constant*{factor},learning_rate_warmup_steps=1"
    accumulate = ",optimizer=multistep_adam,optimizer_multistep_accumulate_steps=4"
    for overrides, notes in ((schedule + accumulate, 1), (schedule, 0)):
        _check(tmp_path, "--train_steps=80", f"--hparams={overrides}")
        lines = [line for line in capsys.readouterr().out.splitlines() if "80 updates" in line]
        assert len(lines) == notes
        assert not notes or factor in lines[0] and "20 updates" in lines[0]


@pytest.mark.parametrize("name", ["missing", "empty", "old/model.ckpt-8", "old/model.ckpt-7.index"])
def test_warm_start_from_without_checkpoint_is_reported_first(tmp_path, capsys, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "model.ckpt-7.index").touch()
    argv = _argv(tmp_path, f"--warm_start_from={tmp_path / name}", "--generate_data")
    line = small_run.error(capsys, trainer.main, argv)
    assert line.startswith("error: --warm_start_from must be a checkpoint") and name in line


def test_warm_start_from_without_checkpoint_is_ignored_if_the_run_resumes(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.ckpt-7.index").touch()
    _check(tmp_path, "--warm_start_from=missing")


@pytest.mark.parametrize("name", ["old", "old/model.ckpt-7"])
def test_warm_start_accepts_folder_and_checkpoint(tmp_path, name):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "model.ckpt-7.index").touch()
    _check(tmp_path, f"--warm_start_from={tmp_path / name}")


def test_missing_text_files_leave_no_output_folder(tmp_path, capsys):
    argv = _argv(tmp_path, "--generate_data", f"--tmp_dir={tmp_path / 'missing'}")
    argv[0] = "--problem=text2text_tsv"
    line = small_run.error(capsys, trainer.main, argv)
    assert line.startswith("error: tmp_dir must contain train.tsv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [[], ["--generate_data"]])
def test_data_dir_that_is_a_file_is_reported(tmp_path, capsys, more):
    (tmp_path / "file").touch()
    argv = _argv(tmp_path, f"--data_dir={tmp_path}/file", *more)
    argv = [word for word in argv if word != f"--data_dir={tmp_path}"]
    line = small_run.error(capsys, trainer.main, argv)
    assert re.fullmatch("error: --data_dir must be a folder. Received: '.*/file', a file.", line)


def test_datagen_reports_data_dir_that_is_a_file(tmp_path, capsys):
    (tmp_path / "file").touch()
    argv = [f"--problem={small_run.PROBLEM}", f"--data_dir={tmp_path}/file"]
    line = small_run.error(capsys, datagen.main, argv)
    assert re.fullmatch("error: --data_dir must be a folder. Received: '.*/file', a file.", line)
