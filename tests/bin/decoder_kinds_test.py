"""Tests of ut-decoder with classifiers and language models."""

import numpy as np
import pytest
import tensorflow as tf

from tests.bin import decoder_problems
from tests.bin.decoder_run import Run, lines_of, write_source
from tests.training import toy
from ut_keras import problems
from ut_keras.decoding import batch_plan, parallel_batch
from ut_keras.decoding.options import Options
from ut_keras.inference import decode_hparams, text_model
from ut_keras.text.text_encoder import cut_at_eos

_GLOBAL = {
    "steps": (6,),
    "recurrence_type": "act",
    "act_type": "global",
    "act_halting_bias_init": -1.0,
}


@pytest.mark.parametrize(
    ("model", "parts", "options"),
    [
        pytest.param("transformer", 1, {}, marks=pytest.mark.slow),
        pytest.param("transformer", 3, {}, marks=pytest.mark.slow),
        ("universal_transformer_encoder", 3, {}),
        pytest.param("universal_transformer", 1, _GLOBAL, marks=pytest.mark.slow),
        pytest.param(
            "universal_transformer",
            1,
            {**_GLOBAL, "act_mask_padding": True},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_classifier_decodes_one_label_per_line(
    tmp_path, model, parts, options, monkeypatch, capsys
):
    """The label of a line is the same in ut-decoder, in an export and in evaluation.

    The other lines in the batch do not change the label. As in T2T, the name of the output file
    has the default number of beams, although a classifier does not search.
    """
    (tmp_path / "run").mkdir()
    options = {"problem": "decoder_test_classes", "model": model, "steps": (3,), **options}
    run = Run(tmp_path / "run", tmp_path, **options)
    rng = np.random.default_rng(5)
    words = decoder_problems.WORDS
    lines = [" ".join(rng.choice(words, size=rng.integers(1, 7))) for _ in range(10)]
    (tmp_path / "source").write_text("\n".join(lines))
    monkeypatch.setattr(parallel_batch, "number_of_parts", lambda rows: min(parts, rows))
    how = "--decode_hparams=min_length=3,seed=-1,num_samples=2"
    run.decode(f"--decode_from_file={tmp_path / 'source'}", how)
    output = f"source.{model}.transformer_tiny.decoder_test_classes.beam4.alpha0.6.decodes"
    shown = capsys.readouterr().out
    assert "note: num_samples=2 has no effect for a file" in shown
    assert "note: min_length=3: no effect, because the model predicts without a search" in shown
    encoders = problems.get("decoder_test_classes").feature_encoders(None)
    expected, scores = [], []
    for line in lines:
        ids = np.array([encoders["inputs"].encode(line) + [1]])
        logits = run.model({"inputs": ids, "targets": np.zeros([1, 1], int)})
        scores.append(np.max(tf.nn.log_softmax(logits)))
        expected.append(encoders["targets"].decode([int(np.argmax(logits))]))
    assert lines_of(tmp_path / output) == expected
    assert len(set(expected)) > 1
    found = text_model.TextModel(run.model, encoders).generate(tf.constant(lines), Options())
    assert [text.decode() for text in found.texts[:, 0].numpy()] == expected
    np.testing.assert_allclose(found.scores[:, 0], scores, rtol=1e-4, atol=1e-5)
    inputs = batch_plan.pad([encoders["inputs"].encode(line) + [1] for line in lines])
    targets = np.array([encoders["targets"].encode(label) for label in expected])
    batch = tf.data.Dataset.from_tensors(({"inputs": inputs, "targets": targets}, targets))
    evaluate = toy.free_decoder(run.model, decode_hparams.parse(""))
    assert evaluate(batch)[0]["decode/accuracy_per_sequence"] == 1


def test_language_model_continues_each_line(tmp_path):
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run", tmp_path, problem="decoder_test_language_model", steps=(3,))
    lines = ["ab", "abc", "", "x", "abd", "It is."]
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in lines))
    how = "--decode_hparams=beam_size=2,extra_length=6"
    argv = [f"--decode_from_file={tmp_path / 'source'}", f"--decode_to_file={tmp_path / 'out'}"]
    run.decode(*argv, how)
    encoder = problems.get("decoder_test_language_model").feature_encoders(None)["targets"]
    expected = []
    for line in lines:
        # Like T2T, the decoder adds a space after a punctuation mark at the end of a prompt.
        ids = encoder.encode("It is. " if line == "It is." else line)
        if line:
            found = run.model.generate({"inputs": [ids]}, beam_size=2, decode_length=6)
            text = encoder.decode(cut_at_eos(found.ids[0, 0].numpy()))
            expected.append(text.replace("\n", " ").replace("\r", " "))
        else:
            expected.append("")
    assert lines_of(tmp_path / "out") == expected
    assert all(expected[:2]) and expected[0] != expected[1]


@pytest.mark.slow
def test_exit_threshold_stops_a_fixed_depth_run_early(tmp_path):
    """The halting rule "convergence" has no weights, so it can stop any fixed-depth run early."""
    (tmp_path / "run").mkdir()
    fixed = {"num_rec_steps": 3, "pos": "timing", "add_step_timing_signal": False}
    run = Run(tmp_path / "run", tmp_path, model="universal_transformer", **fixed)
    path, _ = write_source(tmp_path / "source", shortest=1)
    found = {}
    for epsilon in (1e-6, 0.999):
        target = tmp_path / f"{epsilon}"
        hp = f"recurrence_type=act,act_type=convergence,act_max_steps=3,act_epsilon={epsilon}"
        run.decode(f"--decode_from_file={path}", f"--decode_to_file={target}", f"--hparams={hp}")
        found[epsilon] = lines_of(target)
    run.decode(f"--decode_from_file={path}", f"--decode_to_file={tmp_path / 'all'}")
    assert found[1e-6] == lines_of(tmp_path / "all")
    assert found[0.999] != found[1e-6]
