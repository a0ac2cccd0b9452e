import importlib.util
import os
import re
import shutil
import types

import pytest

from tests.bin import decoder_problems, small_run  # noqa: F401  the import registers problems
from ut_keras import models, problems
from ut_keras.bin import visualize as command
from ut_keras.data.features import FeatureSpec
from ut_keras.problems import problem
from ut_keras.text import text_encoder
from ut_keras.visualize import figures, observer

pytest.importorskip("matplotlib", reason="no matplotlib: pip install -e '.[plot]'")
ADAPTIVE = {
    "recurrence_type": "act",
    "num_rec_steps": 2,
    "act_max_steps": 2,
    "act_halting_bias_init": -2,
}
WORDS = ("moved", "Where", "is", "Mary", "John", "to", "the", "garden", "hallway", ".", "?")


@problem.register("visualize_test_stories")
class Stories(problem.Problem):
    """A problem with stories like in bAbI, which have up to 4 sentences of 5 words."""

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
    """Return {type of problem: folder of a run}."""
    folders = {}
    for kind, options in {
        "reverse": {"model": "universal_transformer", **ADAPTIVE},
        "stories": {
            "problem": "visualize_test_stories",
            "model": "universal_transformer_encoder",
            **ADAPTIVE,
        },
        "language_model": {"problem": "decoder_test_language_model"},
    }.items():
        folders[kind] = tmp_path_factory.mktemp(kind)
        small_run.write(folders[kind], folders[kind], **options)
    return folders


def _argv(run, directory, **flags):
    flags = {"output_dir": run, "data_dir": run, "visualize_dir": directory, **flags}
    return [f"--{name}={value}" for name, value in flags.items() if value is not None]


@pytest.fixture
def see(tmp_path, monkeypatch, capsys):
    """Return a function that runs the command and returns the plotted `Observation`."""

    def run(folder, **flags):
        seen = []
        write = figures.save_all

        def note(observation, *args):
            seen.append(observation)
            return write(observation, *args)

        monkeypatch.setattr(figures, "save_all", note)
        assert command.main(_argv(folder, tmp_path / "out", **flags)) == 0
        [observation] = seen
        return observation

    return run


def test_pictures_show_input_and_output(runs, see, tmp_path, capsys):
    seen = see(runs["reverse"], input="0 1 1")
    assert seen.maps["memory"].keys == ["0", "1", "1", "<EOS>"]
    assert sorted(seen.ponder) == ["decoder", "encoder"]
    names = set(os.listdir(tmp_path / "out"))
    assert {"attention_memory_step_1.png", "ponder_decoder.png"} <= names
    out = capsys.readouterr().out
    assert f"Output: {seen.outputs}\n" in out
    assert f"Weights: {runs['reverse']}/model.ckpt-1" in out


def test_steps_option_draws_the_steps(runs, see, tmp_path, capsys):
    seen = see(runs["reverse"], input="0 1 1", steps=True)
    assert len(seen.steps["decoder"].logits) == seen.ponder["decoder"].times.max()
    assert (tmp_path / "out" / "steps_decoder.png").exists()
    assert not see(runs["reverse"], input="0 1 1").steps
    assert not (tmp_path / "out" / "steps_decoder.png").exists()


def test_steps_of_model_without_recurrence_are_rejected(runs, tmp_path, capsys):
    argv = _argv(runs["language_model"], tmp_path / "out", input="a", steps=True)
    line = small_run.error(capsys, command.main, argv)
    assert re.search("--steps requires .*recurrence.* Received: transformer", line), line


def test_story_is_split_into_sentences(runs, see, tmp_path):
    seen = see(runs["stories"], input="Mary moved to the garden . | John moved | Where is Mary ?")
    assert seen.is_story
    assert seen.maps["encoder"].keys == [
        "Mary moved to the garden .",
        "John moved",
        "Where is Mary ?",
    ]
    (tmp_path / "out" / "mine.png").write_text("a file of the user's")
    assert see(runs["stories"], input="Where is Mary ?").maps["encoder"].keys == ["Where is Mary ?"]
    names = ["attention_encoder_bars.png", "mine.png", "ponder_encoder.png"]
    assert sorted(os.listdir(tmp_path / "out")) == names  # the pictures of the first story are gone
    assert see(runs["stories"], input="|").maps == {}  # an input without sentences has no steps


def test_language_model_is_visualized(runs, see):
    seen = see(runs["language_model"], input="a é")
    assert seen.maps["decoder"].queries[:4] == ["a", "<space>", "0xc3", "0xa9"]


def test_missing_matplotlib_is_one_line(runs, tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *of: find(name, *of) if name != "matplotlib" else None,
    )
    argv = _argv(runs["reverse"], tmp_path, input="0 1")
    assert "pip install -e '.[plot]'" in small_run.error(capsys, command.main, argv)


@pytest.mark.parametrize(
    "run, flags, message",
    [
        ("reverse", {}, "--input is required"),
        ("reverse", {"input": "  "}, "--input is required"),
        ("reverse", {"input": "0 7"}, "--input, line 1 .*Received: '7'. The line is '0 7'"),
        ("reverse", {"input": "0 \udcff"}, "--input, line 1 cannot be encoded"),
        ("reverse", {"input": "0", "visualize_dir": None}, "--visualize_dir is required"),
        ("reverse", {"input": "0", "visualize_dir": "/etc/passwd"}, "must be a folder"),
        ("reverse", {"input": "0", "visualize_dir": "/proc/x"}, "/proc/x"),
        ("reverse", {"input": "0", "output_dir": "/nowhere"}, "folder of a run with a checkpoint"),
        ("reverse", {"input": "0", "model": "transformer"}, "--model must be universal"),
        ("reverse", {"input": "0", "beam_size": 2}, "Unknown flag: '--beam_size'"),
        ("stories", {"input": "Mary is. | x"}, "--input, line 1 cannot be encoded.*'is.'"),
    ],
)
def test_user_errors_are_reported_before_the_model_is_built(
    runs, tmp_path, capsys, monkeypatch, run, flags, message
):
    def refuse(*args, **kwargs):
        raise AssertionError("a model was made")

    monkeypatch.setattr(models, "from_specs", refuse)
    line = small_run.error(capsys, command.main, _argv(runs[run], tmp_path / "out", **flags))
    assert re.search(message, line), line


def test_model_without_attention_is_rejected(tmp_path, capsys, runs, monkeypatch):
    nothing = types.SimpleNamespace(maps={}, ponder={}, steps={})
    monkeypatch.setattr(observer, "observe", lambda *args, **options: nothing)
    argv = _argv(runs["reverse"], tmp_path / "out", input="0 1")
    assert "requires a model with attention or ponder times" in small_run.error(
        capsys, command.main, argv
    )


@pytest.mark.slow
def test_babi_story_is_visualized(shared_dir, tmp_path, see):
    """The test uses the vocabulary and sizes of the bAbI data."""
    folder = os.path.join(shared_dir, "data", "babi")
    name = "babi_qa_sentence_single_task1_1k"
    shutil.copy(os.path.join(folder, "tasks_1-20_v1-2.en.tar.gz"), tmp_path)
    problems.get(name).generate_data(str(tmp_path), str(tmp_path))
    model = "universal_transformer_encoder"
    run = tmp_path / "run"
    run.mkdir()
    small_run.write(run, tmp_path, problem=name, model=model, **ADAPTIVE)
    story = "Mary moved to the bathroom . | John went to the hallway . | Where is Mary ?"
    seen = see(run, data_dir=tmp_path, input=story)
    assert seen.inputs == story and seen.is_story
