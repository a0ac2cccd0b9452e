"""Without --decode_from_file, ut-decoder decodes a split and writes inputs, targets and outputs."""

import os
import types

import numpy as np
import pytest

from tests.bin import decoder_problems  # noqa: F401  the import registers problems
from tests.bin.decoder_run import ENCODER, PROBLEM, Run, lines_of, search
from ut_keras import problems
from ut_keras.bin import datagen, decoder
from ut_keras.inference import decode_job

pytestmark = pytest.mark.usefixtures("one_model")
_WITHOUT_SCORES = {"write_beam_scores": False}


def test_split_is_written_to_files(run, tmp_path):
    how = (
        "beam_size=2,extra_length=2,num_samples=12,return_beams=True,write_beam_scores=True,"
        "batch_size=1"
    )
    run.decode(f"--decode_to_file={tmp_path / 'dev'}", f"--decode_hparams={how}")
    base = tmp_path / f"dev.transformer.transformer_tiny.{PROBLEM}.beam2.alpha0.6"
    inputs, targets, outputs = (
        lines_of(base.parent / f"{base.name}.{kind}") for kind in ("inputs", "targets", "decodes")
    )
    assert len(os.listdir(tmp_path)) == 3
    assert len(inputs) == len(targets) == len(outputs) == 24
    assert inputs[::2] == inputs[1::2]
    for source, target in zip(inputs, targets, strict=True):
        assert target.split() == source.split()[::-1]
    for number in (0, 5, 11):
        expected = search(run.model, inputs[2 * number], beam_size=2, decode_length=2)
        found = [line.split("\t") for line in outputs[2 * number : 2 * number + 2]]
        assert [text for text, _ in found] == [text for text, _ in expected]
        scores = [float(score) for _, score in found]
        np.testing.assert_allclose(scores, [score for _, score in expected], atol=0.006)
        assert all(len(score.partition(".")[2]) == 2 for _, score in found)
    from ut_keras.data import tfrecords

    [file] = tfrecords.find(str(run.data_dir), PROBLEM, "dev")
    first = next(iter(tfrecords.read(file)))
    assert ENCODER.decode(first["inputs"]) == inputs[0]  # the output has the order of the file


@pytest.mark.slow
def test_split_of_packed_examples_is_unpacked(tmp_path):
    name = "decoder_test_digits_packed"
    argv = [f"--problem={name}", f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}"]
    assert datagen.main(argv) == 0
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run", tmp_path, problem=name)
    run.decode(
        f"--decode_to_file={tmp_path / 'dev'}", "--decode_hparams=beam_size=1,extra_length=1"
    )
    base = f"dev.transformer.transformer_tiny.{name}.beam1.alpha0.6"
    inputs, targets = (lines_of(tmp_path / f"{base}.{kind}") for kind in ("inputs", "targets"))
    assert sorted(inputs) == [" ".join(str(number)) for number in range(10, 30)]
    assert targets == [line[::-1] for line in inputs]
    # The model of the packed problem also decodes lines of the unpacked problem.
    (tmp_path / "source").write_text("1 2\n")
    run.decode(
        "--problem=decoder_test_digits",
        f"--decode_from_file={tmp_path / 'source'}",
        "--decode_hparams=beam_size=1,extra_length=1",
    )


@pytest.mark.parametrize("return_beams", [True, False])
def test_output_with_tab_is_correct(capsys, return_beams):
    """With return_beams, a TAB separates the beams, so a TAB in a text becomes a space."""
    problem = types.SimpleNamespace(name="mine", score_decoded=lambda *texts: {})
    setup = types.SimpleNamespace(
        values={"return_beams": return_beams}, problem=problem, split="dev"
    )
    [line, *_] = decode_job._output_lines([("a\tb", -1.0)], {**setup.values, **_WITHOUT_SCORES})
    best = decode_job.best_text([line], setup.values)
    decoder._print_scores(setup, ["x"], ["a\tb"], [best])
    assert "accuracy_per_sequence=1 " in capsys.readouterr().out


class _Prefixed:
    """A problem that adds "in " to the inputs and "out " to the targets."""

    name = "mine"

    def text_prefix(self, name):
        return {"inputs": "in ", "targets": "out "}[name]


@pytest.mark.parametrize(("name", "prefix"), [("inputs", "in "), ("targets", "out ")])
def test_lines_without_prefix_of_package_print_note(capsys, name, prefix):
    setup = types.SimpleNamespace(problem=_Prefixed(), source="some.txt")
    decoder._print_missing_prefix(setup, {name: [f"{prefix}a", "", f" {prefix}b"]})
    assert not capsys.readouterr().out
    decoder._print_missing_prefix(setup, {name: [f"{prefix}a", "", "b", "c"]})
    shown = capsys.readouterr().out
    assert f"some.txt: data generation of mine adds '{prefix}' to each text of the {name}" in shown
    assert "2 lines do not begin with it" in shown


def test_missing_prefix_is_noted_for_scores_and_typed_lines(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(type(problems.get(PROBLEM)), "text_prefix", _Prefixed.text_prefix)
    (tmp_path / "pairs").write_text("1 0\t0 1\n1 1\t1 1\n")
    run.decode(f"--score_file={tmp_path / 'pairs'}", f"--decode_to_file={tmp_path / 'scores'}")
    shown = capsys.readouterr().out
    for name, prefix in (("inputs", "in "), ("targets", "out ")):
        note = f"adds '{prefix}' to each text of the {name}. 2 lines do not begin with it"
        assert note in shown
    (tmp_path / "typed").write_text("q\n")
    with open(tmp_path / "typed") as file:
        monkeypatch.setattr("sys.stdin", file)
        run.decode("--decode_interactive")
    assert "note: input: data generation of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("rte", "trained on several texts"),
        ("multi_nli_characters", "trained on several texts"),
        ("cola", ""),
        ("sentiment_imdb", ""),
        ("babi_qa_concat_task1_1k", "must be QUESTION <EOS> <EOQ> STORY"),
    ],
)
def test_note_on_lines_of_the_problem(capsys, name, note):
    problem = problems.get(name)
    setup = types.SimpleNamespace(problem=problem, source="some.txt")
    decoder._print_line_note(setup, ["Where is Mary ?"])
    shown = capsys.readouterr().out
    assert bool(shown) == bool(note) and note in shown
    right = ["Where is Mary ? <EOS> <EOQ> Mary went to the hallway .", " "]
    decoder._print_line_note(setup, right)
    assert bool(capsys.readouterr().out) == bool(note and "EOQ" not in note)
    t2t = types.SimpleNamespace(name="mine", t2t=types.SimpleNamespace(CONCAT_TOKEN="$"))
    decoder._print_line_note(types.SimpleNamespace(problem=t2t, source=None))
    assert "input: mine: the model was trained on several texts" in capsys.readouterr().out


def test_split_is_printed_without_a_file(run, capsys):
    run.decode("--decode_hparams=beam_size=1,extra_length=1,num_samples=3")
    shown = capsys.readouterr().out
    assert shown.count("INPUT: ") == shown.count("OUTPUT: ") == shown.count("TARGET: ") == 3
    assert f"{PROBLEM} dev: accuracy_per_sequence=" in shown and "num_samples=3" in shown


def test_split_files_keep_links_and_are_checked_first(run, tmp_path):
    """The decoder checks all output files before it decodes, and writes through symbolic links."""
    how = "--decode_hparams=beam_size=1,extra_length=1,num_samples=1"
    folder = tmp_path / "x.beam1.alpha0.6.decodes"
    folder.mkdir()
    run.decode(f"--decode_to_file={folder}/dev", how)
    assert os.listdir(tmp_path) == [folder.name] and len(os.listdir(folder)) == 3
    targets, inputs = (next(folder.glob(f"*.{kind}")) for kind in ("targets", "inputs"))
    written = inputs.read_text()
    (tmp_path / "behind").write_text("old")
    inputs.unlink()
    inputs.symlink_to(tmp_path / "behind")
    run.decode(f"--decode_to_file={folder}/dev", how)
    assert inputs.is_symlink() and inputs.read_text() == written
    targets.write_text("old")
    inputs.unlink()
    inputs.mkdir()
    assert decoder.main(run.argv(f"--decode_to_file={folder}/dev", how)) == 2
    assert targets.read_text() == "old"
