"""Every command reports invalid input quickly, in one line and with exit code 2.

Each test case names a damaged input, the commands that read this input, and a part of the error
message.
"""

import io
import json
import os
import shutil
import signal

import pytest

import trainer
import ut_keras
from tests.bin import small_run
from ut_keras import errors, problems
from ut_keras.bin import (
    avg_checkpoints,
    bleu,
    datagen,
    decoder,
    exporter,
    import_t2t,
    visualize,
)
from ut_keras.inference import feature_record

PROBLEM = "text2text_tsv"
VOCABULARY = "vocab.text2text_tsv.8192.subwords"
SHARD = "text2text_tsv-train-00004-of-00010"
LONGEST_LINE = 420
T2T_RUN = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "ckpt", "transformer")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Return a folder with valid data and a valid run."""
    folder = tmp_path_factory.mktemp("sound")
    for name in ("raw", "data", "run"):
        (folder / name).mkdir()
    for split in ("train", "dev"):
        lines = "".join(f"number {i} is here\tthere is {i}\n" for i in range(150))
        (folder / "raw" / f"{split}.tsv").write_text(lines)
    argv = [f"--problem={PROBLEM}", f"--data_dir={folder}/data", f"--tmp_dir={folder}/raw"]
    assert datagen.main(argv) == 0
    small_run.write(folder / "run", data_dir=folder / "data", problem=PROBLEM, steps=(1, 2))
    record = feature_record.from_problem(problems.get(PROBLEM), str(folder / "data"))
    feature_record.save(str(folder / "run"), record)
    (folder / "run" / "metrics.jsonl").write_text('{"step": 1, "split": "dev", "loss": 1.0}\n')
    (folder / "source").write_text("number 1\n")
    return folder


@pytest.fixture
def world(sound, tmp_path):
    """Return a copy of the folder `sound` that the test can damage."""
    return shutil.copytree(sound, tmp_path / "world")


def _argv(name, world):
    run = [f"--output_dir={world}/run", f"--data_dir={world}/data"]
    small = ",".join(f"{key}={value}" for key, value in small_run.SMALL.items())
    return {
        "trainer": [
            *run,
            *(f"--problem={PROBLEM}", "--model=transformer", "--hparams_set=transformer_tiny"),
            *(f"--hparams={small}", "--train_steps=3"),
        ],
        "decoder": [*run, f"--decode_from_file={world}/source", f"--decode_to_file={world}/target"],
        "exporter": [*run, f"--export_dir={world}/export"],
        "visualize": [*run, "--input=number 1", f"--visualize_dir={world}/pictures"],
        "avg": [f"--prefix={world}/run/", "--num_last_checkpoints=2", f"--output_path={world}/a/a"],
        "datagen": [f"--problem={PROBLEM}", f"--data_dir={world}/new", f"--tmp_dir={world}/raw"],
        "bleu": [f"--translation={world}/source", f"--reference={world}/source"],
        "import_t2t": [
            *(f"--t2t_output_dir={world}/t2t", f"--data_dir={world}/data"),
            *(f"--output_dir={world}/imported", "--problem=algorithmic_reverse_binary40"),
            "--model=transformer",
        ],
    }[name]


MAIN = {
    "trainer": trainer.main,
    "decoder": decoder.main,
    "exporter": exporter.main,
    "visualize": visualize.main,
    "avg": avg_checkpoints.main,
    "datagen": datagen.main,
    "bleu": bleu.main,
    "import_t2t": import_t2t.main,
}


def _assert_rejected(capsys, main, argv, message):
    line = small_run.error(capsys, main, argv)
    assert len(line) <= LONGEST_LINE, line
    assert message in line
    return line


def _write(path, content):
    if path.is_dir():
        shutil.rmtree(path)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _make_folder(path):
    path.unlink(missing_ok=True)
    path.mkdir()


# Invalid contents of JSON files.

_SHAPES = {
    "deep": "[" * 100_000,
    "deep_object": '{"a":' * 100_000,
    "list": "[1]",
    "null": "null",
    "text": '"x"',
    "no_utf8": b'{"model": "\xff"}',
    "empty": "",
    "torn": '{"model": "transf',
    "long_number": '{"random_seed": 1' + "0" * 6000 + "}",
}
_OTHER_VALUES = json.dumps(
    {
        **{"problem": ["x"], "model": 3, "hparams_set": 7, "random_seed": -1},
        **{"hidden_size": {"a": 1}, "features": [1], "target_space_id": "x", "step": "x"},
    }
)


@pytest.mark.parametrize("shape", [*_SHAPES, "other_values", "folder"])
@pytest.mark.parametrize(
    "file, name",
    [
        ("run.json", "decoder"),
        ("run.json", "trainer"),
        ("hparams.json", "visualize"),
        ("features.json", "exporter"),
        ("features.json", "avg"),
    ],
)
def test_invalid_json_is_one_line(world, capsys, file, name, shape):
    path = world / "run" / file
    if shape == "folder":
        _make_folder(path)
    else:
        _write(path, _SHAPES.get(shape, _OTHER_VALUES))
    _assert_rejected(capsys, MAIN[name], _argv(name, world), file)


def _spoilt_vocabularies():
    """Return {name: function that converts the lines of a vocabulary to damaged bytes}."""
    return {
        "reversed": lambda lines: "\n".join([*lines[:2], *reversed(lines[2:])]).encode(),
        "unreserved": lambda lines: "\n".join(lines[2:]).encode(),
        "no_utf8": lambda lines: "\n".join(lines[:5]).encode() + b"\n'\xff'\n",
        "shorter": lambda lines: "\n".join(lines[:-3]).encode(),
        "empty": lambda lines: b"",
        "torn": lambda lines: "\n".join(lines).encode()[:-1],
    }


@pytest.mark.parametrize("kind", _spoilt_vocabularies())
@pytest.mark.parametrize("name", ["decoder", "exporter", "visualize", "trainer"])
def test_invalid_vocabulary_is_one_line(world, capsys, name, kind):
    path = world / "data" / VOCABULARY
    _write(path, _spoilt_vocabularies()[kind](path.read_text().splitlines()))
    messages = {"no_utf8": "UTF-8", "unreserved": "<pad> and <EOS>", "empty": "<pad> and <EOS>"}
    _assert_rejected(capsys, MAIN[name], _argv(name, world), messages.get(kind, "vocabulary"))


@pytest.mark.parametrize("kind", _spoilt_vocabularies())
def test_load_rejects_invalid_vocabulary_of_the_run(world, kind):
    path = world / "run" / "vocab.inputs.subwords"
    _write(path, _spoilt_vocabularies()[kind](path.read_text().splitlines()))
    with pytest.raises(errors.UserError):
        ut_keras.load(str(world / "run"))


def test_run_without_hash_is_compared_with_its_vocabulary(world, capsys):
    path = world / "run" / "features.json"
    content = json.loads(path.read_text())
    for feature in content["features"].values():
        del feature["encoder"]["sha256"]
    path.write_text(json.dumps(content))
    assert exporter.main([*_argv("exporter", world), "--format=safetensors"]) == 0
    capsys.readouterr()
    vocabulary = world / "data" / VOCABULARY
    _write(vocabulary, _spoilt_vocabularies()["reversed"](vocabulary.read_text().splitlines()))
    _assert_rejected(capsys, exporter.main, _argv("exporter", world), "export, omit --data_dir")


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"modality": "image"}, "modality of 'inputs' must be one of"),
        ({"vocab_size": 0}, "positive ints"),
        ({"vocab_size": 2.5}, "positive ints"),
        ({"encoder": {"class": "os.system"}}, "unknown encoder 'os.system'"),
        ({"encoder": 7}, "must be as ut-trainer writes it"),
    ],
)
def test_invalid_features_record_is_one_line(world, capsys, changed, message):
    path = world / "run" / "features.json"
    content = json.loads(path.read_text())
    content["features"]["inputs"].update(changed)
    path.write_text(json.dumps(content))
    _assert_rejected(capsys, decoder.main, _argv("decoder", world), message)


@pytest.mark.parametrize(
    "content",
    [
        *("garbage", "", 'model_checkpoint_path: ""', 'model_checkpoint_path: "unclosed'),
        *(b"\x00\xf6\xff", b'model_checkpoint_path: "\xff"', "all_model_checkpoint_paths: 'x'"),
    ],
)
@pytest.mark.parametrize("name", ["decoder", "avg"])
def test_invalid_checkpoint_state_is_one_line(world, capsys, name, content):
    _write(world / "run" / "checkpoint", content)
    _assert_rejected(capsys, MAIN[name], _argv(name, world), "checkpoint must name a checkpoint")


def test_trainer_does_not_restart_with_invalid_checkpoint_state(world, capsys):
    _write(world / "run" / "checkpoint", "garbage")
    _assert_rejected(
        capsys, trainer.main, _argv("trainer", world), "checkpoint must name a checkpoint"
    )


@pytest.mark.parametrize("end", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("name", ["decoder", "exporter", "avg", "trainer"])
def test_broken_checkpoint_link_is_one_line(world, capsys, name, end):
    """The user wants the linked checkpoint, so the command does not use an older checkpoint."""
    path = world / "run" / f"model.ckpt-2.{end}"
    path.unlink()
    path.symlink_to("/nonexistent/checkpoint")
    _assert_rejected(capsys, MAIN[name], _argv(name, world), f"model.ckpt-2.{end}")
    assert not (world / "target").exists()


def test_invalid_t2t_checkpoint_state_is_one_line(world, capsys):
    shutil.copytree(T2T_RUN, world / "t2t")
    _write(world / "t2t" / "checkpoint", "garbage")
    argv = [word for word in _argv("import_t2t", world) if "--data_dir" not in word]
    _assert_rejected(
        capsys, import_t2t.main, [*argv, f"--data_dir={world}"], "must name a checkpoint"
    )


@pytest.mark.parametrize(
    "spoil, message",
    [
        (_make_folder, "must be a regular file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "must be a regular file"),
        (lambda path: (path.unlink(), path.symlink_to("/nonexistent")), "must be a regular file"),
        (lambda path: _write(path, b""), "which is empty"),
        (lambda path: _write(path, path.read_bytes()[:-1]), "A TFRecord file must be"),
        (lambda path: _write(path, b"\x07" * 500), "A TFRecord file must be"),
    ],
)
def test_invalid_shard_is_one_line(world, capsys, spoil, message):
    spoil(world / "data" / SHARD)
    _assert_rejected(capsys, trainer.main, _argv("trainer", world), message)


def _no_answer(*_):
    raise TimeoutError


@pytest.mark.parametrize(
    "path, names",
    [
        ("run/hparams.json", ["trainer", "decoder", "exporter", "visualize"]),
        ("run/run.json", ["trainer", "decoder"]),
        ("run/features.json", ["trainer", "decoder", "avg"]),
        ("run/checkpoint", ["trainer", "decoder", "avg"]),
        ("run/model.ckpt-2.index", ["trainer", "decoder", "avg"]),
        ("run/model.ckpt-2.data-00000-of-00001", ["decoder", "avg"]),
        (f"data/{VOCABULARY}", ["trainer", "decoder"]),
        ("raw/train.tsv", ["datagen"]),
        ("source", ["decoder", "bleu"]),
        ("t2t/hparams.json", ["import_t2t"]),
        ("t2t/flags_t2t.txt", ["import_t2t"]),
    ],
)
def test_commands_do_not_wait_for_a_pipe(world, capsys, path, names):
    shutil.copytree(T2T_RUN, world / "t2t")
    (world / path).unlink(missing_ok=True)
    os.mkfifo(world / path)
    before = signal.signal(signal.SIGALRM, _no_answer)
    try:
        for name in names:
            signal.alarm(60)
            _assert_rejected(capsys, MAIN[name], _argv(name, world), os.path.basename(path))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "source, message",
    [
        ("def (:\n", "SyntaxError: invalid syntax (/"),
        ("\0", "SyntaxError"),
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("raise SystemExit(0)\n", "SystemExit: 0"),
        ("\n1 / 0\n", "line 2"),
        ("raise ValueError('x' * 100_000)\n", "ValueError"),
    ],
)
@pytest.mark.parametrize("name", ["trainer", "datagen", "decoder", "import_t2t"])
def test_broken_user_package_is_one_line(world, capsys, name, source, message):
    package = world / f"package_{abs(hash((name, source)))}"
    package.mkdir()
    (package / "__init__.py").write_text(source)
    _assert_rejected(capsys, MAIN[name], [*_argv(name, world), f"--t2t_usr_dir={package}"], message)


# Tests with numbers that are out of range.


@pytest.mark.parametrize(
    "name, flag, message",
    [
        ("trainer", "intra_op_parallelism_threads=-1", "at least 0"),
        ("trainer", "intra_op_parallelism_threads=100000", "at most 1024"),
        ("trainer", "inter_op_parallelism_threads=-1", "at least 0"),
        ("decoder", "intra_op_parallelism_threads=100000", "at most 1024"),
        ("trainer", "eval_early_stopping_steps=-1", "at least 0"),
        ("trainer", "eval_early_stopping_metric_delta=nan", "must be finite"),
        ("trainer", "eval_early_stopping_metric_delta=inf", "must be finite"),
        ("trainer", "eval_throttle_seconds=-1", "at least 0"),
        ("trainer", "moving_average_decay=nan", "must be finite"),
        ("trainer", "save_checkpoints_secs=-5", "at least 0"),
        ("trainer", "keep_checkpoint_max=-1", "at least 0"),
        ("trainer", f"train_steps={10**20}", "at most 2147483647"),
        ("trainer", "random_seed=-1", "at least 0"),
        ("trainer", f"random_seed={2**63}", f"at most {2**63 - 1}"),
        ("decoder", "random_seed=-1", "at least 0"),
        ("datagen", f"random_seed={2**63}", f"at most {2**63 - 1}"),
        ("datagen", "num_concurrent_processes=100000", "at most 1024"),
        ("datagen", f"inspect={10**30}", "at most 2147483647"),
        ("avg", f"num_last_checkpoints={10**30}", "at most 2147483647"),
        ("trainer", "hparams=num_hidden_layers=100000", "in [1, 1024]"),
        pytest.param(
            *("trainer", "hparams=filter_size=1000000000", "ran out of memory"),
            marks=pytest.mark.slow,
        ),
        ("trainer", f"hparams=batch_size={10**20}", "at most 2147483647"),
        ("trainer", f"hparams=max_input_seq_length={10**20}", "at most 2147483647"),
        ("trainer", "hparams=length_bucket_step=1.0000001", "in [1.001, inf)"),
        ("trainer", "hparams=learning_rate_constant=1e300", "at most 3.4e+38"),
        ("trainer", "hparams=ffn_layer=conv_relu_conv,conv_first_kernel=2", "kernel_size must be"),
        (
            "trainer",
            "hparams=layer_preprocess_sequence=" + "n" * 100_000,
            "layer_preprocess_sequence must be 'none' or letters",
        ),
        ("decoder", f"decode_hparams=extra_length={10**20}", "at most 1048576"),
        ("trainer", f"decode_hparams=extra_length={10**20}", "at most 1048576"),
        ("exporter", f"decode_hparams=min_length={10**20}", "at most 2147483647"),
        ("decoder", "decode_hparams=alpha=nan", "must be finite"),
        ("decoder", "decode_hparams=alpha=1e30", "at most 10"),
        ("exporter", "decode_hparams=eos_penalty=inf", "must be finite"),
        ("decoder", f"decode_hparams=batch_size={10**20}", "at most 2147483647"),
        ("decoder", "decode_hparams=beam_size=1,sampling_temp=nan", "must be finite"),
        ("decoder", "decode_hparams=beam_size=1,sampling_temp=1e-300", "at least 1e-06"),
        ("exporter", f"decode_hparams=beam_size=1,sampling_temp=1,seed={2**63}", "at most"),
    ],
)
def test_out_of_range_number_is_one_line(world, capsys, name, flag, message):
    argv = _argv(name, world)
    if name == "trainer":
        shutil.rmtree(world / "run")  # otherwise the trainer first rejects the changed hparams
    _assert_rejected(capsys, MAIN[name], [*argv, f"--{flag}"], message)


@pytest.mark.parametrize(
    "overrides",
    [
        *("num_rec_steps=100000", "recurrence_type=act,act_max_steps=100000"),
        *("num_inrecurrence_layers=100000", "num_mixedin_layers=100000"),
    ],
)
def test_out_of_range_depth_is_one_line(world, capsys, overrides):
    shutil.rmtree(world / "run")
    argv = [word for word in _argv("trainer", world) if not word.startswith("--hparams=")]
    argv += ["--model=universal_transformer", "--hparams_set=universal_transformer_tiny"]
    _assert_rejected(capsys, trainer.main, [*argv, f"--hparams={overrides}"], "in [1, 1024]")


@pytest.mark.parametrize("line", ["ns=1000000000", f"dl={10**12}", "dl=" + "9" * 6000, "ns=nan"])
def test_out_of_range_typed_number_is_rejected(world, monkeypatch, capsys, line):
    """The decoder rejects the number and continues with the next line."""
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\nq\n"))
    argv = [word for word in _argv("decoder", world) if "_file=" not in word]
    assert decoder.main([*argv, "--decode_interactive"]) == 0
    assert f"{line[:2]} must be a number from " in capsys.readouterr().out


# Tests with long or invalid texts.


@pytest.mark.parametrize(
    "name, argument",
    [
        ("trainer", "--problem=" + "x" * 100_000),
        ("trainer", "--problem=" + "a," * 50_000),
        ("datagen", "--" + "x" * 100_000),
        ("trainer", "--hparams=" + "x" * 100_000),
        ("trainer", "--hparams=hidden_size=" + "9" * 100_000),
        ("decoder", "--output_dir=/" + "x" * 5000),
        ("bleu", "--translation=/" + "x" * 5000),
        ("trainer", "--data_dir=/\udcff"),
    ],
)
def test_long_and_unusual_arguments_are_one_line(world, capsys, name, argument):
    _assert_rejected(capsys, MAIN[name], [*_argv(name, world), argument], "")


@pytest.mark.parametrize(
    "name, file", [("bleu", "source"), ("decoder", "source"), ("datagen", "raw/train.tsv")]
)
def test_non_utf8_text_is_one_line(world, capsys, name, file):
    _write(world / file, b"a\tb\n\xff\tc\n")
    _assert_rejected(capsys, MAIN[name], _argv(name, world), "must be UTF-8")


@pytest.mark.parametrize(
    "line",
    [
        "x" * 1_000_000,
        *(
            pytest.param(line, marks=pytest.mark.slow)
            for line in ("!?" * 1_000_000, "é" * 1_000_000, ("q" * 1500 + " ") * 1300)
        ),
    ],
    ids=["one word", "punctuation", "beyond ASCII", "words"],
)
def test_line_of_megabytes_is_accepted(world, line):
    with open(world / "raw" / "train.tsv", "a", encoding="utf-8") as file:
        file.write(f"{line}\tb\n")
    assert datagen.main(_argv("datagen", world)) == 0
