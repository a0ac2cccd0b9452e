"""Sudoku of 6 x 6 cells, trained on puzzles that take 1 to 4 steps of filling in what follows at
once; share of puzzles all of whose cells are right. Each cell has its answer, and under a halting
rule its own number of steps. `fixed` stood still for 48 minutes of its time.
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
