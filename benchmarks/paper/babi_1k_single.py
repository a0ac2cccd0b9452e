"""The same, trained on each task's 1,000 questions (900 after validation's are held out), by the
recipe of all bAbI tables, 10,000 updates a task. Ours are far from the paper's: seven tasks are
solved; of the others ten have their best validation after 1,000 to 7,000 updates, and are worse at
the end. Of what was tried against it, listed below, two things help task 10 (35 % of validation
wrong): positions counted from a random one (`position_start_index=random`, as the paper trains its
algorithmic tasks; 11 %) and dropout .3 in three places (16 %); task 7 (30 %) the first does not
(28 %). The table is without.
"""

from tables import Table, babi

TABLE = Table(
    title="bAbI, 1k, single task",
    cells=babi.single("1k", dict.fromkeys(range(1, 21), 10_000), sets="_1k"),
    averages={
        "adaptive": "4.56 (3/20); 6.39 ± 3.22",
        "universal": "5.31 (5/20)",
        "transformer": "21.8 (5/20)",
    },
    raw=babi.RAW,
)
