"""The model adds two numbers. Each position of its input is a column with one digit of each number,
and its output is the digit of the sum. Training uses numbers of 1 to 10 digits. The score is the
share of sums in which every digit is correct. With a halting rule, each column has its own number
of steps.

All models except `q_halt` learn the trained lengths. With 20 digits, most models predict most
digits correctly, but few complete sums. Only the data router predicts every sum correctly. After
five steps, 99.7 % of its sums of 20 digits are correct. The carry into a column depends on the
nearest column to its right whose digits do not add up to nine. The router's attention finds this
column at any distance.
"""

from results import depth
from results.definitions import Table

TABLE = Table(
    title="Addition",
    page="depth",
    cells=depth.cells(
        {"addition": "addition10"},
        mixed=True,
        updates=2_000,
        valid="2 to 10 digits (validation)",
        test="20 digits",
        metric="accuracy_per_sequence",
    ),
)
