"""Sudoku with 6 x 6 cells. In each step of solving, all cells that follow directly are filled in.
Training has puzzles of 1 to 4 such steps. The score is the share of puzzles in which every cell
is correct. Each cell has an output of its own and, with a halting rule, its own number of steps.
The run of `fixed` was paused for 48 minutes of its time.
"""

from tables import Table, depth

TABLE = Table(
    title="Sudoku",
    page="depth",
    cells=depth.cells(
        {"sudoku": "sudoku6"},
        updates=10_000,
        valid="5 and 6 steps (validation)",
        test="7 and 8",
        metric="accuracy_per_sequence",
    ),
)
