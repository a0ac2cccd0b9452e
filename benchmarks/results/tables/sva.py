"""This is the task of table 2 of the paper, with much less data. The paper trains on 9 % of 1.6
million sentences and reports 0.9920. These sentences were unavailable. Here 733 sentences are used
for training, 81 for validation and 7,334 for the test. They come from Linzen's data, and other
authors have published them with their code. Most of them have attractors. An attractor is a noun
between the subject and the verb whose number (singular or plural) differs from the subject's.
"""

import os

from results.definitions import Cell, Score, Table
from results.raw import find


def prepare(raw, tmp_dir):
    """Write the small table of sentences in the format of the large table."""
    from tests.problems import agreement_table
    from ut_keras.problems import agreement_files

    target = os.path.join(tmp_dir, agreement_files.TABLE.name)
    found = find(raw, "linzen_testset")
    if found and not os.path.exists(target):
        agreement_table.write_real(target, os.path.dirname(found[0]))


TABLE = Table(
    title="Subject-verb agreement",
    prepare=prepare,
    block="small",
    cells=(
        Cell(
            name="small data/adaptive",
            problem="sva_language_modeling",
            model="universal_transformer",
            hparams_set="adaptive_universal_transformer_text",
            updates=2_000,
            every=200,
            valid="verb_ranking_accuracy",
            scores=(Score("verb_ranking_accuracy"),),
        ),
    ),
)
