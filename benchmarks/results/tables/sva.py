"""This is the task of table 2 of the paper. The paper trains on 9 % of 1.6 million sentences, which
were unavailable. Other authors have published parts of the same data with their code:

- 5,000 sentences of a course at Edinburgh are for training (4,480) and validation (498). The other
  22 sentences are also in the test split, so they are not used.
- The test split has the 7,489 sentences of Gulordava et al. 2018 whose number of attractors is
  known. An attractor is a noun between the subject and the verb whose number (singular or plural)
  differs from the subject's.

The columns are those of the paper's table. A score is the share of sentences in which the right
form of the verb is more probable than the other form. As in Linzen et al. 2016, a sentence counts
only if the vocabulary contains both forms of its verb. No test sentence has five attractors, so
this column of the paper is missing. The test split has these sentences:

| Attractors | 0 | 1 | 2 | 3 | 4 | total |
| --- | --- | --- | --- | --- | --- | --- |
| sentences that count | 1,963 | 1,955 | 1,938 | 1,283 | 330 | 7,469 |
| share of plural verbs | 0.322 | 0.595 | 0.789 | 0.855 | 0.945 | 0.634 |

A model that always prefers the plural form would have the scores of the last row. A model that
always prefers the singular form would have one minus these scores. In the sentences for training
and validation, 67 % of the verbs are singular. The models have learned little more than this.

The recipe was fixed before the first run, and no other setting was tried. Other processes used the
core during the run of `transformer`, so it took longer.
"""

from results.definitions import Cell, Score, Table

MODELS = {
    "lstm": ("lstm_seq2seq", "lstm_text"),
    "transformer": ("transformer", "transformer_text"),
    "universal": ("universal_transformer", "universal_transformer_text"),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_text"),
}
_ACCURACY = "verb_ranking_accuracy"
_ATTRACTORS = range(5)  # the test split has no sentence with five attractors

TABLE = Table(
    title="Subject-verb agreement, a part",
    raw=("wiki-dev.txt", "wiki-test.txt", "subj_agr_filtered.*"),
    block="small",
    is_wide=True,
    cells=tuple(
        Cell(
            name=f"part/{name}",
            problem="small_sva_language_modeling",
            package="benchmarks/results/small_data",
            model=model,
            hparams_set=hparams_set,
            hparams="batch_size=1024,learning_rate_warmup_steps=50",
            updates=200,
            every=25,
            valid=_ACCURACY,
            scores=(
                *(
                    Score(f"{_ACCURACY}/attractors_{n}", name=f"{n} attractor{'s' * (n != 1)}")
                    for n in _ATTRACTORS
                ),
                Score(_ACCURACY, name="total"),
                Score(_ACCURACY, name="validation", split="valid"),
            ),
        )
        for name, (model, hparams_set) in MODELS.items()
    ),
)
