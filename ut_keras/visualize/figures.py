"""Plot observations with matplotlib: attention, ponder times and steps.

attention(seen)             heat maps for all steps, layers and heads
attention(seen, query=-1)   bars: the attention of one position, as in the paper's figures 5-8
ponder(seen)                bars: the steps of each position, as in the paper's figure 3
steps(seen)                 grid: what the model would predict after each step
"""

import io
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

import matplotlib.figure
import numpy as np

from ut_keras.errors import UsageError
from ut_keras.files import file_error, whole_file

if TYPE_CHECKING:
    from ut_keras.visualize.observer import Observation

STYLES = ("bars", "heat")
_TITLES = {"encoder": "encoder", "decoder": "decoder", "memory": "decoder to encoder"}
COLOURS = matplotlib.colormaps["tab10"].colors
_PONDER_COLOUR = "tab:orange"
# The names of the files that `save_all` writes. Files with other names are never removed.
_FILE_NAME = re.compile(
    r"attention_[a-z]+_(bars|step_([0-9]+|before|after))\.png|(ponder|steps)_[a-z]+\.png"
)
_MAX_LABEL_LENGTH = 40  # characters
_MAX_LABELS = 100  # labels on one axis
_MAX_WORDS = 60  # columns of a grid with words in its cells
_MAX_CLASSES = 8  # columns of a grid for one class
_MAX_INCHES = 40.0  # inches
_SOFTWARE = "ut_keras"  # this entry in the metadata marks the files of `save_all`


class Figure(matplotlib.figure.Figure):
    """A matplotlib figure that a notebook displays without pyplot."""

    def _repr_png_(self):
        file = io.BytesIO()
        _save(self, file)
        return file.getvalue()


def attention(
    seen: "Observation",
    kind: str | None = None,
    step: int | str | None = None,
    layer: int | None = None,
    head: int | None = None,
    query: int | None = None,
    style: str | None = None,
) -> "Figure":  # one argument per selection
    """Plot attention weights.

    Args:
        seen: `Observation`.
        kind: "encoder" or "decoder" for self-attention, "memory" for attention of the decoder to
            the encoder. Default: the first available one.
        step: int from 1, or "before" or "after" (the recurrence). Default: all.
        layer, head: int from 1. Default: all.
        query: int. The index of the query position, without padding; -1 is the last position. If
            bars are plotted, the default is the last position, which in a story is the question.
        style: "bars" or "heat". Default: bars if `query` is given, if the source is a story, or if
            there is only one query position; otherwise heat maps.

    Returns:
        `Figure`.

    Raises:
        ValueError: if the observation does not contain the selected attention.
    """
    found = _pick_map(seen, kind)
    depths = _pick_depths(found, step, layer)
    heads = _pick_heads(found, head)
    if style is None:
        of_story = seen.is_story and found.kind != "decoder"
        bars = query is not None or of_story or len(found.queries) == 1
        style = "bars" if bars else "heat"
    if style not in STYLES:
        raise ValueError(f"style must be one of {STYLES}. Received: {style!r}.")
    if style == "heat":
        return _heat_maps(found, depths, heads)
    count, query = len(found.queries), -1 if query is None else query
    if not -count <= query < count:
        raise ValueError(f"query must be in [{-count}, {count}). Received: {query}.")
    return _bars(found, depths, heads, query)


def ponder(seen: "Observation", stack: str | None = None) -> "Figure":
    """Plot how many steps each position took.

    Args:
        seen: `Observation`.
        stack: "encoder" or "decoder". Default: the first one with ponder times.

    Returns:
        `Figure`.

    Raises:
        ValueError: if the stack has no ponder times.
    """
    if stack is None and seen.ponder:
        stack = next(iter(seen.ponder))
    if stack not in seen.ponder:
        raise ValueError(
            'Ponder times require an adaptive model (recurrence_type="act"), and stack must be '
            f"one of {tuple(seen.ponder)}. Received: {stack!r}."
        )
    labels, times = seen.ponder[stack]
    positions, size = np.arange(len(labels)), 0.26 * len(labels)
    if seen.is_story and stack == "encoder":  # the labels are sentences
        figure = Figure(figsize=(8.0, _inches(size + 1)), layout="constrained")
        axes = figure.subplots()
        axes.barh(positions, times, color=_PONDER_COLOUR)
        _label_axis(axes.yaxis, labels)
        axes.invert_yaxis()
        steps: Any = axes.xaxis
    else:
        figure = Figure(figsize=(_inches(size + 1.5), 3.5), layout="constrained")
        axes = figure.subplots()
        axes.bar(positions, times, color=_PONDER_COLOUR)
        _label_axis(axes.xaxis, labels, rotation=90)
        steps = axes.yaxis
    steps.set_label_text("ponder time (steps)")
    steps.get_major_locator().set_params(integer=True)
    axes.set_title(f"{stack}: mean {times.mean() if len(times) else 0:.2f} steps")
    return figure


def steps(seen: "Observation", stack: str | None = None) -> "Figure":
    """Plot what the model would predict if it stopped after each step.

    A row is a step, and a column is a position. A cell shows the most likely token, and its colour
    shows the probability of this token. A line below a cell marks the step at which the position
    halts. For a single prediction, such as a class, the columns are its most likely values, and a
    cell shows the probability of a value.

    Args:
        seen: `Observation`.
        stack: "encoder" or "decoder". Default: the stack that predicts.

    Returns:
        `Figure`.

    Raises:
        ValueError: if the observation does not contain the predictions of this stack after each
            step.
    """
    predicts = [name for name, found in seen.steps.items() if found.outputs]
    stack = predicts[0] if stack is None and predicts else stack
    if stack not in predicts:
        raise ValueError(
            f"stack must be one of {tuple(predicts)}. Received: {stack!r}. Predictions after each "
            "step require a recurrence in depth and an observation with steps=True."
        )
    found = seen.steps[stack]
    if len(found.outputs) == 1:
        labels, values = found.likely_values(_MAX_CLASSES)
        words = [[f"{value:.2f}" for value in step] for step in values]
    else:
        labels, values = found.outputs, np.array(found.top_probabilities)[..., 0]
        words = [[tokens[0] for tokens in step] for step in found.top_tokens]
    words = [[_short(word) for word in step] for step in words]
    number, columns = values.shape
    has_words = columns <= _MAX_WORDS
    lengths = [len(word) for step in words for word in step]
    cell = 0.15 + 0.08 * max(2, *lengths) if has_words else 0.12  # inches
    height = 0.3 * number + 1.2 + _label_inches(labels)
    figure = Figure(
        figsize=(_inches(cell * columns + 2.5), max(2.0, _inches(height))), layout="constrained"
    )
    axes = figure.subplots()
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    if has_words:
        _write_words(axes, words, values)
    if found.halting_probability is not None and found.running.shape == values.shape:
        _mark_halting(axes, found.running)
    _label_axis(axes.xaxis, labels, rotation=90)
    _label_axis(axes.yaxis, [f"step {step + 1}" for step in range(number)])
    figure.colorbar(image, ax=axes, label="probability")
    axes.set_title(f"predictions after each step of the {stack}", fontsize=10)
    return figure


def save_all(seen: "Observation", directory: str) -> list[str]:
    """Write PNG files: heat maps, bars, ponder times and predictions.

    There is one heat map per step, and one picture of bars for all steps. Existing picture files of
    ut_keras that belong to another example are removed.

    Args:
        seen: `Observation`.
        directory: str. The output folder.

    Returns:
        list of str, the paths of the files.

    Raises:
        UsageError: as for `check_only_own_files`.
    """
    directory = file_error.checked_path(directory, "directory")
    check_only_own_files(directory)
    figures = {}
    for kind, found in seen.maps.items():
        if len(found.queries) > 1:
            for step in dict.fromkeys(depth.step for depth in found.depth_positions):
                name = f"attention_{kind}_step_{step}.png"
                figures[name] = attention(seen, kind, step=step, style="heat")
        if len(found.queries) == 1 or (seen.is_story and kind == "encoder"):
            figures[f"attention_{kind}_bars.png"] = attention(seen, kind, style="bars")
    for stack in seen.ponder:
        figures[f"ponder_{stack}.png"] = ponder(seen, stack)
    for stack, found in seen.steps.items():
        if found.outputs and len(found.states):
            figures[f"steps_{stack}.png"] = steps(seen, stack)
    for name, figure in figures.items():
        with whole_file.writing(os.path.join(directory, name), binary=True) as file:
            _save(figure, file)
    written = [os.path.join(directory, name) for name in figures]
    for path in set(_pictures(directory)).difference(written):
        os.remove(path)
    return written


def check_only_own_files(directory: str) -> None:
    """Check that no file of another program has a name that `save_all` uses.

    Raises:
        UsageError: if there is such a file. The message names the first such file.
    """
    for path in _pictures(file_error.checked_path(directory, "directory")):
        file_error.check_is_file(path)
        if not _is_own_file(path):
            raise UsageError(
                "The picture files in the output folder must be files of ut-visualize. "
                f"Received: {path!r}. It was not changed."
            )


def _pictures(directory):
    return [os.path.join(directory, n) for n in os.listdir(directory) if _FILE_NAME.fullmatch(n)]


def _is_own_file(path):
    with file_error.named(path), open(path, "rb") as file:
        return _SOFTWARE.encode() in file.read(1000)


def _save(figure, file):
    with warnings.catch_warnings():
        # Characters that the font lacks are shown as boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(file, format="png", dpi=100, metadata={"Software": _SOFTWARE})


# Selection.


def _pick_map(seen, kind):
    if not seen.maps:
        raise ValueError("The model must have attention weights to plot. Received: none.")
    kind = next(iter(seen.maps)) if kind is None else kind
    if kind not in seen.maps:
        raise ValueError(f"kind must be one of {tuple(seen.maps)}. Received: {kind!r}.")
    return seen.maps[kind]


def _pick_depths(found, step, layer):
    """Return the indices of the selected depth positions."""
    picked = [
        number
        for number, depth in enumerate(found.depth_positions)
        if step in (None, depth.step) or str(step) == depth.step
        if layer in (None, depth.layer)
    ]
    if not picked:
        available = ", ".join(f"step={step} layer={layer}" for step, layer in found.depth_positions)
        raise ValueError(
            f"step and layer must be one of: {available}. Received: step={step!r}, layer={layer!r}."
        )
    return picked


def _pick_heads(found, head):
    count = found.weights.shape[1]
    if head is None:
        return range(count)
    if not 1 <= head <= count:
        raise ValueError(f"head must be in [1, {count}]. Received: {head!r}.")
    return [head - 1]


def _depth_name(found, number):
    step, layer = found.depth_positions[number]
    steps, layers = (set(names) for names in zip(*found.depth_positions, strict=True))
    parts = [f"step {step}" if step.isdigit() else step] if len(steps) > 1 else []
    parts += [f"layer {layer}"] if len(layers) > 1 else []
    return ", ".join(parts) or "step 1"


# Plotting.


def _heat_maps(found, depths, heads):
    queries, keys = len(found.queries), len(found.keys)
    cell = max(0.06, min(0.24, 6.0 / max(1, keys)))  # inches
    width = _inches(max(cell * keys + 0.3, 1) * len(heads) + 1.5 + _label_inches(found.queries))
    height = _inches((cell * queries + 0.5) * len(depths) + 1.5 + _label_inches(found.keys))
    figure = Figure(figsize=(max(4, width), max(3, height)), layout="constrained")
    grid = figure.subplots(len(depths), len(heads), squeeze=False, sharex=True, sharey=True)
    for row, depth in zip(grid, depths, strict=True):
        for axes, head in zip(row, heads, strict=True):
            image = axes.imshow(
                found.weights[depth, head], cmap="Blues", vmin=0, vmax=1, aspect="auto"
            )
            axes.set_title(f"{_depth_name(found, depth)}, head {head + 1}", fontsize=8)
        _label_axis(row[0].yaxis, found.queries)
    for axes in grid[-1]:
        _label_axis(axes.xaxis, found.keys, rotation=90)
    figure.colorbar(image, ax=grid, shrink=min(1.0, 2.5 / max(3, height)), label="attention weight")
    figure.suptitle(f"{_TITLES[found.kind]} attention", fontsize=10)
    return figure


def _write_words(axes, words, values):
    """Write a word into each cell of a grid.

    Args:
        axes: the axes of the grid.
        words: list of lists of str, one list for each row.
        values: float [rows, columns]. A cell with a large value is dark.
    """
    for row, column in np.ndindex(values.shape):
        axes.text(
            column,
            row,
            words[row][column],
            ha="center",
            va="center",
            fontsize=8,
            color="white" if values[row, column] > 0.6 else "black",
            parse_math=False,
        )


def _mark_halting(axes, running):
    """Draw a line after the last step of each position that takes fewer than N steps.

    `running` is bool [N, S], True at the steps that a position takes.
    """
    bottom = running.sum(axis=0) - 0.5
    halted = np.flatnonzero(bottom < len(running) - 1)
    axes.hlines(bottom[halted], halted - 0.5, halted + 0.5, color=_PONDER_COLOUR, linewidth=2)


def _bars(found, depths, heads, query):
    """Return a figure with one panel per depth position and one bar per key and head."""
    keys = len(found.keys)
    thickness = 0.8 / len(heads)
    height = _inches(max(0.26, 0.07 * len(heads)) * keys + 1)
    figure = Figure(figsize=(_inches(2.6 * len(depths) + 4), height), layout="constrained")
    grid = figure.subplots(1, len(depths), squeeze=False, sharex=True, sharey=True)[0]
    for axes, depth in zip(grid, depths, strict=True):
        for number, head in enumerate(heads):
            offset = (number - (len(heads) - 1) / 2) * thickness
            axes.barh(
                np.arange(keys) + offset,
                found.weights[depth, head, query],
                thickness,
                color=COLOURS[head % len(COLOURS)],
                label=f"head {head + 1}",
            )
        axes.set_title(_depth_name(found, depth), fontsize=9)
        axes.set_xlim(0, 1)
    _label_axis(grid[0].yaxis, found.keys)
    grid[0].invert_yaxis()
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize=8)
    title = f"{_TITLES[found.kind]} attention of: {_short(found.queries[query])}"
    figure.suptitle(title, fontsize=10, parse_math=False)
    return figure


def _label_axis(axis, labels, rotation=0):
    every = -(-len(labels) // _MAX_LABELS) if labels else 1
    positions = range(0, len(labels), every)
    shown = [_short(labels[position]) for position in positions]
    # With `parse_math=False`, a "$" in a label does not begin a formula.
    axis.set_ticks(positions, shown, rotation=rotation, fontsize=8, parse_math=False)


def _label_inches(labels):
    """Return the width of the longest label in inches."""
    return 0.07 * max(map(len, map(_short, labels)), default=0)


def _short(label):
    return label if len(label) <= _MAX_LABEL_LENGTH else label[: _MAX_LABEL_LENGTH - 1] + "…"


def _inches(size):
    return min(size, _MAX_INCHES)
