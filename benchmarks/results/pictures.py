"""Draws the pictures of docs/results.md and docs/depth.md: scores and validation curves."""

from drawing import BLUE, COLOURS, GREEN, INK, ORANGE, PALE, SOFT, Drawing

_LABEL, _AXIS, _ROW, _TOP = 350, 420, 24, 44  # sizes in pixels
# Dict from a mark to its (color, size). Larger marks are plotted first, so that no mark is hidden.
_MARKS = {"paper": (ORANGE, 15), "other": (GREEN, 13), "ut_keras": (BLUE, 9)}
_NAMES = {
    "paper": "paper",
    "other": "best other public result",
    "ut_keras": "ut_keras, one mark per seed",
}
# The size of a panel, the distance to the next panel, and the number of panels in a row.
_SIZE, _STEP, _COLUMNS = (170, 100), (244, 168), 4
_LEFT = 52


def overview(rows):
    """Draw the percentages of correct outputs of each row for the paper, others and ut_keras."""
    bottom = _TOP + len(rows) * _ROW
    drawing = Drawing(_LABEL + _AXIS + 40, bottom + 62, "Correct outputs: papers, others, ut_keras")
    for percent in range(0, 101, 20):
        x = _LABEL + percent / 100 * _AXIS
        drawing.line(x, _TOP - 6, x, bottom, False, PALE)
        drawing.text(x, _TOP - 14, str(percent), color=SOFT, size=11)
    title = "correct outputs in percent (bAbI: 100 − error)"
    drawing.text(_LABEL - 14, _TOP - 14, title, "end", SOFT, 11)
    for number, row in enumerate(rows):
        y = _TOP + (number + 0.5) * _ROW
        drawing.text(_LABEL - 14, y + 4, row.what, "end", size=12)
        drawing.line(_LABEL, y, _LABEL + _AXIS, y, False, PALE)
        for kind in _MARKS:
            for percent in row.points[kind]:
                _mark(drawing, kind, _LABEL + percent / 100 * _AXIS, y)
    for place, kind in enumerate(_MARKS):
        x, y = _LABEL - 190 + place * 200, bottom + 33
        _mark(drawing, kind, x, y)
        drawing.text(x + 14, y + 4, _NAMES[kind], "start", size=12)
    return drawing.finish()


def _mark(drawing, kind, x, y):
    colour, size = _MARKS[kind]
    drawing.box(x - size / 2, y - size / 2, size, size, colour, stroke=INK)


def curves(table, found):
    """Draw the validation scores by number of updates.

    There is one panel for each row of the table and one line for each seed. The return value is
    None if no run has a curve.
    """
    panels = {}
    for cell in table.cells:
        row, model = cell.name.split("/")
        for line in found.of(cell):
            if "curve" in line:
                panels.setdefault((row, cell.valid), []).append((model, line["curve"]))
    if not panels:
        return None
    models = dict.fromkeys(model for lines in panels.values() for model, _ in lines)
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(models)}
    depth = -(-len(panels) // _COLUMNS)
    width = _LEFT + max(min(len(panels), _COLUMNS) * _STEP[0], len(colours) * 112)
    title = f"{table.title}: validation by updates"
    drawing = Drawing(width, 50 + depth * _STEP[1], title)
    for place, ((row, metric), lines) in enumerate(panels.items()):
        left, top = _LEFT + place % _COLUMNS * _STEP[0], _TOP + place // _COLUMNS * _STEP[1]
        end = max(curve[-1][0] for _, curve in lines)
        values = [value for _, curve in lines for _, value in curve]
        low, high = min(values), max(values)
        ends = (0, 0.5, 1) if low >= 0 and high <= 1 else (low, max(high, low + 1))
        at = drawing.panel(left, top, _SIZE, f"{row}: {metric}", end, (0, end), ends)
        for model, curve in lines:
            drawing.curve([at(*point) for point in curve], colours[model])
    drawing.legend(_LEFT, 32 + depth * _STEP[1], colours)
    return drawing.finish()
