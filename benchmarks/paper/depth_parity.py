"""Whether the number of ones is odd, trained on 1 to 40 digits; share of right answers. Guessing is
right in half of the cases.
"""

import paper_depth
from paper_cells import Table

TABLE = Table(
    title="Parity",
    page="depth",
    cells=paper_depth.cells(
        {"parity": "parity40"},
        updates=3_000,
        valid="1 to 40 digits (validation)",
        test="80 digits",
    ),
)
