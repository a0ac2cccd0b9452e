"""Dehghani et al. 2019, table 1 and appendix B: a model for each task, trained on its 10,000
questions (9,000 after every tenth story is held out for validation). Error in percent; the paper's
column has the best of ten seeds, then their mean and deviation.

Task 3 is missing: its training file was not at hand (1,925 of its 10,000 questions were). With the
official archive it is one more cell, `babi_qa_sentence_single_task3_10k_valid`. Of the 1,000 test
questions 741 of task 4 are, with their stories, in the training file too, 203 of task 20 and 152 of
17 (of any other 25 or fewer); that is so for everybody. Task 16 was tried and
stays at half (see [what was tried](#what-was-tried)): a mean without it is the better for it. Its
9,000 stories are learned by heart before it is found how they are answered; `permuted` (ours, and
in no mean) has 20 copies of each, with names, animals and colors exchanged among themselves. What
section 3.1 says, that the ponder time rises with the number of supporting facts, is hardly seen:
the eight tasks of one fact here take 2.9 steps on average, 2.0 to 3.5, the eight of two 3.2, 2.4 to
4.0 (four are the most), and the two seeds of task 13 are 0.8 apart; task 3 (three) is missing.
"""

from tables import Cell, Score, Table, babi

UPDATES = dict.fromkeys(range(1, 21), 10_000)
UPDATES |= dict.fromkeys((2, 5, 7, 8, 18, 19), 20_000) | dict.fromkeys((16, 17), 40_000)
TABLE = Table(
    title="bAbI, 10k, single task",
    cells=(
        *babi.single("10k", {task: n for task, n in UPDATES.items() if task != 3}),
        Cell(
            name="task16/permuted",
            problem="babi_qa_sentence_single_task16_10k_permuted_valid",
            model="universal_transformer_encoder",
            hparams_set="universal_transformer_babi_permuted",
            updates=20_000,
            every=1000,
            valid="mean_error",
            scores=(Score("mean_error", percent=True),),
        ),
    ),
    averages={
        "adaptive": "0.21 (0/20); 0.73 ± 0.89",
        "universal": "0.23 (0/20)",
        "transformer": "15.2 (10/20)",
    },
    raw=babi.RAW,
)
