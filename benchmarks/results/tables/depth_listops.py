"""The task is ListOps (Nangia & Bowman 2018). An example is a nested list of digits in which each
list has an operation, such as the maximum or the median. The model predicts the value of the list.
In training, the lists are nested 1 to 5 levels deep. The score is the share of correct predictions.
`problems/listops.py` describes the splits. Csordás et al. 2022 use other splits. No model has
converged after 3,000 updates. The data router has learned most.
"""

from results import depth
from results.definitions import Table

TABLE = Table(
    title="Nested lists",
    page="depth",
    cells=depth.cells(
        {"listops": "listops"},
        mixed=True,
        updates=3_000,
        valid="6 deep (validation)",
        test="7 and 8 deep",
    ),
)
