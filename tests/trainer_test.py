"""End-to-end tests of ut-trainer with the smallest possible model."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

import trainer
import ut_keras
from tests.bin import small_run
from ut_keras import problems
from ut_keras.bin import command_line, decoder, flags, trainer_setup
from ut_keras.training import output_folder

_ROOT = pathlib.Path(__file__).parents[1]
_PROBLEM = "algorithmic_reverse_binary40_test"
_HPARAMS = "hidden_size=8,filter_size=16,num_heads=2,num_hidden_layers=1,batch_size=256"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    from ut_keras.bin import datagen

    assert datagen.main([f"--problem={_PROBLEM}", f"--data_dir={path}", f"--tmp_dir={path}"]) == 0
    return path


def _argv(data_dir, output_dir, *more, model="transformer", hparams=_HPARAMS):
    return [
        f"--problem={_PROBLEM}",
        f"--model={model}",
        "--hparams_set=transformer_tiny",
        f"--hparams={hparams}",
        f"--data_dir={data_dir}",
        f"--output_dir={output_dir}",
        "--train_steps=4",
        "--local_eval_frequency=2",
        "--eval_steps=2",
        *more,
    ]


def _error(capsys, argv):
    """Run a trainer command that fails, and return its only line on stderr."""
    assert trainer.main(argv) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.fixture(scope="module")
def finished_run(data_dir, tmp_path_factory):
    """Return the folder of a finished run with four steps."""
    output_dir = tmp_path_factory.mktemp("run")
    decode = "--decode_hparams=beam_size=1,extra_length=1,num_samples=3"
    argv = _argv(data_dir, output_dir, "--schedule=train_eval_and_decode", decode)
    assert trainer.main(argv) == 0
    return output_dir


def test_language_model_prints_no_metrics_of_sequences(tmp_path, capsys):
    """The printed lines skip the metrics of sequences.

    The file metrics.jsonl contains all of T2T's metrics.
    """
    (tmp_path / "train.txt").write_text("one two three four\n" * 40)
    argv = _argv(tmp_path / "data", tmp_path / "run", "--generate_data", f"--tmp_dir={tmp_path}")
    assert trainer.main([*argv, "--problem=text2self_txt"]) == 0
    of_sequences = {"accuracy_per_sequence", "approx_bleu_score", "rouge_L_fscore"}
    record = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert of_sequences < set(record)
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if " loss=" in line]
    assert len(shown) == 3 and not any(name in line for name in of_sequences for line in shown)
    assert all(" neg_log_perplexity=" in line for line in shown)
    steps = [line for line in lines if line.startswith("step 4/4")]
    assert len(steps) == 1 and re.search(r"  accuracy \d", steps[0])
    assert "Compiling the first step…" in lines


def test_run_writes_its_records(finished_run):
    hparams = json.loads((finished_run / "hparams.json").read_text())
    assert hparams["hidden_size"] == 8
    run = json.loads((finished_run / "run.json").read_text())
    assert (run["problem"], run["model"]) == (_PROBLEM, "transformer")
    assert isinstance(run["random_seed"], int)
    lines = (finished_run / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    # Other tests evaluate this run again, so the file may contain more records.
    assert [record["step"] for record in records[:4]] == [2, 2, 4, 4]
    assert {"accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"} <= set(
        records[0]
    )
    assert records[1]["decode/num_samples"] == 3


def test_evaluate_uses_saved_hparams(data_dir, finished_run, capsys):
    argv = _argv(data_dir, finished_run, "--schedule=evaluate")
    argv = [word for word in argv if not word.startswith("--hparams")]
    assert trainer.main(argv) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.match(r"accuracy_per_sequence=\S+ accuracy=\S+ loss=\S+ .*steps=4", last)


def test_best_weights_can_be_evaluated_and_decoded(data_dir, finished_run, capsys):
    """The folder `best` is a separate run with its own metrics."""
    before = (finished_run / "metrics.jsonl").read_text()
    decode = "--decode_hparams=beam_size=1,extra_length=1,num_samples=2"
    argv = _argv(data_dir, finished_run / "best", "--schedule=evaluate_and_decode", decode)
    assert trainer.main(argv) == 0
    assert re.search(r"steps=[24]\n", capsys.readouterr().out)
    lines = (finished_run / "best" / "metrics.jsonl").read_text().splitlines()
    teacher_forced, decoded = map(json.loads, lines)
    assert "accuracy" in teacher_forced and decoded["decode/num_samples"] == 2
    assert (finished_run / "metrics.jsonl").read_text() == before


def test_command_line_overrides_saved_hparams(data_dir, finished_run, capsys):
    argv = _argv(data_dir, finished_run, "--schedule=train", hparams=_HPARAMS + ",dropout=0.0")
    argv = [word.replace("dropout=0.0", "label_smoothing=0.25") for word in argv]
    assert trainer.main(argv) == 0
    output = capsys.readouterr().out
    assert re.search(
        r"label_smoothing is 0.25; the run was trained with 0.\d+ \(.*hparams.json\)", output
    )
    assert json.loads((finished_run / "hparams.json").read_text())["label_smoothing"] == 0.25
    assert "label_smoothing" in json.loads((finished_run / "run.json").read_text())["hparams"]
    # As in T2T, hparams.json overrides the hyperparameters of --hparams_set.
    assert trainer.main(_argv(data_dir, finished_run, "--schedule=train")) == 0
    output = capsys.readouterr().out
    assert re.search(
        r"hparams.json overrides --hparams_set, as in T2T: .*smoothing=0.25, not 0", output
    )
    assert json.loads((finished_run / "hparams.json").read_text())["label_smoothing"] == 0.25


def test_resume_rejects_changed_architecture(data_dir, finished_run, capsys):
    hparams = _HPARAMS.replace("hidden_size=8", "hidden_size=12")
    line = _error(capsys, _argv(data_dir, finished_run, hparams=hparams))
    assert "hidden_size=12 instead of 8" in line


def _edit(run, name, value):
    """Change a field of hparams.json, and return the previous value of the field."""
    path = run / "hparams.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, name: value}))
    return values[name]


def test_edited_hparams_with_another_function_are_rejected(data_dir, finished_run, capsys):
    before = _edit(finished_run, "num_heads", 4)
    try:
        argv = _argv(data_dir, finished_run, "--schedule=train", "--train_steps=6")
        expected = ": num_heads=2. Received: num_heads=4."
        assert expected in _error(capsys, argv)
        argv = [word for word in argv if not word.startswith("--hparams")]
        assert expected in _error(capsys, argv)
        argv = [f"--output_dir={finished_run}", f"--data_dir={data_dir}"]
        assert expected in small_run.error(capsys, decoder.main, argv)
        with pytest.raises(ut_keras.hparam_schema.HParamError, match=re.escape(expected)):
            ut_keras.load(str(finished_run))
    finally:
        _edit(finished_run, "num_heads", before)
    assert ut_keras.load(str(finished_run)).model.hparams.num_heads == 2


def test_resume_rejects_another_model_or_problem(data_dir, finished_run, capsys):
    argv = _argv(data_dir, finished_run, model="universal_transformer_encoder")
    assert "--model must be transformer, " in _error(capsys, argv)
    argv = _argv(data_dir, finished_run)
    argv[0] = "--problem=algorithmic_identity_binary40"
    assert f"--problem must be {_PROBLEM}, " in _error(capsys, argv)


def test_resume_rejects_another_vocabulary(data_dir, finished_run, capsys, tmp_path):
    problem = "algorithmic_reverse_decimal40"
    argv = _argv(tmp_path, finished_run, "--schedule=evaluate")
    argv[0] = f"--problem={problem}"
    for path in data_dir.glob(f"{_PROBLEM}-*"):
        os.link(path, tmp_path / path.name.replace(_PROBLEM, problem))
    line = _error(capsys, argv)
    assert "vocab_size of 'inputs'" in line and ": 4. Received: 12" in line
    # A run of an older version has no features.json.
    run = shutil.copytree(finished_run, tmp_path / "run")
    (run / "features.json").unlink()
    line = _error(capsys, [*argv, f"--output_dir={run}"])
    assert (
        "target_embedding" in line and "(4, 8) in the checkpoint and (12, 8) in the model" in line
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"--problem": "algorithmic_reverse_binary4"}, "algorithmic_reverse_binary40"),
        ({"--model": "transfomer"}, "The nearest names: transformer"),
        ({"--model": "transformer_tiny"}, "pass --hparams_set=transformer_tiny, or"),
        ({"--hparams_set": "transformer_tin"}, "transformer_tiny"),
        ({"--hparams": "hiden_size=8"}, "hidden_size"),
        ({"--hparams": "hidden_size=eight"}, "hidden_size"),
        ({"--hparams": "hidden_size=-8"}, "hidden_size"),
        ({"--hparams": "optimizer=ftrl"}, "optimizer"),
        ({"--schedule": "tran"}, f"--schedule must be one of {', '.join(flags.SCHEDULES)}. "),
        ({"--schedule": "eval"}, "The nearest value: evaluate."),
        ({"--decode_hparams": "beam=1"}, "beam_size"),
        ({"--decode_hparams": "exit_threshold=0.5"}, "exit_threshold requires a model with recurr"),
        ({"--train_steps": "-1"}, "--train_steps must be at least 0"),
        ({"--problem": ""}, "--problem is required"),
        ({"--output_dir": ""}, "--output_dir is required"),
        ({"--hparams_set": ""}, "--hparams_set is required"),
        ({"--worker_gpu": "64"}, "worker_gpu must be at most the number of GPUs"),
        ({"--worker_gpu": "2", "--xla_compile": "True"}, "worker_gpu must be at most"),
        ({"--xla_compile": "atuo"}, "expected auto, True or False. Received: 'atuo'"),
        ({"--eval_use_test_set": "True"}, "must have the split 'test'"),
        ({"--t2t_usr_dir": "/nowhere"}, "--t2t_usr_dir must be a folder"),
        ({"--schedule": "run_std_server"}, "--schedule=run_std_server is not supported"),
        ({"--model": "evolved_transformer"}, "is not supported: the nearest: transformer"),
        ({"--problem": "github_function_docstring"}, "text2text_tmpdir"),
        ({"--data_dir": "/nowhere"}, "'/nowhere', which does not exist"),
        ({"--output_dir": "/proc/run"}, "/proc/run"),
        ({"--output_dir": __file__}, "trainer_test.py"),
    ],
)
def test_user_errors_are_one_line(data_dir, tmp_path, capsys, change, message):
    argv = _argv(data_dir, tmp_path / "run")
    given = dict(word.split("=", 1) for word in argv)
    given.update(change)
    assert message in _error(capsys, [f"{name}={value}" for name, value in given.items()])


@pytest.mark.slow  # This test is slow, because XLA compiles the update.
def test_auto_compiles_few_shapes_on_gpu(data_dir, tmp_path, capsys, monkeypatch):
    from ut_keras.bin import xla_choice
    from ut_keras.ops import devices

    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    monkeypatch.setattr(xla_choice, "LEAST_STEPS", 4)
    monkeypatch.setattr(xla_choice, "MOST_SHAPES", 2)
    assert trainer.main(_argv(data_dir, tmp_path / "run", "--train_steps=8")) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"^XLA compiles 2 batch shapes, with \d+ % padding \(\d+ % with one shape for each of "
        r"\d+ buckets\)\.$",
        out,
        re.MULTILINE,
    )
    assert "step 8/8" in out
    assert len(re.findall(r"^Compiled the update for batches of \d+ × \d+ in", out, re.M)) == 1


def test_one_command_at_a_time_trains_into_a_folder(data_dir, tmp_path, capsys, monkeypatch):
    with output_folder.lock(tmp_path):
        line = _error(capsys, _argv(data_dir, tmp_path))
        assert "--output_dir must be written by one command at a time" in line
        assert _error(capsys, _argv(data_dir, tmp_path, "--schedule=evaluate")) != line
    workers = {"worker": ["localhost:2222", "localhost:2223"]}
    for index, writes in ((0, True), (1, False)):
        config = {"cluster": workers, "task": {"type": "worker", "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        args = command_line.parse(flags.TRAINER, _argv(data_dir, tmp_path), "trainer.py", "")
        assert trainer_setup.check(args).writes is writes


def test_missing_workers_time_out(data_dir, tmp_path, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as here, socket.create_server(("", 0)) as there:
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (here, there)]
    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert trainer.main(_argv(data_dir, tmp_path, "--worker_wait_secs=1")) == 75
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in printed if not line.startswith(("Loading TensorFlow", "note: "))]
    assert lines[0] == f"Waiting at most 1 s for {addresses[1]}"
    assert lines[1].startswith("All workers must connect within --worker_wait_secs=1. ")
    assert f"Received no connection with {addresses[1]}. Run" in lines[1]
    line = _error(capsys, _argv(data_dir, tmp_path, "--worker_wait_secs=0"))
    assert "--worker_wait_secs must be at least 1" in line


def test_folder_without_data_is_rejected(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    line = _error(capsys, _argv(tmp_path / "data", tmp_path / "run"))
    assert _PROBLEM in line


def test_damaged_data_is_rejected(data_dir, tmp_path, capsys):
    damaged = tmp_path / "data"
    shutil.copytree(data_dir, damaged)
    for path in damaged.glob("*-train-*"):
        path.write_bytes(path.read_bytes()[:-7])
    line = _error(capsys, _argv(damaged, tmp_path / "run", "--schedule=train", "--train_steps=99"))
    assert "-train-" in line
    assert not list((tmp_path / "run").glob("*.index"))


@pytest.mark.parametrize("damage", ["missing", "a flipped bit"])
def test_dev_data_is_checked_before_the_first_update(data_dir, tmp_path, capsys, damage):
    data = shutil.copytree(data_dir, tmp_path / "data")
    (path,) = data.glob(f"{_PROBLEM}-dev-*")
    if damage == "missing":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    line = _error(capsys, _argv(data, tmp_path / "run"))
    assert f"{_PROBLEM}-dev" in line
    assert not list((tmp_path / "run").glob("model.ckpt*"))


def test_user_package_registers_names(tmp_path):
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from ut_keras import hparams\n"
        "from ut_keras.hparams import transformer\n"
        "hparams.register('my_tiny')(transformer.transformer_tiny)\n"
    )
    # Use a separate process, because registered names stay registered.
    command = [sys.executable, "trainer.py", f"--t2t_usr_dir={package}", "--registry_help"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=60)
    assert "  my_tiny\n" in done.stdout and "  universal_transformer\n" in done.stdout
    assert f"  {_PROBLEM}" in done.stdout


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--help"], "--local_eval_frequency"),
        (["--registry_help"], "adaptive_universal_transformer_tiny"),
        (["--problem=no_such", "--model=transformer", "--data_dir=d", "--output_dir=o"], "no_such"),
    ],
)
def test_help_and_errors_do_not_import_tensorflow(argv, message):
    code = (
        "import sys, trainer\n"
        "try:\n    trainer.main(sys.argv[1:])\n"
        "finally:\n    assert 'tensorflow' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code, *argv]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=60)
    assert message in done.stdout + done.stderr
    assert "AssertionError" not in done.stderr


@pytest.mark.slow
def test_ctrl_c_saves_and_the_command_resumes(data_dir, tmp_path):
    argv = _argv(data_dir, tmp_path, "--schedule=train", "--log_step_count_steps=1")
    argv = [word.replace("--train_steps=4", "--train_steps=100000") for word in argv]
    argv = [word.replace("--local_eval_frequency=2", "--local_eval_frequency=5") for word in argv]
    process = subprocess.Popen(
        [sys.executable, "trainer.py", *argv],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "checkpoint").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    stopped = re.search(r"Ctrl-C: stopped at step (\d+) and saved a checkpoint", output)
    step = int(stopped[1])
    assert (tmp_path / f"model.ckpt-{step}.index").exists()
    argv = [word.replace("--train_steps=100000", f"--train_steps={step}") for word in argv]
    assert trainer.main(argv) == 0


def test_encoder_rejects_targets_of_other_length_before_training(tmp_path, capsys):
    """The graph of the update also checks the lengths, but only after its compilation."""
    lines = (f"{i} {i + 1}\t{'x ' * (i % 7)}y\n" for i in range(60))
    (tmp_path / "train.tsv").write_text("".join(lines), encoding="utf-8")
    argv = ["--problem=text2text_tsv", "--model=transformer_encoder", "--generate_data"]
    argv += [f"--tmp_dir={tmp_path}", f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/run"]
    argv += ["--hparams_set=transformer_tiny", "--train_steps=10", "--schedule=train"]
    assert trainer.main(argv) == 2
    printed = capsys.readouterr()
    assert "--model=transformer_encoder does not fit the data" in printed.err
    assert "Compiling" not in printed.out


def test_encoder_trains_on_a_problem_with_weights(data_dir, tmp_path, monkeypatch, capsys):
    """The check of the lengths before training also reads batches with weights."""
    import tensorflow as tf

    def preprocess(self, records):
        return {**records, "weights": tf.cast(records["targets"], tf.float32)}

    monkeypatch.setattr(type(problems.get(_PROBLEM)), "preprocess", preprocess)
    argv = _argv(data_dir, tmp_path, "--schedule=train", model="transformer_encoder")
    assert trainer.main(argv) == 0
    assert "step 4/4" in capsys.readouterr().out
