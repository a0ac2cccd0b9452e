"""Draws the picture of docs/depth.md: correct outputs by number of steps, from steps.jsonl.

python scripts/depth_curves.py        writes docs/pictures/depth_steps.svg
"""

import json
import os

from drawing import COLOURS, INK, SOFT, Drawing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCS = os.path.join(ROOT, "docs")
RESULTS = os.path.join(DOCS, "results", "steps.jsonl")
PICTURE = os.path.join(DOCS, "pictures", "depth_steps.svg")
PANELS = {
    "depth_parity": ("Parity of 20 digits", "accuracy"),
    "depth_addition": ("Sums of 20 digits", "accuracy_per_sequence"),
    "depth_ctl": ("9 and 10 functions in a row", "accuracy"),
}
TRAINED_STEPS = 14
NAMES = ("fixed", "act", "stick_breaking", "ponder_net", "q_halt", "random", "injected", "ndr")
WIDTH, HEIGHT, TOP, LEFT, GAP = 250, 200, 44, 46, 56


def draw():
    """Draw a panel for each task, and a line for each run.

    A mark shows the number of steps in training.
    """
    runs = _runs()
    total = LEFT + len(PANELS) * (WIDTH + GAP)
    heading = "Share of correct outputs by number of steps at inference"
    drawing = Drawing(total, TOP + HEIGHT + 84, heading)
    for number, (table, (title, _)) in enumerate(PANELS.items()):
        lines = {cell: curves for (of, cell), curves in runs.items() if of == table}
        _panel(drawing, LEFT + number * (WIDTH + GAP), title, lines)
    shown = {cell for _, cell in runs}
    colours = {name: colour for name, colour in _colours().items() if name in shown}
    drawing.legend(LEFT, TOP + HEIGHT + 62, colours)
    return drawing.finish()


def _runs():
    """Return {(table, set): list of {number of steps: share of correct outputs}}.

    Each list has one dict per seed.
    """
    with open(RESULTS, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    newest = {
        (line["table"], line["cell"].split("/")[1], line["seed"]): line["splits"]["test"]
        for line in lines
        if line["table"] in PANELS and not line["hparams"]
    }
    found = {}
    for (table, name, _), by_steps in sorted(newest.items()):
        metric = PANELS[table][1]
        curve = {int(count): values[metric] for count, values in by_steps.items()}
        found.setdefault((table, name), []).append(dict(sorted(curve.items())))
    return found


def _colours():
    return dict(zip(NAMES, COLOURS, strict=True))


def _panel(drawing, left, title, lines):
    longest = max(max(curve) for curves in lines.values() for curve in curves)
    x_ticks, y_ticks = range(0, longest + 1, 7), (0, 0.25, 0.5, 0.75, 1)
    at = drawing.panel(left, TOP, (WIDTH, HEIGHT), title, longest, x_ticks, y_ticks)
    x, y = at(TRAINED_STEPS, 1)
    drawing.line(x, y, x, TOP + HEIGHT, False, SOFT, 1, True)
    drawing.text(x, TOP - 5, "trained", color=SOFT, size=11)
    drawing.text(left + WIDTH / 2, TOP + HEIGHT + 36, "steps", color=INK, size=12)
    for name, colour in _colours().items():
        for curve in lines.get(name, []):
            drawing.curve([at(*point) for point in curve.items()], colour)


if __name__ == "__main__":
    with open(PICTURE, "w", encoding="utf-8") as picture:
        picture.write(draw())
