import subprocess
import sys

import numpy as np
import pytest

from ut_keras.errors import UsageError
from ut_keras.visualize.observer import DepthPosition, Map, Observation, PonderTimes
from ut_keras.visualize.step_lens import Steps

pytest.importorskip("matplotlib", reason="no matplotlib: pip install -e '.[plot]'")
from ut_keras.visualize import figures

FACTS = ["$Mary went.", "<b>\u4e2d $x$", "Where is Mary?"]


def _map(kind="encoder", queries=FACTS, keys=FACTS, depth_positions=((1, 1), (2, 1))):
    weights = np.random.default_rng(0).random([len(depth_positions), 3, len(queries), len(keys)])
    depth_positions = [DepthPosition(str(step), layer) for step, layer in depth_positions]
    return Map(kind, depth_positions, weights.astype("float32"), queries, keys)


def _seen(is_story=True, **maps):
    ponder = {"encoder": PonderTimes(FACTS, np.array([1.0, 4.0, 2.0], "float32"))}
    return Observation(maps or {"encoder": _map()}, ponder, "", "", is_story)


def _widths(axes):
    """Return the lengths of the bars as an array [head, key]."""
    return np.array([[bar.get_width() for bar in bars] for bars in axes.containers])


def test_attention_of_story_shows_bars_of_question():
    seen = _seen()
    figure = figures.attention(seen)
    assert [axes.get_title() for axes in figure.axes] == ["step 1", "step 2"]
    for place, axes in enumerate(figure.axes):
        np.testing.assert_allclose(_widths(axes), seen.maps["encoder"].weights[place, :, 2])
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == FACTS
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "head 1",
        "head 2",
        "head 3",
    ]
    assert figure.get_suptitle().endswith("of: Where is Mary?")


def test_attention_selects_step_and_head():
    seen = _seen()
    [axes] = figures.attention(seen, step=2, head=3, query=0).axes
    expected = seen.maps["encoder"].weights[1, 2, 0]
    np.testing.assert_allclose(_widths(axes), expected[np.newaxis])
    assert len(figures.attention(seen, step=2, head=3, style="heat").axes) == 2  # with a colour bar


def test_attention_of_sequence_shows_heat_maps():
    seen = _seen(is_story=False)
    figure = figures.attention(seen)
    titles = [axes.get_title() for axes in figure.axes[:-1]]
    assert titles == [f"step {step}, head {head}" for step in (1, 2) for head in (1, 2, 3)]
    image = figure.axes[4].images[0].get_array()
    np.testing.assert_array_equal(image, seen.maps["encoder"].weights[1, 1])


def test_attention_with_long_labels_leaves_space_for_bars():
    facts = ["The triangle is above the pink rectangle .", "Is it right of the blue square ?"]
    figure = figures.attention(_seen(encoder=_map(queries=facts, keys=facts)), style="heat")
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.axes[0].get_position().size
    assert width > 0.9 and height > 0.4


def test_attention_titles_name_layers_and_steps():
    titles = {}
    for name, depth_positions in {
        "layers": [(1, 1), (1, 2)],
        "both": [("before", 1), (1, 1), (1, 2)],
    }.items():
        figure = figures.attention(_seen(encoder=_map(depth_positions=depth_positions)))
        titles[name] = [axes.get_title() for axes in figure.axes]
    assert titles["layers"] == ["layer 1", "layer 2"]
    assert titles["both"] == ["before, layer 1", "step 1, layer 1", "step 1, layer 2"]


@pytest.mark.parametrize(
    "picked, message",
    [
        ({"kind": "memory"}, r"kind must be one of \('encoder',\). Received: 'memory'"),
        ({"step": 3}, "step=1 layer=1, step=2 layer=1. Received: step=3"),
        ({"head": 0}, r"head must be in \[1, 3\]. Received: 0"),
        ({"query": 3}, r"query must be in \[-3, 3\). Received: 3"),
        ({"style": "pie"}, "style must be one of"),
    ],
)
def test_attention_rejects_missing_selection(picked, message):
    with pytest.raises(ValueError, match=message):
        figures.attention(_seen(), **picked)


def test_ponder_shows_bars_of_steps():
    [axes] = figures.ponder(_seen()).axes
    assert _widths(axes).tolist() == [[1.0, 4.0, 2.0]]
    assert axes.get_title() == "encoder: mean 2.33 steps"
    [axes] = figures.ponder(_seen(is_story=False)).axes
    assert [bar.get_height() for bar in axes.patches] == [1.0, 4.0, 2.0]
    with pytest.raises(ValueError, match=r'recurrence_type="act".* Received: None'):
        figures.ponder(_seen()._replace(ponder={}))
    with pytest.raises(ValueError, match="Received: 'decoder'"):
        figures.ponder(_seen(), "decoder")


def _with_steps(outputs=("d", "$e"), probabilities=((0.2, 0.9), (0.7, 0.8), (0.7, 0.95)), halts=1):
    """Return an observation of a decoder whose first position halts after `halts` steps."""
    values = np.array(probabilities)
    tokens = [[[f"{name}{step}", "other"] for name in outputs] for step in range(len(values))]
    top = np.stack([values, 0 * values], axis=-1).tolist()
    logits = np.log([[[value, 1 - value] for value in step] for step in values])
    running = np.ones(values.shape, bool)
    running[halts:, 0] = False
    found = Steps(
        "decoder",
        list(outputs),
        np.zeros([*values.shape, 4]),
        np.zeros(values.shape),
        running,
        1.0 - running,
        list(outputs),
        logits,
        tokens,
        top,
    )
    return _seen(is_story=False)._replace(steps={"decoder": found})


def test_steps_show_the_most_likely_tokens():
    seen = _with_steps()
    figure = figures.steps(seen)
    axes, _ = figure.axes  # The second item is the colour bar.
    np.testing.assert_array_equal(axes.images[0].get_array(), [[0.2, 0.9], [0.7, 0.8], [0.7, 0.95]])
    words = [text.get_text() for text in axes.texts]
    assert words == ["d0", "$e0", "d1", "$e1", "d2", "$e2"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["d", "$e"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["step 1", "step 2", "step 3"]
    [line] = axes.collections[-1].get_segments()  # Only the first position halts early.
    np.testing.assert_allclose(line, [[-0.5, 0.5], [0.5, 0.5]])


def test_steps_of_one_prediction_show_its_most_likely_values():
    seen = _with_steps(["prediction"], ((0.2,), (0.9,)))
    seen.steps["decoder"].top_tokens[:] = [[["no", "yes"]], [["yes", "no"]]]
    axes, _ = figures.steps(seen).axes
    np.testing.assert_allclose(axes.images[0].get_array(), [[0.2, 0.8], [0.9, 0.1]])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["yes", "no"]
    assert [text.get_text() for text in axes.texts] == ["0.20", "0.80", "0.90", "0.10"]


def test_steps_of_long_sequences_have_limited_size():
    labels = [f"word{i}" for i in range(600)]
    figure = figures.steps(_with_steps(labels, np.full([3, 600], 0.5)))
    assert max(figure.get_size_inches()) <= 40 and not figure.axes[0].texts


def test_steps_rejects_observation_without_predictions():
    with pytest.raises(ValueError, match=r"stack must .*\(\). Received: None.*steps=True"):
        figures.steps(_seen())
    with pytest.raises(ValueError, match=r"\('decoder',\). Received: 'encoder'"):
        figures.steps(_with_steps(), "encoder")


def test_save_all_writes_png_files(tmp_path):
    """Labels may contain "$" and characters that the font lacks."""
    one = _map("memory", ["answer"], FACTS)
    paths = figures.save_all(_seen(encoder=_map(), memory=one), str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "attention_encoder_bars.png",
        "attention_encoder_step_1.png",
        "attention_encoder_step_2.png",
        "attention_memory_bars.png",
        "ponder_encoder.png",
    ]
    assert f"{tmp_path}/steps_decoder.png" in figures.save_all(_with_steps(), str(tmp_path))
    paths = figures.save_all(_seen(encoder=_map(), memory=one), str(tmp_path))
    assert not (tmp_path / "steps_decoder.png").exists()  # This file belonged to another example.
    for path in paths:
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"


def test_figures_of_long_sequences_have_limited_size(tmp_path):
    labels = [f"word{i}" for i in range(600)]
    seen = _seen(is_story=False, encoder=_map("encoder", labels, labels))
    figure = figures.attention(seen)
    assert max(figure.get_size_inches()) <= 40
    assert len(figure.axes[0].get_yticks()) <= 100


def test_figure_is_shown_once_in_notebook():
    figure = figures.attention(_seen())
    assert figure._repr_png_().startswith(b"\x89PNG")
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_save_all_keeps_files_of_other_programs(tmp_path):
    figures.save_all(_seen(), str(tmp_path))
    figures.check_only_own_files(str(tmp_path))
    (tmp_path / "ponder_mine.png").write_bytes(b"\x89PNG")
    with pytest.raises(UsageError, match="Received: '.*ponder_mine.png'. It was not changed"):
        figures.save_all(_seen(), str(tmp_path))
    (tmp_path / "ponder_mine.png").unlink()
    (tmp_path / "ponder_encoder.png").rename(tmp_path / "ponder_of_a_paper.png")
    figures.save_all(_seen(), str(tmp_path))
    assert (tmp_path / "ponder_of_a_paper.png").exists()


def test_imports_of_matplotlib_and_tensorflow_are_lazy():
    program = (
        "import sys; import ut_keras.bin.visualize;"
        "print([n for n in ('tensorflow', 'keras', 'matplotlib') if n in sys.modules]);"
        "import ut_keras.visualize.figures;"
        "print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "False"]
