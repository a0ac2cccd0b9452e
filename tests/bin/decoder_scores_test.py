"""ut-decoder scores targets and beams as T2T does, and computes BLEU."""

import os
import types

import numpy as np
import pytest

from tests.bin.decoder_run import ENCODER, PROBLEM, lines_of
from ut_keras import problems
from ut_keras.bin import decoder, import_t2t
from ut_keras.inference import decode_job

pytestmark = pytest.mark.usefixtures("one_model")


def test_score_file_scores_given_targets(run, tmp_path, capsys):
    """As in T2T, the score of a target is the mean of -log p over its ids, including EOS."""
    pairs = [("0 1 1", "1 1 0"), ("1", "0 0 0 0 1"), ("0 0 1 0 1", ""), ("1 1", "1 1")] * 3
    (tmp_path / "pairs").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    files = f"--score_file={tmp_path / 'pairs'}", f"--decode_to_file={tmp_path / 'scores'}"
    run.decode(*files, "--decode_hparams=beam_size=2,min_length=3,return_beams=True")
    note = "note: min_length=3, return_beams=True: no effect, because --score_file does not search"
    shown = capsys.readouterr().out
    assert note in shown and "Scored 12 lines." in shown
    for line, (a, b) in zip(lines_of(tmp_path / "scores"), pairs, strict=True):
        features = {"inputs": [ENCODER.encode(a) + [1]], "targets": [ENCODER.encode(b) + [1]]}
        logits = run.model({k: np.array(v) for k, v in features.items()}).numpy()[0]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        given = zip(log_probs, features["targets"][0], strict=True)
        expected = -np.mean([row[i] for row, i in given])
        assert float(line) == pytest.approx(expected, rel=1e-4)
        assert len(line.partition(".")[2]) == 6


def test_score_does_not_count_padding(monkeypatch):
    """As in T2T, the mean excludes the id 0, which the text "<pad>" may give."""
    predictor = types.SimpleNamespace(scores=lambda rows, sources, **options: [-6.0])
    args = types.SimpleNamespace(xla_compile=False)
    setup = types.SimpleNamespace(values={"exit_threshold": 0.0}, args=args)
    monkeypatch.setattr(
        decode_job, "_in_batches", lambda *arguments: arguments[-1](predictor, 0, [0])
    )
    assert decode_job.score(setup, [[5, 0, 7, 1]]) == [["2.000000"]]


def test_decode_reference_prints_bleu(run, source, tmp_path, capsys):
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    how = "--decode_hparams=beam_size=1,extra_length=3"
    run.decode(*argv, how)
    os.rename(tmp_path / "out", tmp_path / "reference")
    capsys.readouterr()
    run.decode(*argv, how, f"--decode_reference={tmp_path / 'reference'}")
    shown = capsys.readouterr().out
    assert "sacreBLEU: BLEU_cased = 100.00  " in shown and "T2T: BLEU_cased = 100.00" in shown


def test_decode_reference_uses_language_of_the_problem(run, source, tmp_path, capsys):
    argv = [f"--decode_from_file={source[0]}", f"--decode_to_file={tmp_path / 'out'}"]
    with pytest.MonkeyPatch.context() as patched:
        kind = type(problems.get(PROBLEM))
        languages = {"inputs": "en", "targets": "zh"}
        patched.setattr(kind, "feature_languages", lambda self: languages)
        how = "--decode_hparams=beam_size=1,extra_length=3"
        run.decode(*argv, how, f"--decode_reference={source[0]}")
    assert "|tok:zh|" in capsys.readouterr().out


# (source, target, score). t2t-decoder --score_file computed the scores with the checkpoint in
# tests/testdata/t2t/ckpt/transformer.
T2T_SCORES = (
    ("1 1 0 1 1 1 1 1 0 1", "1 0 1 1 1 1 1 0 1", 1.049522),
    ("0 1 0 0 1 1", "1 1 0 0 1", 1.143023),
    ("1 1 1 0 0 0 1 1 1 1 1", "1 1", 1.540543),
    ("0 1 1 1 1 1", "1", 1.859651),
    ("0", "0", 1.767063),
)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Import a run that T2T trained, and return the flags that select this run."""
    folder = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t")
    output_dir = tmp_path_factory.mktemp("imported")
    data = f"--data_dir={folder}/data_dir"
    argv = [f"--t2t_output_dir={folder}/ckpt/transformer", data, f"--output_dir={output_dir}"]
    assert import_t2t.main(argv) == 0
    return [f"--output_dir={output_dir}", data]


def test_score_file_matches_t2t(imported, tmp_path):
    (tmp_path / "pairs").write_text("".join(f"{a}\t{b}\n" for a, b, _ in T2T_SCORES))
    argv = [f"--score_file={tmp_path / 'pairs'}", f"--decode_to_file={tmp_path / 'scores'}"]
    assert decoder.main([*imported, *argv]) == 0
    scores = [float(line) for line in lines_of(tmp_path / "scores")]
    assert scores == pytest.approx([score for _, _, score in T2T_SCORES], abs=2e-6)


def test_beams_match_t2t(imported, tmp_path):
    """ut-decoder writes the same beams as T2T, except that T2T fills empty beams with <pad>."""
    (tmp_path / "source").write_text("0 1 0 0 1 1 1\n1 0 1\n")
    how = "beam_size=4,alpha=0.6,extra_length=5,return_beams=True,write_beam_scores=True"
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main([*imported, *argv, f"--decode_hparams={how},batch_size=1"]) == 0
    assert lines_of(tmp_path / "out") == ["\t-2.85\t0\t-3.22\t1\t-3.39\t\t-10000000.00"] * 2
