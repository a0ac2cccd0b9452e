import json
import os
import re
import time

import numpy as np
import pytest
import tensorflow as tf

import trainer
import ut_keras
from tests.bin import decoder_problems, full_disk, small_run  # noqa: F401  this registers problems
from ut_keras import pretrained, problems
from ut_keras.bin import avg_checkpoints, datagen, exporter
from ut_keras.errors import DataError
from ut_keras.files import path_lock
from ut_keras.text import text_encoder

_NO_ONNX = "no tf2onnx and onnxruntime: pip install -e '.[onnx]'"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    small_run.write(folder, steps=(1, 2))
    return folder


def _error(capsys, *argv):
    return small_run.error(capsys, exporter.main, list(argv))


def _exports(folder):
    return sorted(os.listdir(folder), key=int)


def test_exporter_writes_safetensors_and_ctranslate2(run, tmp_path, capsys):
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/portable"]
    assert exporter.main([*argv, "--format=safetensors"]) == 0
    [name] = _exports(tmp_path / "portable")
    shown = capsys.readouterr().out
    assert f"Wrote {tmp_path}/portable/{name} (" in shown
    assert f'To load it: ut_keras.load("{tmp_path}/portable/{name}")' in shown
    loaded = ut_keras.load(tmp_path / "portable" / name)
    for ours, theirs in zip(
        ut_keras.load(run, problem=problems.get(small_run.PROBLEM)).model.weights,
        loaded.model.weights,
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("safetensors", "saved_model"):
        line = _error(capsys, *argv, f"--format={name}", "--export_quantize=int8")
        assert "--export_quantize" in line and "--format=litert or ctranslate2" in line
    capsys.readouterr()
    assert exporter.main([*argv, "--format=ctranslate2", "--export_quantize=int8"]) == 0
    shown = capsys.readouterr().out
    for option in ("max_input_length=0", "min_decoding_length=0", "max_decoding_length", "1,024"):
        assert option in shown
    assert "model.bin" in os.listdir(tmp_path / "portable" / _exports(tmp_path / "portable")[-1])


@pytest.mark.slow
def test_exporter_writes_a_numbered_saved_model(run, tmp_path, capsys):
    """Each export gets a new number, and gives the same outputs as the model of the run."""
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    argv += ["--decode_hparams=beam_size=2,alpha=0.5,extra_length=3"]
    assert exporter.main([*argv, f"--checkpoint_path={run}/model.ckpt-1"]) == 0
    assert exporter.main(argv) == 0
    shown = capsys.readouterr().out
    assert "\nWriting the format saved_model…" in shown
    assert "Weights: " in shown and "model.ckpt-1\n" in shown and "model.ckpt-2\n" in shown
    first, second = _exports(tmp_path / "served")
    assert f"served/{first} (" in shown and f"served/{second} (" in shown
    assert f'tf.saved_model.load("{tmp_path}/served/{second}").' in shown
    for folder in (tmp_path / "served", tmp_path / "served" / second):
        path = re.escape(f'{tmp_path}/served/{second}"')
        with pytest.raises(DataError, match=rf"tf.saved_model.load\(.{path}\)"):
            ut_keras.load(folder)
    from ut_keras.bin import command_line, decoder_setup, flags

    args = command_line.parse(
        flags.DECODER,
        [*argv[:2], f"--checkpoint_path={run}/model.ckpt-1"],
        "",
        "",
    )
    setup = decoder_setup.check_run(args)
    model, _ = setup.load_model()
    ids = [[*setup.encoders["inputs"].encode("0 1 1"), text_encoder.EOS]]
    wanted = model.generate({"inputs": ids}, beam_size=2, alpha=0.5, decode_length=3)
    serve = tf.saved_model.load(f"{tmp_path}/served/{first}").signatures["serving_default"]
    found = serve(inputs=tf.constant(["0 1 1"]))
    assert [text.decode() for text in found["outputs"][0].numpy()] == [
        setup.to_text("targets", row) for row in wanted.ids[0].numpy()
    ]
    assert found["scores"][0].numpy().tolist() == pytest.approx(wanted.scores[0].numpy().tolist())


@pytest.mark.slow
def test_exporter_writes_into_the_run_by_default(run, tmp_path):
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", "--problem", small_run.PROBLEM]
    assert exporter.main([*argv, "--decode_hparams=beam_size=1,max_input_size=3"]) == 0
    [number] = _exports(run / "export")
    serve = tf.saved_model.load(f"{run}/export/{number}").signatures["serving_default"]
    long, short = serve(tf.constant(["0 1 1 1 1"])), serve(tf.constant(["0 1"]))
    assert long["outputs"].numpy().tolist() == short["outputs"].numpy().tolist()


@pytest.fixture
def writes(monkeypatch):
    """Make exports write empty folders, and return the list of exported models."""
    from ut_keras import export

    models = []

    def write(model, encoders, directory, **options):
        os.mkdir(directory)
        models.append(model)

    monkeypatch.setattr(export, "export_saved_model", write)
    monkeypatch.setattr(time, "time", lambda: 1_000_000.5)
    return models


@pytest.mark.parametrize(
    "there, number",
    [
        ([], 1_000_000),
        (["999999", "notes"], 1_000_000),
        (["1000000"], 1_000_001),
        # The clock of the machine that wrote the existing export was ahead.
        (["2000000000", "7"], 2_000_000_001),
        (["0002000000"], 2_000_001),
        # Another process is still writing export 3000000.
        ([".3000000.ut_keras-8f3a0c1d"], 3_000_001),
    ],
)
def test_export_number_is_above_existing_ones(run, tmp_path, writes, there, number):
    for name in there:
        os.makedirs(tmp_path / "served" / name)
        (tmp_path / "served" / name / "file").touch()
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    assert exporter.main(argv) == 0
    assert sorted(os.listdir(tmp_path / "served")) == sorted([*there, str(number)])


def test_exporter_notes_prefix_of_training(run, tmp_path, writes, monkeypatch, capsys):
    problem = type(problems.get(small_run.PROBLEM))
    monkeypatch.setattr(problem, "text_prefix", lambda self, name: f"{name} ")
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    assert exporter.main(argv) == 0
    note = "adds 'inputs ' to each text of the inputs. As in T2T, the exported model does not add"
    assert note in capsys.readouterr().out


def test_export_of_a_fixed_depth_run_can_stop_early(tmp_path, writes):
    fixed = {"num_rec_steps": 3, "add_step_timing_signal": False}
    small_run.write(tmp_path, model="universal_transformer", **fixed)
    rule = "recurrence_type=act,act_type=convergence,act_max_steps=3,act_epsilon=0.999"
    argv = [f"--output_dir={tmp_path}", f"--data_dir={tmp_path}", f"--hparams={rule}"]
    assert exporter.main(argv) == 0
    features = {"inputs": [[2, 3, 1]], "targets": [[3, 2, 1]]}
    assert 1 <= writes[0].inspect(features).encoder.ponder_times.numpy().max() < 3


def test_exporter_removes_leftovers_of_killed_processes(run, tmp_path, writes):
    served = tmp_path / "served"
    alive, dead = ".5.ut_keras-8f3a0c1d", ".6.ut_keras-00000000"
    for name in (alive, dead):
        os.makedirs(served / name / "saved_model")
        path_lock.try_lock(str(served / name / "lock")).close()
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={served}"]
    with path_lock.try_lock(str(served / alive / "lock")):
        assert exporter.main(argv) == 0
    assert sorted(os.listdir(served)) == [alive, "1000000"]


@pytest.mark.slow  # a faster test calls this export without the command
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_exporter_writes_litert_model_and_vocabulary(run, tmp_path):
    """The folder of the export contains only the model and the vocabulary."""
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    argv += ["--format=litert", "--export_quantize=int8"]
    how = "beam_size=1,extra_length=3,max_input_size=9"
    assert exporter.main([*argv, f"--decode_hparams={how}"]) == 0
    [number] = _exports(tmp_path / "served")
    folder = tmp_path / "served" / number
    assert sorted(os.listdir(folder)) == ["features.json", "model.tflite"]
    generate = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner("generate")
    assert generate(inputs=np.zeros([1, 9], np.int32))["outputs"].shape == (1, 1, 12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_exporter_writes_litert_language_model(tmp_path):
    """By default, the decode hparams describe a beam search, which this file does not contain."""
    small_run.write(tmp_path, problem="decoder_test_language_model")
    argv = [f"--output_dir={tmp_path}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    how = "--decode_hparams=extra_length=5"
    assert exporter.main([*argv, "--format=litert", how]) == 0
    [number] = _exports(tmp_path / "served")
    lite = tf.lite.Interpreter(str(tmp_path / "served" / number / "model.tflite"))
    assert set(lite.get_signature_list()) == {"start", "step"}


@pytest.mark.slow
def test_exporter_writes_onnx_model_and_vocabulary(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason=_NO_ONNX)
    pytest.importorskip("tf2onnx", reason=_NO_ONNX)
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    how = "beam_size=1,extra_length=3,max_input_size=9"
    assert exporter.main([*argv, "--format=onnx", f"--decode_hparams={how}"]) == 0
    [number] = _exports(tmp_path / "served")
    folder = tmp_path / "served" / number
    assert sorted(os.listdir(folder)) == ["features.json", "model.onnx"]
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    outputs, _ = session.run(None, {"inputs": np.zeros([1, 9], np.int32)})
    assert outputs.shape == (1, 1, 12)


def test_exporter_rejects_search_that_onnx_lacks(run, tmp_path, capsys, monkeypatch):
    """The command reports these errors before TensorFlow loads the model.

    If a package is missing, the error names the extra of ut_keras that installs the package.
    """
    monkeypatch.setattr(exporter, "_export", None)
    monkeypatch.setattr(exporter.extras, "require", lambda *_: None)
    known = [f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served", "--format=onnx"]
    ours = [f"--output_dir={run}", *known]
    assert "--decode_hparams=beam_size=1. Received: 4, the default." in _error(capsys, *ours)
    greedy = "--decode_hparams=beam_size=1"
    line = _error(capsys, *ours, greedy)
    assert "--format=onnx requires the decode hparam max_input_size" in line
    line = _error(capsys, *ours, f"{greedy},max_input_size=9,sampling_temp=0.5")
    assert "sampling_temp=0. " in line and "Received: 0.5." in line
    line = _error(capsys, *ours, "--export_quantize=int8")
    assert "--export_quantize requires" in line and "Received: --format=onnx." in line
    small_run.write(tmp_path, problem="decoder_test_language_model")
    line = _error(capsys, f"--output_dir={tmp_path}", *known)
    assert "requires a model with inputs. Received: a language model." in line
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install -e '.[onnx]'" in _error(capsys, *ours, greedy)
    line = _error(capsys, *ours[:-1], "--format=ctranslate2")
    assert "pip install -e '.[ctranslate2]'" in line
    assert not os.path.exists(tmp_path / "served")


def test_user_errors_are_one_line(run, tmp_path, capsys):
    known = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    assert "--output_dir or --checkpoint_path" in _error(capsys)
    assert "--data_dir is required" in _error(capsys, f"--output_dir={run}")
    assert "must be one of float16, int8" in _error(capsys, *known, "--export_quantize=int4")
    line = _error(capsys, *known, "--format=pb")
    assert "saved_model, litert, onnx, safetensors, ctranslate2" in line
    line = _error(
        capsys, *known, "--format=ctranslate2", "--decode_hparams=beam_size=1,num_steps=0"
    )
    assert "exports no search; " in line and "Received: beam_size." in line
    assert "Unknown flag: '--score_file'" in _error(capsys, *known, "--score_file=x")
    assert "requires the decode hparam max_input_size" in _error(capsys, *known, "--format=litert")
    how = "--decode_hparams=beam_size=1,max_input_size=9,sampling_temp=1"
    line = _error(capsys, *known, "--format=litert", how)
    assert "Received: StatelessRandom" in line and not os.path.exists(tmp_path / "served")
    story = [f"--output_dir={pretrained.folder('babi_joint')}", f"--export_dir={tmp_path / 's'}"]
    line = _error(capsys, *story, "--decode_hparams=max_input_size=5")
    assert "not supported for stories" in line and "Received: 5." in line
    small_run.write(tmp_path, problem="decoder_test_language_model")
    how = "--decode_hparams=beam_size=2,extra_length=3,max_input_size=9"
    line = _error(capsys, f"--output_dir={tmp_path}", *known[1:], "--format=litert", how)
    assert "of a language model exports no search; " in line
    assert "Received: beam_size, max_input_size." in line
    assert "TF Hub" in _error(capsys, *known, "--export_as_tfhub")
    assert "saved_model.pb" in _error(capsys, *known, "--noas_text")
    assert "--train_steps is not supported" in _error(capsys, *known, "--train_steps=7")
    line = _error(capsys, *known, "--decode_hparams=return_beams=True")
    assert "return_beams is only supported by ut-decoder" in line
    line = _error(capsys, *known, "--xla_compile", "--format=onnx")
    assert "--xla_compile requires --format=saved_model" in line
    line = _error(capsys, *known, "--decode_hparams=beam_size=9")
    assert "beam_size must be at most" in line
    assert "--export_dir" in _error(capsys, *known, "--exportdir=x")
    assert "/proc" in _error(capsys, *known[:2], "--export_dir=/proc/none")
    (tmp_path / "file").touch()
    line = _error(capsys, *known[:2], f"--export_dir={tmp_path}/file")
    assert "--export_dir must be a folder" in line and f"{tmp_path}/file" in line
    assert not os.path.exists(tmp_path / "served")


def test_full_disk_leaves_no_export(run, tmp_path, capsys):
    argv = [f"--output_dir={run}", f"--data_dir={tmp_path}", f"--export_dir={tmp_path}/served"]
    with full_disk.full_disk(1000):
        line = _error(capsys, *argv, "--decode_hparams=beam_size=1")
    assert re.fullmatch(f"error: File too large: {tmp_path}/served/\\d+", line), line
    assert not os.path.exists(tmp_path / "served")


@pytest.mark.slow
def test_trainer_and_average_write_features_record(tmp_path, capsys):
    """The trainer and ut-avg-checkpoints write folders that ut_keras.load can read."""
    name, data, folder = small_run.PROBLEM, tmp_path / "data", tmp_path / "run"
    assert datagen.main([f"--problem={name}", f"--data_dir={data}", f"--tmp_dir={data}"]) == 0
    hparams = ",".join(f"{key}={value}" for key, value in small_run.SMALL.items())
    argv = [f"--problem={name}", "--model=transformer", "--hparams_set=transformer_tiny"]
    argv += [f"--hparams={hparams}", f"--data_dir={data}", f"--output_dir={folder}"]
    assert trainer.main([*argv, "--train_steps=2", "--eval_steps=1", "--schedule=train"]) == 0
    record = json.loads((folder / "features.json").read_text())
    assert record["features"]["inputs"]["encoder"]["class"] == "IntegerTextEncoder"
    argv = [f"--prefix={folder}/", "--num_last_checkpoints=1"]
    assert avg_checkpoints.main([*argv, f"--output_path={tmp_path}/mean/mean.ckpt"]) == 0
    capsys.readouterr()
    for output_dir in (folder, tmp_path / "mean"):
        assert len(ut_keras.load(str(output_dir)).translate(["0 1"], decode_length=2)) == 1
