"""Sudoku of 6 x 6 cells, by the number of steps that it takes to fill in what follows at once.

    inputs    ". 2 . 4 5 6 4 . 6 . . ."   row by row, and so on: 36 cells, "." is empty
    targets   "1 2 3 4 5 6 4 5 6 1 2 3"   the cells of the one solution

Each row, each column and each box of 2 x 3 cells holds 1 to 6. A step looks at all empty cells
together, and fills those for which row, column and box leave one number (a naked single). A puzzle
is as deep as the steps that fill all of it; so there is one solution, and nothing to guess.

    problem       train   dev    test    steps
    sudoku6       1 to 4  5, 6   7, 8    what training has, and deeper ones
    sudoku6_iid   1 to 4  2 to 4 2 to 4  solutions that training has not

Validation and test have solutions of their own, one in twenty. `accuracy` counts the given cells,
which only have to be copied; a puzzle is solved as `accuracy_per_sequence` has it. The size, the
depths and the number of examples are ours; sudoku as a test of depth is of Wang et al. 2025
("Hierarchical Reasoning Model"), whose puzzles are 9 x 9 and need guessing.
"""

import numpy as np

from ut_keras.problems import generated_classes, problem
from ut_keras.problems.problem import Encoders
from ut_keras.text import text_encoder

SIZE, BOX_HEIGHT, BOX_WIDTH = 6, 2, 3
EMPTY = "."
_ALL = (1 << SIZE) - 1  # a cell is a set of numbers, as bits; 0 if it is empty


def _peers(cell):
    """The cells of the same row, column or box."""

    def places(cell):
        row, column = divmod(cell, SIZE)
        return row, column, (row // BOX_HEIGHT, column // BOX_WIDTH)

    return [
        other
        for other in range(SIZE * SIZE)
        if other != cell and any(a == b for a, b in zip(places(cell), places(other), strict=True))
    ]


_PEERS = [_peers(cell) for cell in range(SIZE * SIZE)]


@problem.register("sudoku6")
class Sudoku6(generated_classes.Generated):
    """Tests deeper puzzles than it trains."""

    eval_metrics = ("accuracy_per_sequence", "accuracy", "neg_log_perplexity")
    paper = "Wang et al. 2025"
    sizes = {"train": 30_000, "dev": 1_000, "test": 1_000}
    depths = {"train": (1, 4), "dev": (5, 6), "test": (7, 8)}

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        numbers = [str(number) for number in range(1, SIZE + 1)]
        cells = text_encoder.TokenTextEncoder(tokens=[EMPTY, *numbers])
        return {"inputs": cells, "targets": cells}

    def sample(self, rng: np.random.Generator, split: str) -> dict[str, str]:
        depth = int(rng.integers(*self.depths[split], endpoint=True))
        while True:
            solution = draw_solution(rng)
            targets = _text(solution)
            if generated_classes.is_held_out(targets) == (split != "train"):
                puzzle = dig(rng, solution, depth)
                if puzzle is not None:
                    return {"inputs": _text(puzzle), "targets": targets}


def draw_solution(rng: np.random.Generator) -> list[int]:
    """Draws a full grid: cell by cell, those first that have the fewest numbers left."""
    cells = [0] * (SIZE * SIZE)
    _fill(cells, rng)
    return cells


def dig(rng: np.random.Generator, solution: list[int], depth: int) -> list[int] | None:
    """Empties cells of a solution, in random order, and draws one of the puzzles of that depth.

    Both are 36 bit sets, 0 where there is nothing. None if the depth, at least 1, was not met.
    """
    cells, found = list(solution), []
    for cell in rng.permutation(SIZE * SIZE):
        cells[cell] = 0
        steps = steps_to_solve(cells)
        if steps is None or steps > depth:
            cells[cell] = solution[cell]
        elif steps == depth:
            found.append(list(cells))
    return found[rng.integers(len(found))] if found else None


def steps_to_solve(cells: list[int]) -> int | None:
    """In how many steps naked singles fill all cells, lists of bit sets; None: they do not."""
    cells = list(cells)
    empty = [cell for cell, numbers in enumerate(cells) if not numbers]
    steps = 0
    while empty:
        left = {cell: _left_for(cells, cell) for cell in empty}
        singles = [cell for cell in empty if left[cell].bit_count() == 1]
        if not singles:
            return None
        for cell in singles:
            cells[cell] = left[cell]
        empty = [cell for cell in empty if not cells[cell]]
        steps += 1
    return steps


def _left_for(cells, cell):
    taken = 0
    for other in _PEERS[cell]:
        taken |= cells[other]
    return _ALL & ~taken


def _fill(cells, rng):
    """Fills the empty cells in place; whether there was a way."""
    left = {cell: _left_for(cells, cell) for cell, numbers in enumerate(cells) if not numbers}
    if not left:
        return True
    cell = min(left, key=lambda cell: left[cell].bit_count())
    numbers = [1 << n for n in range(SIZE) if left[cell] >> n & 1]
    for i in rng.permutation(len(numbers)):
        cells[cell] = numbers[i]
        if _fill(cells, rng):
            return True
    cells[cell] = 0
    return False


def _text(cells):
    return " ".join(str(numbers.bit_length()) if numbers else EMPTY for numbers in cells)


problem.declare("sudoku6_iid", Sudoku6, depths={"train": (1, 4), "dev": (2, 4), "test": (2, 4)})
