"""Curves of several runs as one matplotlib figure: a panel for every metric, a line for every run.

figure = draw({"small": metrics_file.read_curves("runs/small"), "big": …}, ["loss", "accuracy"])
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ut_keras.visualize import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_COLUMNS = 3
_STYLES = ("-", "--", ":", "-.")


def draw(runs: Mapping[str, Any], metrics: Sequence[str]) -> "Figure":
    """Draws metrics over steps.

    Args:
        runs: dict from the name of a run to its curves, as `metrics_file.read_curves` gives them.
        metrics: list of str; where a run lacks one, its line is missing.
    Returns:
        `matplotlib.figure.Figure`.
    """
    columns = min(_MOST_COLUMNS, len(metrics))
    rows = math.ceil(len(metrics) / columns)
    figure = figures.Figure(figsize=(5.5 * columns, 3.6 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, metric in zip(panels, metrics, strict=False):
        names = []
        for number, (run, curves) in enumerate(runs.items()):
            colour = figures.COLOURS[number % len(figures.COLOURS)]
            names += _draw_run(axes, run, curves, metric, colour)
        axes.set_title(metric, parse_math=False)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        _add_legend(axes, names)
    for axes in panels[len(metrics) :]:
        axes.set_visible(False)
    return figure


def _draw_run(axes, run, curves, metric, colour):
    """Draws a line for every split; returns their names."""
    splits = sorted(split for split, name in curves if name == metric)
    several = len({split for split, _ in curves}) > 1
    for number, split in enumerate(splits):
        curve = curves[split, metric]
        style = _STYLES[number % len(_STYLES)]
        axes.plot(list(curve), list(curve.values()), style, marker=".", color=colour)
    return [f"{run} ({split})" if several else run for split in splits]


def _add_legend(axes, names):
    """Names as they are: a "$" begins no formula, a "_" hides nothing; bytes are escaped."""
    legend = axes.legend(axes.lines, ["name"] * len(names), fontsize=8)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name.encode("utf-8", "backslashreplace").decode("utf-8"))
