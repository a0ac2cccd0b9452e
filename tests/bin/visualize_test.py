import os
import re
import shutil

import numpy as np
import pytest

from tests.bin import decoder_problems, small_run  # noqa: F401  registers
from tests.visualize import browser
from ut_keras import models, problems, visualize
from ut_keras.bin import visualize as command
from ut_keras.data.features import FeatureSpec
from ut_keras.problems import problem
from ut_keras.text import text_encoder

ADAPTIVE = {"recurrence_type": "act", "num_rec_steps": 3, "act_halting_bias_init": -2}
WORDS = ("moved", "Where", "is", "Mary", "John", "to", "the", "garden", "hallway", ".", "?")


@problem.register("visualize_test_stories")
class Stories(problem.Problem):
    """Stories as bAbI's, of up to 4 sentences of 5 words."""

    class_label_features = ("targets",)

    def feature_encoders(self, data_dir):
        encoder = text_encoder.TokenTextEncoder(tokens=WORDS)
        return {"inputs": encoder, "targets": encoder}

    def feature_specs(self, data_dir):
        specs = super().feature_specs(data_dir)
        size = specs["inputs"].vocab_size
        return {**specs, "inputs": FeatureSpec(size, "sentences", (4, 6))}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{kind: folder of a run}"""
    folders = {}
    for kind, options in {
        "reverse": {"model": "universal_transformer", **ADAPTIVE},
        "stories": {
            "problem": "visualize_test_stories",
            "model": "universal_transformer_encoder",
            **ADAPTIVE,
        },
        "language_model": {"problem": "decoder_test_language_model"},
        "digits": {"problem": "decoder_test_digits"},
    }.items():
        folders[kind] = tmp_path_factory.mktemp(kind)
        small_run.write(folders[kind], folders[kind], **options)
    return folders


def _argv(run, directory, **flags):
    flags = {"output_dir": run, "data_dir": run, "visualize_dir": directory, **flags}
    return [f"--{name}={value}" for name, value in flags.items() if value is not None]


@pytest.fixture
def see(tmp_path, monkeypatch, capsys):
    """Function from a command line to what it drew: an `Observation`."""

    def run(folder, **flags):
        seen = []
        write = visualize.write_observation

        def note(observation, *args):
            seen.append(observation)
            return write(observation, *args)

        monkeypatch.setattr(visualize, "write_observation", note)
        assert command.main(_argv(folder, tmp_path / "out", **flags)) == 0
        [observation] = seen
        return observation

    return run


def test_source_and_what_is_written(runs, see, tmp_path, capsys):
    seen = see(runs["reverse"], input="0 1 1", target="1 1 0")
    assert seen.maps["memory"].keys == ["0", "1", "1", "<EOS>"]
    assert seen.maps["memory"].queries == ["1", "1", "0", "<EOS>"]
    assert sorted(seen.ponder) == ["decoder", "encoder"]
    names = sorted(os.listdir(tmp_path / "out"))
    assert "index.html" in names
    out = capsys.readouterr().out
    assert "Output: 1 1 0" in out and f"Weights: {runs['reverse']}/model.ckpt-1" in out
    if visualize.has_matplotlib():
        assert {"attention_memory_step_1.png", "ponder_decoder.png"} <= set(names)
    shown = browser.show(tmp_path / "out" / "index.html", "kind=memory&step=1&head=2")
    assert shown.console == []
    weights = seen.maps["memory"].weights[0, 1]
    drawn = {name: float(value) for name, value in shown.hints() if "→" in name}
    assert drawn["<EOS> → <EOS>"] == pytest.approx(weights[-1, -1], abs=1e-4)


def test_story_is_split_into_sentences(runs, see):
    text = "Mary moved to the garden. John moved to the hallway | Where is Mary?"
    seen = see(runs["stories"], input=text)
    assert seen.is_story
    assert seen.maps["encoder"].keys == [
        "Mary moved to the garden .",
        "John moved to the hallway",
        "Where is Mary ?",
    ]


def test_story_stands_as_in_the_data():
    """As problems/babi_qa.py writes it: the story on top, the question last."""
    from ut_keras.bin import visualize

    encoder = text_encoder.TokenTextEncoder(tokens=WORDS)

    def texts(trims):
        rows = visualize._story("John is. Where is Mary?", encoder, (4, 5), trims)
        assert np.array(rows).shape == (2 if trims else 4, 5)
        return [encoder.decode([i for i in row if i]) for row in rows]

    assert texts(trims=False) == ["John is .", "", "", "Where is Mary ?"]
    assert texts(trims=True) == ["John is .", "Where is Mary ?"]


def test_language_model(runs, see):
    seen = see(runs["language_model"], target="ab é")
    assert seen.maps["decoder"].queries == ["a", "b", "<space>", "0xc3", "0xa9", "<EOS>"]
    seen = see(runs["language_model"], input="ab")
    assert seen.maps["decoder"].queries[:2] == ["a", "b"]


def test_example_of_a_split(runs, see, tmp_path):
    data_dir = tmp_path / "data"
    problems.get("decoder_test_digits").generate_data(str(data_dir), str(data_dir))
    seen = see(runs["digits"], data_dir=data_dir, example=3)
    written = seen.maps["decoder"].queries
    assert written == [*reversed(seen.maps["encoder"].keys[:-1]), "<EOS>"]


def test_without_matplotlib_the_page_is_written(runs, see, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(visualize, "has_matplotlib", lambda: False)
    see(runs["reverse"], input="0 1", target="1 0")
    assert os.listdir(tmp_path / "out") == ["index.html"]
    assert "note: the page only. Pictures need matplotlib" in capsys.readouterr().out


@pytest.mark.parametrize(
    "run, flags, message",
    [
        ("reverse", {}, "--input or --example must be given, one of the two"),
        ("reverse", {"input": "  "}, "--input or --example must be given"),
        ("reverse", {"input": "0", "example": 1}, "one of the two"),
        ("reverse", {"example": 1, "target": "0"}, "--target goes with --input"),
        ("reverse", {"input": "0 7"}, "--input, line 1 cannot be encoded.*Received: '0 7'"),
        ("reverse", {"input": "0", "target": "x"}, "--target, line 1 cannot be encoded"),
        ("reverse", {"input": "0 \udcff"}, "--input must be UTF-8"),
        ("reverse", {"input": "0", "visualize_dir": None}, "--visualize_dir must be given"),
        ("reverse", {"input": "0", "visualize_dir": "/etc/passwd"}, "must be a folder"),
        ("reverse", {"input": "0", "visualize_dir": "/proc/x"}, "/proc/x"),
        ("reverse", {"input": "0", "output_dir": "/nowhere"}, "folder of a run with a checkpoint"),
        ("reverse", {"input": "0", "model": "transformer"}, "is of a run of --model=universal"),
        ("reverse", {"example": 0, "eval_use_test_set": True}, "must have the split 'test'"),
        ("reverse", {"input": "0", "beam_size": 2}, "Unknown flag: '--beam_size'"),
        ("stories", {"input": "Mary . " * 5}, "at most 4 sentences.*Received: 5"),
        ("stories", {"input": "Mary " * 7}, "at most 6 words"),
        ("stories", {"input": "Mary walked."}, "sentences, line 1 cannot be encoded.*'walked'"),
        ("stories", {"input": "Mary?", "target": "the garden"}, "one class.*'the garden'"),
        ("language_model", {"example": 0}, "a prompt to continue, or --target, a whole text"),
        ("language_model", {"input": "a", "target": "b"}, "one of the two"),
    ],
)
def test_mistakes_are_told_before_a_model_is_made(
    runs, tmp_path, capsys, monkeypatch, run, flags, message
):
    def refuse(*args, **kwargs):
        raise AssertionError("a model was made")

    monkeypatch.setattr(models, "from_specs", refuse)
    line = small_run.error(capsys, command.main, _argv(runs[run], tmp_path / "out", **flags))
    assert re.search(message, line), line


def test_number_beyond_the_examples(runs, tmp_path, capsys):
    problems.get("decoder_test_digits").generate_data(str(tmp_path), str(tmp_path))
    argv = _argv(runs["digits"], tmp_path / "out", data_dir=tmp_path, example=999)
    line = small_run.error(capsys, command.main, argv)
    assert "--example must be below 20, the number of examples of the dev split" in line


def test_model_with_nothing_to_see(tmp_path, capsys, runs, monkeypatch):
    nothing = visualize.observe
    monkeypatch.setattr(
        visualize, "observe", lambda *args: nothing(*args)._replace(maps={}, ponder={})
    )
    argv = _argv(runs["reverse"], tmp_path / "out", input="0 1", target="1 0")
    assert "must have attention or ponder times" in small_run.error(capsys, command.main, argv)


@pytest.mark.slow
def test_real_story(shared_dir, tmp_path, see):
    """bAbI's own vocabulary and sizes, and an example of its test file."""
    folder = os.path.join(shared_dir, "data", "babi")
    name = "babi_qa_sentence_single_task1_1k"
    shutil.copy(os.path.join(folder, "tasks_1-20_v1-2.en.tar.gz"), tmp_path)
    problems.get(name).generate_data(str(tmp_path), str(tmp_path))
    model = "universal_transformer_encoder"
    run = tmp_path / "run"
    run.mkdir()
    small_run.write(run, tmp_path, problem=name, model=model, **ADAPTIVE)
    by_number = see(run, data_dir=tmp_path, example=0)
    assert by_number.inputs.endswith("| Where is John ?")
    by_text = see(run, data_dir=tmp_path, input=by_number.inputs)
    np.testing.assert_array_equal(
        by_text.maps["encoder"].weights, by_number.maps["encoder"].weights
    )
