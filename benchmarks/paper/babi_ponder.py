"""Section 3.1: the mean ponder time, in steps, rises with the number of supporting facts: one in
task 1, two in task 2, three in task 3. The paper gives no numbers. These are the runs of the
table on 1k, where all three training files are to be had; the ponder time is that on the test
file. Its figure 3 is drawn, for a story of a split, by `ut-visualize` (see
[Pictures](visualize.md)).
"""

import dataclasses

from tables import Score, Table
from tables import babi as paper_babi


def _ponder(cell):
    return dataclasses.replace(cell, scores=(Score("ponder_time"),))


UPDATES = dict.fromkeys((1, 2, 3), 4_000)
TABLE = Table(
    title="bAbI, ponder time",
    cells=tuple(map(_ponder, paper_babi.single("1k", UPDATES, models=("adaptive",)))),
    raw=paper_babi.RAW,
)
