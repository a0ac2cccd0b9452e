"""Draws the number of steps that the model `addition10` takes for each column of a sum.

python scripts/ponder_picture.py        writes docs/pictures/ponder_addition.svg
"""

import os
import sys

from drawing import BLUE, INK, ORANGE, SOFT, Drawing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PICTURE = os.path.join(ROOT, "docs", "pictures", "ponder_addition.svg")
RUN = "addition10"
# The carry of 8+5 passes four columns whose digits sum to nine.
SUM = "0+0 3+1 5+4 2+7 9+0 6+3 8+5 1+2 4+3"
TITLE = "Digits that wait for a carry take more steps"
AXIS = "ponder time: steps of each column"
TEXT, SMALL = 18, 16  # font sizes that are readable when the picture is 390 pixels wide
COLUMN, BOX, STEP = 48, 38, 22  # distance of columns, width and height of a step, in pixels
LEFT, TOP, RIGHT = 46, 84, 14


def observed():
    """Return the columns ("3+1"), their ponder times and the digits of the model's sum."""
    import ut_keras

    seen = ut_keras.load(RUN).observe(SUM, attention=False)
    labels, times = seen.ponder["encoder"]
    columns = SUM.split()
    if list(labels[: len(columns)]) != columns:
        raise ValueError(f"labels must begin with {columns}. Received: {labels}.")
    return columns, [int(time) for time in times[: len(columns)]], seen.outputs.split()


def draw(columns, times, digits):
    """Draw a stack of steps for each column, the numbers below the stack, and the carry."""
    most = max(times)
    base = TOP + most * STEP  # the lower end of the stacks
    width, height = LEFT + len(columns) * COLUMN + RIGHT, base + 178
    drawing = Drawing(width, height, f"{TITLE}: {' '.join(columns)}")
    drawing.text(width / 2, 30, TITLE, size=TEXT)
    drawing.text(14, 62, AXIS, "start", SOFT, SMALL)
    for step in range(1, most + 1):
        y = base - step * STEP + STEP / 2 + 5
        drawing.text(LEFT - 12, y, step, "end", SOFT, SMALL)
    waiting = _waiting(columns)
    for place, (column, time, digit) in enumerate(zip(columns, times, digits, strict=True)):
        middle = LEFT + (place + 0.5) * COLUMN
        for step in range(1, time + 1):
            y = base - step * STEP + 2
            drawing.box(
                middle - BOX / 2, y, BOX, STEP - 4, ORANGE if place in waiting else BLUE, stroke=INK
            )
        first, second = column.split("+")
        for row, text in enumerate((first, second, digit)):
            drawing.text(middle, base + 78 + 28 * row + 8 * (row == 2), text, size=TEXT)
    _carry(drawing, waiting, base)
    drawing.text(LEFT - 12, base + 106, "+", "end", size=TEXT)
    drawing.text(LEFT - 12, base + 142, "=", "end", size=TEXT)
    drawing.line(LEFT, base + 118, width - RIGHT, base + 118, False, INK, 1.5)
    drawing.text(width / 2, base + 168, "columns of the sum", color=SOFT, size=SMALL)
    return drawing.finish()


def _waiting(columns):
    """Return the indices of the columns that the longest chain of carries reaches."""
    sums = [sum(map(int, column.split("+"))) for column in columns]
    chains = []
    for place in (place for place, total in enumerate(sums) if total > 9):
        end = place - 1
        while sums[end] == 9:
            end -= 1
        chains.append(range(end, place))
    return max(chains, key=len)


def _carry(drawing, waiting, base):
    """Draw an arrow from the column that produces the carry to the last column that it reaches."""
    right, left = LEFT + (waiting[-1] + 1.5) * COLUMN, LEFT + (waiting[0] + 0.5) * COLUMN
    drawing.line(right, base + 50, right, base + 36, False, INK, 1.5)
    drawing.line(right, base + 36, left, base + 36, False, INK, 1.5)
    drawing.line(left, base + 36, left, base + 54, True, INK, 1.5)
    drawing.text((left + right) / 2, base + 28, "carry", size=SMALL)


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    with open(PICTURE, "w", encoding="utf-8") as picture:
        picture.write(draw(*observed()))
