"""End-to-end tests of ut-decoder, from lines of text to lines of text."""

import io
import json
import os
import shutil

import pytest
import tensorflow as tf

from tests.bin import small_run
from tests.bin.decoder_run import PROBLEM, lines_of, search
from ut_keras import models
from ut_keras.bin import decoder
from ut_keras.decoding import parallel_batch
from ut_keras.inference import decode_job, predictor, run_directory
from ut_keras.models import transformer

pytestmark = pytest.mark.usefixtures("one_model")
_TWO_BEAMS = "--decode_hparams=beam_size=2,extra_length=4"


def _two_beams(run, lines):
    """Return the better of two beams for each line."""
    options = {"beam_size": 2, "alpha": 0.6, "decode_length": 4}
    return [search(run.model, line, **options)[0][0] if line else "" for line in lines]


@pytest.mark.parametrize("together", [pytest.param(",batch_size=1", marks=pytest.mark.slow), ""])
def test_each_line_is_decoded_as_alone(run, source, tmp_path, capsys, together):
    path, lines = source
    target = tmp_path / "out"
    argv = [f"--decode_from_file={path}", f"--decode_to_file={target}"]
    run.decode(*argv, _TWO_BEAMS + together)
    expected = _two_beams(run, lines)
    assert lines_of(target) == expected
    assert len(set(expected)) > 10  # the lines have different outputs
    shown = capsys.readouterr().out
    assert "lines 4, 5, 21, 40: empty" in shown
    assert "Decoded 40 lines." in shown
    assert f"Weights: {run.folder}/model.ckpt-3" in shown
    assert sorted(os.listdir(tmp_path)) == ["out", "source"]


def test_parallel_parts_give_the_same_output(run, source, tmp_path, monkeypatch, capsys):
    path, lines = source
    asked = []

    def fixed_already(threads):
        asked.append(threads)
        raise RuntimeError("cannot be modified after initialization")

    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", fixed_already)
    expected = _two_beams(run, lines)
    monkeypatch.setattr(parallel_batch, "number_of_parts", lambda rows: min(3, rows))
    argv = [f"--decode_from_file={path}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, _TWO_BEAMS)
    assert lines_of(tmp_path / "out") == expected
    assert asked == [1]
    assert "note: TensorFlow is already running" in capsys.readouterr().out


def test_default_output_name_and_token_batches(run, equal_source):
    path, lines = equal_source
    run.decode(f"--decode_from_file={path}", "--decode_hparams=beam_size=2,extra_length=6,alpha=1")
    target = f"{path}.transformer.transformer_tiny.{PROBLEM}.beam2.alpha1.0.decodes"
    options = {"beam_size": 2, "alpha": 1.0, "decode_length": 6}
    expected = [search(run.model, line, **options)[0][0] if line else "" for line in lines]
    assert lines_of(path.parent / os.path.basename(target)) == expected
    assert len(set(expected)) == 3


def test_num_steps_requires_recurrence(run, source, tmp_path, capsys):
    where = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(run.argv(*where, "--decode_hparams=num_steps=4")) == 2
    assert "The decode hparam num_steps requires a model with recurrence" in capsys.readouterr().err


def test_return_beams_writes_all_beams(run, equal_source, tmp_path):
    path, lines = equal_source
    how = "beam_size=2,extra_length=3,return_beams=True"
    argv = [f"--decode_from_file={path}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, f"--decode_hparams={how}")
    beams = [search(run.model, line, beam_size=2, decode_length=3) for line in lines if line]
    found = [line for line in lines_of(tmp_path / "out") if line]
    assert found == ["\t".join(text for text, _ in row) for row in beams]


def test_decoding_traces_few_graphs(run, source, tmp_path, monkeypatch):
    monkeypatch.setattr(run_directory, "models", models)  # the command builds a new model
    shapes, traced = set(), []
    original = transformer.Transformer.encode
    call = predictor.Predictor.outputs

    def encode(self, *args, **kwargs):
        traced.append(1)
        return original(self, *args, **kwargs)

    def predict(self, rows, *args, **kwargs):
        shapes.add((len(rows), max(map(len, rows))))
        return call(self, rows, *args, **kwargs)

    monkeypatch.setattr(transformer.Transformer, "encode", encode)
    monkeypatch.setattr(predictor.Predictor, "outputs", predict)
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, "--decode_hparams=beam_size=1,batch_size=3,extra_length=2")
    assert len(shapes) >= 8
    assert 1 <= len(traced) <= 3


def test_out_of_memory_names_the_line(run, source, tmp_path, capsys, monkeypatch):
    def predict(self, rows, *args, **kwargs):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")

    monkeypatch.setattr(predictor.Predictor, "outputs", predict)
    lengths = [len(line.split()) + 1 if line else 0 for line in source[1]]
    argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}")
    line = small_run.error(capsys, decoder.main, argv)
    assert f"lines of up to {max(lengths)} tokens" in line
    assert f"number {lengths.index(max(lengths)) + 1}," in line and "out of memory" in line


def test_checkpoint_path_finds_the_run(run, source, tmp_path):
    """The decoder reads hparams, model and problem from the folder of the checkpoint."""
    expected = _two_beams(run, source[1])
    argv = [f"--data_dir={run.data_dir}", f"--decode_from_file={source[0]}", _TWO_BEAMS]
    for step, same in ((3, True), (1, False)):
        target = tmp_path / f"of_{step}"
        path = f"--checkpoint_path={run.folder}/model.ckpt-{step}"
        assert decoder.main([*argv, path, f"--decode_to_file={target}", "--keep_timestamp"]) == 0
        assert (lines_of(target) == expected) == same
        written = os.path.getmtime(f"{run.folder}/model.ckpt-{step}.index")
        assert os.path.getmtime(target) == written


def test_keep_timestamp_survives_removal_of_the_checkpoint(run, source, tmp_path, monkeypatch):
    folder, target, decode = tmp_path / "run", tmp_path / "out", decode_job.decode
    shutil.copytree(run.folder, folder)
    index = folder / "model.ckpt-3.index"
    os.utime(index, (1, 1))

    def decode_and_remove(setup, rows):
        found = decode(setup, rows)
        index.unlink()
        return found

    monkeypatch.setattr(decode_job, "decode", decode_and_remove)
    argv = [f"--data_dir={run.data_dir}", f"--decode_from_file={source[0]}", "--keep_timestamp"]
    argv += [f"--checkpoint_path={folder}/model.ckpt-3", f"--decode_to_file={target}", _TWO_BEAMS]
    assert decoder.main(argv) == 0
    assert os.path.getmtime(target) == 1


def test_decode_hparams_set_search_options(run, source, tmp_path):
    found = []
    for more in ("sampling_temp=2,seed=3", "sampling_temp=2,seed=3", "sampling_temp=2,seed=4"):
        found.append(_options(run, source, tmp_path, more))
    assert found[0] == found[1] != found[2]
    lengths = [
        len(line.split()) for line in _options(run, source, tmp_path, "min_length=6") if line
    ]
    # The output for the shortest line can have at most 6 tokens.
    assert len(lengths) == 36 and min(lengths) == 6
    # No token occurs twice in a line. The outputs contain only 0, 1 and, rarely, <pad>.
    lines = _options(run, source, tmp_path, "no_repeat_ngram_size=1")
    assert all(len(set(line.split())) == len(line.split()) for line in lines)


def _options(run, source, tmp_path, more):
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, f"--decode_hparams=beam_size=1,extra_length=4,batch_size=8,{more}")
    return lines_of(tmp_path / "out")


def test_interactive_mode_decodes_typed_lines(run, capsys, monkeypatch, tmp_path):
    (tmp_path / "typed").write_text(
        "0 1 1\n\nabc\ndl=1\n1 1 0\nns=2\ndl=x\nit=image\n1\nq\n0 0 0\n"
    )
    with open(tmp_path / "typed") as file:
        monkeypatch.setattr("sys.stdin", file)
        run.decode("--decode_interactive", "--decode_hparams=beam_size=1,extra_length=5")
    lines = capsys.readouterr().out.splitlines()
    lines = lines[lines.index("  q                   (quit)") + 1 :]
    assert "input, line 3 cannot be encoded" in lines[1] and "'abc'" in lines[1]
    assert "dl must be a number" in lines[3] and "type must be text" in lines[4]
    expected = [
        search(run.model, line, decode_length=extra)[0][0]
        for line, extra in (("0 1 1", 5), ("1 1 0", 1), ("1", 1), ("1", 1))
    ]
    assert [lines[0], *lines[2:3], *lines[5:]] == expected


def test_interactive_mode_prints_beams(run, capsys, monkeypatch, tmp_path):
    (tmp_path / "typed").write_text("0 1 1\n")
    with open(tmp_path / "typed") as file:
        monkeypatch.setattr("sys.stdin", file)
        run.decode("--decode_interactive", "--decode_hparams=beam_size=2,return_beams=True")
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert lines[0] == "BEAM 0:" and lines[2] == "BEAM 1:"
    text, score = search(run.model, "0 1 1", beam_size=2, decode_length=100)[0]
    assert lines[1].startswith(f'"{text}"\tScore:{score:.2f}')


def test_long_lines_are_reported_and_truncated(run, tmp_path, capsys, monkeypatch):
    long = " ".join("01" * 150)  # the maximum length in training is 256
    (tmp_path / "source").write_text(f"0 1\n{long}\n1\n")
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, "--decode_hparams=beam_size=1,extra_length=2")
    assert "line 2: longer than the 256 tokens" in capsys.readouterr().out
    [found] = search(run.model, long, decode_length=2)
    assert lines_of(tmp_path / "out")[1] == found[0]
    cut = "--decode_hparams=beam_size=1,extra_length=2,max_input_size=6"
    run.decode(*argv, cut)
    assert "line 2: truncated to max_input_size=6 tokens" in capsys.readouterr().out
    [found] = search(run.model, long[:9], decode_length=2)
    assert lines_of(tmp_path / "out")[1] == found[0]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{long}\n"))
    run.decode("--decode_interactive", cut)
    assert capsys.readouterr().out.splitlines()[-1] == found[0]


def test_decoder_rejects_unsupported_options_of_the_model(run, source, tmp_path, capsys):
    argv = run.argv(f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}")
    line = small_run.error(capsys, decoder.main, [*argv, "--decode_hparams=exit_threshold=0.5"])
    assert "The decode hparam exit_threshold requires a model with recurrence in depth" in line
    (tmp_path / "tagger").mkdir()
    (tmp_path / "pairs").write_text("0 1\t1 0\n")
    small_run.write(tmp_path / "tagger", model="transformer_encoder")
    argv = [f"--output_dir={tmp_path}/tagger", f"--data_dir={tmp_path}"]
    argv += [f"--score_file={tmp_path}/pairs", f"--decode_to_file={tmp_path}/out"]
    line = small_run.error(capsys, decoder.main, argv)
    assert "Received: a run with --model=transformer_encoder" in line


def test_empty_file_and_empty_lines_are_decoded(run, tmp_path):
    for content in ("", "\n\n"):
        (tmp_path / "source").write_text(content)
        argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
        run.decode(*argv)
        assert (tmp_path / "out").read_text() == content


def test_carriage_returns_inside_lines_are_noted(run, tmp_path, capsys):
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    for content, number in ((b"0 1\r\n1\r\n", 0), (b"0 1\r1 0\n1\n", 1)):
        (tmp_path / "source").write_bytes(content)
        run.decode(*argv, _TWO_BEAMS)
        assert len(lines_of(tmp_path / "out")) == 2
        printed = capsys.readouterr().out
        assert ("source: 1 line contains carriage returns" in printed) == bool(number)


def test_segments_of_sgm_files_are_noted(tmp_path, capsys):
    for content, number in (("a <seg id=1>b</seg>\n", 0), ("<seg id='1'>a</seg>\n" * 2, 2)):
        (tmp_path / "source").write_text(content)
        decoder._read_lines(str(tmp_path / "source"))
        printed = capsys.readouterr().out
        assert ("source: 2 lines are segments of an SGM file" in printed) == bool(number)


def test_decoder_reads_problem_and_model_from_the_run(run):
    """The other tests pass no --problem or --model, so run.json must contain both names."""
    record = json.loads((run.folder / "run.json").read_text())
    assert (record["problem"], record["model"]) == (PROBLEM, "transformer")


def test_lines_of_source_and_target_are_reported(run, tmp_path, capsys):
    (tmp_path / "source").write_text("0 1\t1 0\n1 1\t1 1\n")
    target = tmp_path / "out"
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={target}"]
    run.decode(*argv, _TWO_BEAMS)
    assert "source: 2 of 2 lines contain a TAB" in capsys.readouterr().out
    assert len(lines_of(target)) == 2
