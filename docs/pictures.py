"""Draws the pictures of docs/how_it_works.md and docs/depth.md.

python docs/pictures.py            writes docs/pictures/*.svg
"""

import os

import depth_curves
from drawing import BLUE, GREEN, INK, PALE, SOFT, Drawing

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMN, ROW, CELL = 92, 62, (64, 34)

# Probabilities of halting, one list per position.
PROBABILITIES = {
    "The": [0.7, 0.6],
    "bank": [0.1, 0.2, 0.3, 0.6],
    "of": [0.995],
    "the": [0.5, 0.7],
    "river": [0.2, 0.4, 0.7],
}
EPSILON = 0.01


def recurrence():
    """The same block at every step, all positions at once."""
    words, steps = list(PROBABILITIES), 3
    left, bottom = 130, 60 + steps * 92
    drawing = Drawing(
        left + len(words) * COLUMN + 190, bottom + 60, "One block, applied again and again"
    )
    right = left + len(words) * COLUMN - (COLUMN - CELL[0])
    for n in range(steps + 1):
        y = bottom - n * 92
        drawing.text(20, y + 22, f"H{_small(n)}", "start")
        for column, word in enumerate(words):
            x = left + column * COLUMN
            drawing.box(x, y, *CELL, BLUE if n else PALE, "" if n else word)
            if n < steps:
                drawing.line(x + CELL[0] / 2, y, x + CELL[0] / 2, y - 14)
                drawing.line(x + CELL[0] / 2, y - 44, x + CELL[0] / 2, y - 57)
        if n < steps:
            drawing.box(left - 12, y - 44, right - left + 24, 29, GREEN, "Block", stroke=INK)
            drawing.text(20, y - 24, f"step {n + 1}", "start", SOFT)
            drawing.text(right + 28, y - 30, f"+ P{_small(n + 1)}, then", "start")
            drawing.text(right + 28, y - 13, "attention, transition", "start", SOFT)
    drawing.text(right + 28, bottom + 20, "embedded symbols", "start", SOFT)
    drawing.text(left - 12, bottom + 50, "position →", "start", SOFT)
    drawing.text(right + 28, 38, "the same weights", "start")
    drawing.text(right + 28, 54, "at every step", "start")
    return drawing.finish()


def halting():
    """Probabilities pile up to 1 - ε; what is missing is the remainder."""
    width, height, left, floor = 70, 190, 90, 250
    drawing = Drawing(left + len(PROBABILITIES) * 110 + 30, 330, "Each position halts by itself")
    scale = height
    for place, (word, probabilities) in enumerate(PROBABILITIES.items()):
        x, total = left + place * 110, 0.0
        weights = list(weights_of(probabilities))
        for n, weight in enumerate(weights):
            last = n == len(weights) - 1
            drawing.box(
                x,
                floor - (total + weight) * scale,
                width,
                weight * scale,
                "url(#hatch)" if last else BLUE,
                stroke=INK,
            )
            if weight > 0.09 and not last:
                y = floor - (total + weight / 2) * scale + 4.5
                drawing.text(x + width / 2, y, f"p{_up(n + 1)} = {weight:g}")
            total += weight
        remainder = weights[-1]
        drawing.text(x + width / 2, floor + 20, word)
        drawing.text(
            x + width / 2, floor + 40, f"N = {len(weights)}, R = {remainder:.2g}", size=11.5
        )
        drawing.text(
            x + width / 2, floor + 58, f"ponder {len(weights) + remainder:.3g}", color=SOFT, size=12
        )
    threshold = floor - (1 - EPSILON) * scale
    drawing.line(
        left - 20, threshold, left + len(PROBABILITIES) * 110 - 20, threshold, False, INK, 1.5, True
    )
    drawing.text(left - 26, threshold + 5, "1 − ε", "end")
    drawing.text(left - 26, floor + 4, "0", "end")
    drawing.box(left, 16, 18, 14, BLUE, stroke=INK)
    drawing.text(left + 26, 28, "p of a step after which it goes on", "start", size=12)
    drawing.box(left + 290, 16, 18, 14, "url(#hatch)", stroke=INK)
    drawing.text(left + 316, 28, "remainder R: what is left for its last step", "start", size=12)
    return drawing.finish()


def weights_of(probabilities):
    """w of each step of a position, from its p."""
    total = 0.0
    for p in probabilities:
        if total + p > 1 - EPSILON:
            yield 1 - total
            return
        total += p
        yield p
    raise ValueError(f"The position must halt. Received: {probabilities}.")


def halted_states():
    """What others see of a position that has halted, under T2T's way and the paper's."""
    words, steps = list(PROBABILITIES), 4
    cell, gap = (52, 26), 62
    drawing = Drawing(820, 260, "What a halted position is to others")
    for half, (title, lead) in enumerate(
        (("transform", "goes on being transformed"), ("copy", "stays as it is"))
    ):
        left = 90 + half * 390
        drawing.text(left - 6, 28, f'act_halted_state="{title}": {lead}', "start")
        for n in range(steps):
            y = 196 - n * 40
            if not half:
                drawing.text(20, y + 18, f"step {n + 1}", "start", SOFT)
            for column, word in enumerate(words):
                x = left + column * gap
                depth = len(PROBABILITIES[word])
                if n < depth:
                    drawing.box(x, y, *cell, BLUE, "halts" if n == depth - 1 else "", INK)
                elif half:
                    drawing.box(x, y, *cell, "#ffffff", "=", dashed=True)
                else:
                    drawing.box(x, y, *cell, PALE)
        for column, word in enumerate(words):
            drawing.text(left + column * gap + cell[0] / 2, 242, word, size=12)
    return drawing.finish()


def cache():
    """Two beams, their columns, and what the newest column attends to."""
    length, beams = 5, 2
    ancestors = [0, 0, 1, 1, 0]  # of the column that is being written
    drawing = Drawing(640, 250, "Columns of a cache and the ancestors of a beam")
    left, top = 150, 60
    for position in range(length):
        drawing.text(left + position * COLUMN + 32, top - 14, f"position {position}", color=SOFT)
        for beam in range(beams):
            x, y = left + position * COLUMN, top + beam * ROW
            newest = position == length - 1
            seen = ancestors[position] == beam
            fill = (GREEN if seen else "#ffffff") if newest else (BLUE if seen else PALE)
            label = f"c = {position * beams + beam}"
            drawing.box(x, y, *CELL, fill, label, INK if seen else SOFT, newest and not seen)
    for position in range(length - 1):
        x = left + position * COLUMN
        drawing.line(
            x + CELL[0] + 1,
            top + ancestors[position] * ROW + CELL[1] / 2 + 6,
            x + COLUMN - 2,
            top + ancestors[position + 1] * ROW + CELL[1] / 2 + 6,
        )
    for beam in range(beams):
        drawing.text(20, top + beam * ROW + 22, f"beam {beam}", "start")
    y = top + beams * ROW + 16
    drawing.box(left, y, 18, 14, GREEN, stroke=INK)
    drawing.text(left + 26, y + 12, "a column that is being written", "start", size=12)
    drawing.box(left + 230, y, 18, 14, BLUE, stroke=INK)
    drawing.text(left + 256, y + 12, "its ancestors: all that it attends to", "start", size=12)
    drawing.text(
        left, y + 40, f"ancestors = {ancestors}: the search moves numbers, not keys", "start"
    )
    return drawing.finish()


def _small(n):
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(n))


def _up(n):
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(n))


PICTURES = {
    "recurrence.svg": recurrence,
    "halting.svg": halting,
    "halted_states.svg": halted_states,
    "cache.svg": cache,
    "depth_steps.svg": depth_curves.draw,
}


def main():
    for name, draw in PICTURES.items():
        with open(os.path.join(HERE, "pictures", name), "w", encoding="utf-8") as file:
            file.write(draw())


if __name__ == "__main__":
    main()
