"""Draws the picture of docs/depth.md: right answers by steps, from docs/results/steps.jsonl.

python docs/pictures.py            writes it, with the others
"""

import json
import os

from drawing import INK, PALE, SOFT, Drawing

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results", "steps.jsonl")
PANELS = {
    "depth_parity": ("Parity of 20 digits", "accuracy"),
    "depth_addition": ("Sums of 20 digits", "accuracy_per_sequence"),
    "depth_ctl": ("9 and 10 functions in a row", "accuracy"),
}
TRAINED_STEPS = 14
COLOURS = {
    "fixed": "#263238",
    "act": "#1e88e5",
    "stick_breaking": "#43a047",
    "ponder_net": "#fb8c00",
    "q_halt": "#8e24aa",
    "random": "#6d4c41",
    "injected": "#00acc1",
    "ndr": "#e53935",
}
WIDTH, HEIGHT, TOP, LEFT, GAP = 250, 200, 44, 46, 56


def draw():
    """A panel for each task, a line for each run; the steps of training are marked."""
    runs = _runs()
    total = LEFT + len(PANELS) * (WIDTH + GAP)
    drawing = Drawing(total, TOP + HEIGHT + 84, "Share of right answers by steps at inference")
    for number, (table, (title, _)) in enumerate(PANELS.items()):
        lines = {cell: curves for (of, cell), curves in runs.items() if of == table}
        _panel(drawing, LEFT + number * (WIDTH + GAP), title, lines)
    shown = {cell for _, cell in runs}
    for place, name in enumerate(name for name in COLOURS if name in shown):
        x, y = LEFT + place * 112, TOP + HEIGHT + 62
        drawing.line(x, y, x + 16, y, False, COLOURS[name], 2.5)
        drawing.text(x + 21, y + 4, name, "start", size=11)
    return drawing.finish()


def _runs():
    """{(table, set): [{number of steps: share}]} of the test split, a dict for each seed."""
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


def _panel(drawing, left, title, lines):
    longest = max(max(curve) for curves in lines.values() for curve in curves)

    def at(steps, share):
        return left + steps / longest * WIDTH, TOP + (1 - share) * HEIGHT

    drawing.text(left, TOP - 18, title, "start")
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(0, share)
        drawing.line(x, y, x + WIDTH, y, False, PALE)
        drawing.text(x - 8, y + 4, f"{share:g}", "end", SOFT, 11)
    x, y = at(TRAINED_STEPS, 1)
    drawing.line(x, y, x, TOP + HEIGHT, False, SOFT, 1, True)
    drawing.text(x, TOP - 5, "trained", color=SOFT, size=11)
    for steps in range(0, longest + 1, 7):
        drawing.text(at(steps, 0)[0], TOP + HEIGHT + 18, str(steps), color=SOFT, size=11)
    drawing.text(left + WIDTH / 2, TOP + HEIGHT + 36, "steps", color=INK, size=12)
    for name, colour in COLOURS.items():
        for curve in lines.get(name, []):
            drawing.curve([at(*point) for point in curve.items()], colour)
