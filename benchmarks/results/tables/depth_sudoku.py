"""The task is Sudoku with 6 x 6 cells. In one step of solving, a person fills in all cells whose
value follows directly from the cells that are already filled. Training has puzzles that need 1
to 4 such steps. The score is the share of puzzles in which every cell is correct. Each cell has
its own output. With a halting rule, each cell also has its own number of steps. The time of the
run `fixed` includes a pause of 48 minutes.
"""

from results import depth
from results.definitions import Table

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
