"""ut-decoder reports user errors in one line, before it builds a model."""

import json
import os
import re
import shutil

import pytest

from tests.bin import decoder_problems, small_run  # noqa: F401  the import registers problems
from ut_keras import models, problems
from ut_keras.bin import command_line, decoder, decoder_setup
from ut_keras.bin import flags as flags_lib
from ut_keras.errors import UsageError
from ut_keras.inference import feature_record

T2T_RUN = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "ckpt", "transformer")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return {type of problem: folder of a run}."""
    folders = {}
    for kind, options in {
        "reverse": {},
        "classes": {"problem": "decoder_test_classes"},
        "language_model": {"problem": "decoder_test_language_model"},
        "other_heads": {"num_heads": 4},
    }.items():
        folders[kind] = tmp_path_factory.mktemp(kind)
        small_run.write(folders[kind], folders[kind], **options)
    return folders


@pytest.fixture
def flags(runs, tmp_path):
    """Return the flags of a valid command line as {name: value}."""
    (tmp_path / "source").write_text("0 1\n1\n")
    return {
        "output_dir": runs["reverse"],
        "data_dir": tmp_path,
        "decode_from_file": tmp_path / "source",
        "decode_to_file": tmp_path / "out",
        "decode_hparams": "beam_size=2,extra_length=1",
    }


def _argv(flags):
    return [f"--{name}={value}" for name, value in flags.items() if value is not None]


@pytest.fixture
def error(flags, capsys, monkeypatch, tmp_path):
    """Return a function that runs the decoder with changed flags and returns the error.

    The decoder must not build a model before the error.
    """

    def refuse(*args, **kwargs):
        raise AssertionError("a model was made")

    def run(**changes):
        line = small_run.error(capsys, decoder.main, _argv({**flags, **changes}))
        assert not {"out", ".out.ut_keras-partial"} & set(os.listdir(tmp_path))
        return line

    monkeypatch.setattr(models, "from_specs", refuse)
    return run


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"output_dir": None, "data_dir": None},
            "--output_dir or --checkpoint_path is required.* --decode_from_file=FILE, ",
        ),
        (
            {"output_dir": "/nowhere"},
            "folder of a run with a checkpoint.*'/nowhere', which does not ex",
        ),
        (
            {"checkpoint_path": "/nowhere/model.ckpt-1"},
            "/nowhere/model.ckpt-1.index does not exist",
        ),
        ({"data_dir": None}, "--data_dir is required .* without a features.json"),
        ({"data_dir": "/nowhere"}, "--data_dir must be a folder. Received: '/nowhere'"),
        ({"problem": "algorithmic_reverse_binary4"}, "algorithmic_reverse_binary40"),
        (
            {"problem": "algorithmic_identity_binary40"},
            "--problem must be algorithmic_reverse_binary40_test, ",
        ),
        (
            {"model": "universal_transformer"},
            "--model must be transformer, .* Received: --model=universal",
        ),
        ({"model": "transformr"}, "nearest names?: transformer"),
        (
            {"hparams_set": "transformer_base"},
            "hidden_size=512 instead of 16.*Commands without --hparams_set and --hparams use",
        ),
        ({"hparams": "hidden_size=32"}, "hidden_size=32 instead of 16"),
        ({"decode_hparams": "beam_size=5"}, "beam_size must be at most 4,.*Received: 5"),
        ({"decode_hparams": "alpha=-1"}, "alpha must be at least 0. Received: -1.0"),
        ({"decode_hparams": "beams=1"}, "beam_size"),
        (
            {"decode_hparams": "max_input_size=3", "decode_from_file": None},
            "max_input_size requires .*--decode_interactive. Received: max_input_size=3",
        ),
        ({"decode_from_file": "/nowhere"}, "--decode_from_file must be a file. .*'/nowhere'"),
        ({"decode_from_file": "/"}, "--decode_from_file must be a file"),
        (
            {"decode_to_file": "/nowhere/out"},
            "--decode_to_file must be .* Received: '/nowhere/out'",
        ),
        ({"decode_to_file": "/proc/out"}, "/proc/out"),
        ({"decode_to_file": "/tmp"}, "'/tmp', which is a folder"),
        ({"keep_timestamp": "True"}, "--keep_timestamp requires --checkpoint_path"),
        ({"score_file": "/etc/passwd"}, "Received: --decode_from_file and --score_file"),
        ({"decode_reference": "/etc/passwd"}, "must have the same number of lines"),
        ({"worker_gpu": "2"}, "--worker_gpu is not supported"),
        (
            {"hparams": "sampling_method=random,sampling_temp=.95"},
            "supported: 1.0, or use --decode_hparams=beam_size=1,sampling_temp=",
        ),
        (
            {"hparams": "sampling_keep_top_k=5"},
            "--decode_hparams=beam_size=1,sampling_temp=…,top_k",
        ),
        (
            {"hparams": "beam_size=4"},
            "--decode_hparams=beam_size=… .* Received: beam_size=4",
        ),
        ({"train_steps": "3"}, "--train_steps is not supported"),
        ({"xla_compile": "atuo"}, "--xla_compile.*expected auto, True or False. Received: 'atuo'"),
        ({"beam_size": "3"}, "Unknown flag: '--beam_size'"),
    ],
)
def test_check_rejects_invalid_flags(error, changes, message):
    assert re.search(message, error(**changes))


def test_gpu_memory_fraction_does_not_change_the_decoding(flags):
    changed = {**flags, "worker_gpu_memory_fraction": "0.5"}
    setups = [
        decoder_setup.check(command_line.parse(flags_lib.DECODER, _argv(given), "ut-decoder", ""))
        for given in (flags, changed)
    ]
    assert setups[0].values == setups[1].values and setups[0].hp == setups[1].hp


def test_check_uses_vocabulary_of_the_run(flags, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(flags["output_dir"], run)
    record = feature_record.from_problem(problems.get(small_run.PROBLEM), None)
    feature_record.save(str(run), record)
    argv = _argv({**flags, "output_dir": run, "data_dir": None})
    setup = decoder_setup.check(command_line.parse(flags_lib.DECODER, argv, "ut-decoder", ""))
    assert setup.specs == record.specs and setup.data_dir == ""
    assert setup.encoders["inputs"].encode("0 1") == [2, 3]
    assert [weight.shape for weight in setup.load_model()[0].weights]
    # Without --decode_from_file, the decoder decodes a split and therefore needs --data_dir.
    argv = _argv({**flags, "output_dir": run, "data_dir": None, "decode_from_file": None})
    with pytest.raises(UsageError, match="the folder with the data of the split"):
        decoder_setup.check(command_line.parse(flags_lib.DECODER, argv, "ut-decoder", ""))


def test_check_rejects_flags_of_other_modes(error, flags, tmp_path):
    without = {"decode_from_file": None, "decode_to_file": None}
    score = {**without, "score_file": flags["decode_from_file"]}
    assert "--decode_to_file is required" in error(**score)
    assert "cannot be combined with --decode_interactive" in error(
        decode_from_file=None, decode_interactive=True
    )
    assert "--decode_reference requires --decode_from_file" in error(
        **without, decode_reference="x"
    )
    assert "must have the split 'test'" in error(**without, eval_use_test_set=True)
    target = flags["decode_from_file"]
    assert "--decode_to_file must differ" in error(decode_to_file=target)


def test_invalid_line_is_named_by_its_number(error, flags):
    source = flags["decode_from_file"]
    source.write_bytes(b"0 1\n0 \xff\n")
    assert "Text must be UTF-8" in (line := error()) and "source, line 2" in line
    assert "iconv -c" in line
    source.write_text("0 1\n\n2 1\n")
    assert "source, line 3 cannot be encoded: Numbers must be in [0, 2)" in (line := error())
    assert line.endswith("Received: '2'. The line is '2 1'.")
    source.write_text("0 1\t1\n0 1\n")
    score = {"decode_from_file": None, "score_file": source}
    assert "must be source<TAB>target. Received" in (line := error(**score))
    assert "source, line 2: '0 1'" in line


def test_check_rejects_missing_vocabulary(error, runs, tmp_path):
    run = shutil.copytree(runs["reverse"], tmp_path / "run")
    os.remove(run / "run.json")
    line = error(output_dir=run, problem="text2text_tsv", model="transformer")
    assert "vocabulary file" in line and "text2text_tsv" in line


def test_unknown_problem_names_the_package_flag(error, runs, tmp_path):
    run = shutil.copytree(runs["reverse"], tmp_path / "run")
    (run / "run.json").write_text('{"problem": "poetry_lines", "model": "transformer"}')
    line = error(output_dir=run)
    assert "Unknown problem: 'poetry_lines'" in line and "pass --t2t_usr_dir" in line
    assert "run.json in" in line and "contains this name" in line


def _renamed(runs, tmp_path, flag="problem"):
    """Return the flags of a run whose problem or model is unknown in an (empty) package."""
    run = shutil.copytree(runs["reverse"], tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, flag: "old_name"}))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    return {"output_dir": run, "t2t_usr_dir": tmp_path / "package"}


def test_renamed_problem_is_decoded_under_its_new_name(flags, error, runs, tmp_path, capsys):
    renamed = _renamed(runs, tmp_path)
    line = error(**renamed)
    assert "Unknown problem: 'old_name'" in line and line.endswith("pass --problem=NEW.")
    named = {**flags, **renamed, "problem": small_run.PROBLEM}
    args = command_line.parse(flags_lib.DECODER, _argv(named), "ut-decoder", "")
    capsys.readouterr()
    assert decoder_setup.check(args).problem.name == small_run.PROBLEM
    note = f"for the run in {renamed['output_dir']}"
    assert note in capsys.readouterr().out
    # Without the package, the old name is not known to be removed.
    line = error(**{**named, "t2t_usr_dir": None})
    assert "--problem must be old_name" in line


def test_renamed_problem_must_have_the_features_of_the_run(error, runs, tmp_path):
    renamed = _renamed(runs, tmp_path)
    record = feature_record.from_problem(problems.get(small_run.PROBLEM), None)
    feature_record.save(str(renamed["output_dir"]), record)
    line = error(**renamed, problem="algorithmic_reverse_decimal40")
    assert "vocab_size of 'inputs' must match the run in" in line


def test_renamed_model_names_the_entry_to_change(error, runs, tmp_path):
    renamed = _renamed(runs, tmp_path, "model")
    line = error(**renamed, model="transformer")
    path = renamed["output_dir"] / "run.json"
    assert f"--model must be old_name, as in the run in {path.parent}. " in line
    assert f'If transformer is the new name of old_name, change "model" in {path}.' in line
    assert "change" not in error(**{**renamed, "t2t_usr_dir": None}, model="transformer")


def test_part_of_a_package_names_the_package_flag(error, runs, tmp_path):
    run = shutil.copytree(runs["reverse"], tmp_path / "run")
    values = json.loads((run / "hparams.json").read_text())
    of_a_package = {"ffn_layer": "part_of_no_package", "field_of_no_package": 0.5}
    for name, value in {**of_a_package, "num_heads": -1}.items():
        (run / "hparams.json").write_text(json.dumps({**values, name: value}))
        line = error(output_dir=run)
        assert name in line and ("--t2t_usr_dir" in line) == (name in of_a_package)
    (run / "hparams.json").write_text(json.dumps(values))
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "model": "model_of_no_package"}))
    line = error(output_dir=run)
    assert re.search("Unknown model: 'model_of_no_package'.* requires --t2t_usr_dir", line)


def test_runs_without_a_checkpoint_are_not_named(error, runs, tmp_path):
    """A run that fails before its first checkpoint has a folder "best" without weights."""
    (tmp_path / "failed" / "best").mkdir(parents=True)
    (tmp_path / "failed" / "best" / "run.json").write_text("{}")
    line = error(output_dir=tmp_path / "failed")
    assert line.endswith(f"Received: '{tmp_path}/failed', which has no checkpoint.")
    shutil.copytree(runs["reverse"], tmp_path / "failed" / "other")
    assert f"contains the runs {tmp_path}/failed/other." in error(output_dir=tmp_path / "failed")


def test_check_rejects_unsuitable_problems(error, flags, runs):
    class_run, language_model = runs["classes"], runs["language_model"]
    score = {"decode_from_file": None, "score_file": flags["decode_from_file"]}
    line = error(output_dir=class_run, **score)
    assert "--score_file requires" in line and "class labels" in line
    line = error(output_dir=language_model, decode_from_file=None, decode_to_file=None)
    assert "no inputs to decode; give prompts" in line


def test_xla_compile_requires_a_search_that_xla_can_compile(error, runs):
    for changes, reason in (
        ({"output_dir": runs["language_model"]}, "a language model"),
        ({"output_dir": runs["classes"]}, "a classifier"),
    ):
        line = error(xla_compile=True, **changes)
        assert line.endswith(f"Received: --xla_compile with {reason}.")


def test_check_rejects_lines_for_stories(error, runs, tmp_path):
    run = shutil.copytree(runs["classes"], tmp_path / "run")
    os.remove(run / "run.json")
    line = error(output_dir=run, problem="decoder_test_stories", model="transformer")
    assert "requires a problem whose inputs are text" in line and "the dev split" in line
    line = error(output_dir=run, problem="decoder_test_stories")
    assert "--model is required" in line and "run.json" in line


# Without run.json, only the shapes of the weights show that run and problem have different
# vocabularies.


def test_checkpoint_of_another_vocabulary_is_rejected(flags, runs, tmp_path, capsys):
    run = shutil.copytree(runs["reverse"], tmp_path / "run")
    os.remove(run / "run.json")
    argv = {**flags, "output_dir": run, "model": "transformer", "problem": "decoder_test_decimal"}
    line = small_run.error(capsys, decoder.main, _argv(argv))
    assert "(4, 16) in the checkpoint and (12, 16) in the model" in line


def test_t2t_and_truncated_checkpoints_are_rejected(flags, runs, tmp_path, capsys):
    argv = {**flags, "checkpoint_path": f"{T2T_RUN}/model.ckpt-20"}
    assert "ut-import-t2t" in small_run.error(capsys, decoder.main, _argv(argv))
    run = shutil.copytree(runs["reverse"], tmp_path / "run")
    data = run / "model.ckpt-1.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    line = small_run.error(capsys, decoder.main, _argv({**flags, "output_dir": run}))
    assert "checkpoint must be readable" in line
    argv = {**flags, "output_dir": None, "checkpoint_path": run / "model.ckpt-1"}
    line = small_run.error(capsys, decoder.main, _argv(argv))
    assert "A checkpoint must be readable" in line
    for file in run.glob("model.ckpt-1.*"):
        file.unlink()
    line = small_run.error(capsys, decoder.main, _argv({**flags, "output_dir": run}))
    assert "checkpoint must be readable" in line
    (run / "checkpoint").write_text("")
    line = small_run.error(capsys, decoder.main, _argv({**flags, "output_dir": run}))
    assert "must name a checkpoint" in line


def test_decode_filename_matches_t2t():
    values = {"beam_size": 4, "alpha": 0.6}
    names = ("transformer", "transformer_base", "translate_ende_wmt32k")
    expected = "test.en.transformer.transformer_base.translate_ende_wmt32k.beam4.alpha0.6.decodes"
    assert decoder_setup.decode_filename("test.en", *names, values) == expected
    assert decoder_setup.decode_filename(expected, *names, values) == expected


def test_checkpoint_of_other_run_must_fit(runs, error):
    """Weights of another run fit by their shapes, but with another number of heads."""
    other = runs["other_heads"]
    line = error(checkpoint_path=other / "model.ckpt-1")
    assert f"{other}/hparams.json" in line and "num_heads=2 instead of 4" in line
