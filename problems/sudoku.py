"""Generated 6 x 6 sudoku puzzles, graded by the number of steps to solve them.

    inputs    ". 2 . 4 5 6 4 . 6 . . ."   36 cells row by row, "." is empty
    targets   "1 2 3 4 5 6 4 5 6 1 2 3"   the cells of the only solution

Each row, each column and each box of 2 x 3 cells contains 1 to 6. One step fills, at the same time,
all empty cells for which row, column and box allow only one number (naked singles). The depth of a
puzzle is the number of steps that fill all cells. Every puzzle can be solved in this way, so it has
only one solution and requires no guessing.

    problem       train   dev    test    steps
    sudoku6       1 to 4  5, 6   7, 8    deeper puzzles than in training
    sudoku6_iid   1 to 4  2 to 4 2 to 4  the same depths with other solutions

One in twenty solutions is reserved for validation and test. `accuracy` includes the cells that the
inputs contain, which only have to be copied. `accuracy_per_sequence` is the share of solved
puzzles. Sudoku as a test of depth comes from Wang et al. 2025 ("Hierarchical Reasoning Model"),
whose puzzles have 9 x 9 cells and require guessing. The size, the depths and the number of examples
are different here.
"""

import numpy as np

from ut_keras.problems import generated_classes, problem
from ut_keras.problems.problem import Encoders
from ut_keras.text import text_encoder

SIZE, BOX_HEIGHT, BOX_WIDTH = 6, 2, 3
EMPTY = "."
# The bit set of all numbers. A cell is a bit set of numbers, which is 0 if the cell is empty.
_ALL = (1 << SIZE) - 1


def _peers(cell):
    """Return the other cells in the row, column and box of a cell."""

    def row_column_box(cell):
        row, column = divmod(cell, SIZE)
        return row, column, (row // BOX_HEIGHT, column // BOX_WIDTH)

    return [
        other
        for other in range(SIZE * SIZE)
        if other != cell
        and any(a == b for a, b in zip(row_column_box(cell), row_column_box(other), strict=True))
    ]


_PEERS = [_peers(cell) for cell in range(SIZE * SIZE)]


@problem.register("sudoku6")
class Sudoku6(generated_classes.Generated):
    """A task whose test split has deeper puzzles than its train split."""

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
            solution = sample_solution(rng)
            targets = _text(solution)
            if generated_classes.is_held_out(targets) == (split != "train"):
                puzzle = dig(rng, solution, depth)
                if puzzle is not None:
                    return {"inputs": _text(puzzle), "targets": targets}


def sample_solution(rng: np.random.Generator) -> list[int]:
    """Sample a full grid, cell by cell, beginning with the most restricted cells."""
    cells = [0] * (SIZE * SIZE)
    _fill(cells, rng)
    return cells


def dig(rng: np.random.Generator, solution: list[int], depth: int) -> list[int] | None:
    """Empty cells of a solution in random order. Return a puzzle of a given depth.

    Args:
        rng: the random number generator.
        solution: list of 36 bit sets.
        depth: int, at least 1. Number of steps to solve the puzzle.

    Returns:
        list of 36 bit sets, 0 for empty cells, or None if no puzzle has this depth.
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
    """Return the number of steps in which naked singles fill all cells.

    If naked singles cannot fill all cells, the return value is None.
    """
    cells = list(cells)
    empty = [cell for cell, numbers in enumerate(cells) if not numbers]
    steps = 0
    while empty:
        candidates = {cell: _candidates(cells, cell) for cell in empty}
        singles = [cell for cell in empty if candidates[cell].bit_count() == 1]
        if not singles:
            return None
        for cell in singles:
            cells[cell] = candidates[cell]
        empty = [cell for cell in empty if not cells[cell]]
        steps += 1
    return steps


def _candidates(cells, cell):
    used = 0
    for other in _PEERS[cell]:
        used |= cells[other]
    return _ALL & ~used


def _fill(cells, rng):
    """Fill the empty cells in place, and return whether a solution exists."""
    candidates = {
        cell: _candidates(cells, cell) for cell, numbers in enumerate(cells) if not numbers
    }
    if not candidates:
        return True
    cell = min(candidates, key=lambda cell: candidates[cell].bit_count())
    numbers = [1 << n for n in range(SIZE) if candidates[cell] >> n & 1]
    for i in rng.permutation(len(numbers)):
        cells[cell] = numbers[i]
        if _fill(cells, rng):
            return True
    cells[cell] = 0
    return False


def _text(cells):
    return " ".join(str(numbers.bit_length()) if numbers else EMPTY for numbers in cells)


problem.declare("sudoku6_iid", Sudoku6, depths={"train": (1, 4), "dev": (2, 4), "test": (2, 4)})
