"""One model for all tasks, trained on the 1,000 questions of each."""

from tables import Table
from tables import babi as paper_babi

TABLE = Table(
    title="bAbI, 1k, joint",
    cells=paper_babi.joint(
        "1k",
        updates=20_000,
        paper={
            "adaptive": ("7.85; 11.21 ± 6.62", "5"),
            "universal": ("8.50", "8"),
            "transformer": ("26.8", "14"),
        },
    ),
    raw=paper_babi.RAW,
)
