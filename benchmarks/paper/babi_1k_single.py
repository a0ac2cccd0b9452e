"""The same, trained on each task's 1,000 questions (900 after validation's are held out). Here ours
are far from the paper's: tasks 5 to 7 are learned by heart within 2,000 updates. What was tried
against it is listed below; of that only smaller batches helped.
"""

from tables import Table, babi

TABLE = Table(
    title="bAbI, 1k, single task",
    cells=babi.single("1k", dict.fromkeys(range(1, 21), 10_000)),
    averages={
        "adaptive": "4.56 (3/20); 6.39 ± 3.22",
        "universal": "5.31 (5/20)",
        "transformer": "21.8 (5/20)",
    },
    raw=babi.RAW,
)
