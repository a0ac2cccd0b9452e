"""The same with 1,000 questions per task (900 after the validation questions are held out) and
10,000 updates per task. The recipe is that of all bAbI tables with dropout .3 and with positions
that start at a random number, as the paper does for its algorithmic tasks. Both changes were
chosen on the validation of tasks 9 and 14:

| Recipe | error on validation, task 9 | task 14 |
| --- | --- | --- |
| without both changes | 23 % | 12 % |
| with both | 9 % | 10 % |
| with dropout .5 | 28 % | 16 % |

The errors are far above the paper's. Most are in tasks that need two or three facts (2, 3), a
rule (16) or a path (19). Tasks 16, 17 and 19 have their best validation after 2,000 to 7,000
updates. Small initial weights did not help, and no other change helped on all tasks on which it
was tried.

The paper's own column is hard to explain. At four tasks, its means over ten seeds are lower with
1,000 questions than with 10,000: task 7 (0.0 and 0.3), 8 (0.1 and 0.3), 14 (0.1 and 1.8) and 15
(0.3 and 2.1). If one model is trained on all tasks, ut_keras has fewer errors than here (14.3),
while the paper has more (11.21 ± 6.62).
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
