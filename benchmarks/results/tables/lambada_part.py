"""These are the columns of table 3 of the paper. The paper trains on 203 million words of novels,
which were unavailable. Here, nine tenths of the development passages (4,382) are used for training.

- The column "dev" is the last tenth of the development passages (487). The checkpoint of a run is
  chosen by this column. The columns "test" and "control" have every fifth passage of these sets
  (1,031 and 1,000).
- "Perplexity" and "accuracy" describe the last word of a passage. A model of the rows `lm` predicts
  every word of a passage from the words before it. A model of the rows `rc` (reading comprehension)
  predicts only the last word, as a class.
- The vocabulary has the 10,000 most frequent words of LAMBADA's vocabulary. The last word is
  outside the vocabulary in 27 % of the passages of "dev", 28 % of "test" and 8 % of "control". For
  these passages, the prediction counts as wrong, and the perplexity uses the probability of
  `<UNK>`.
- An update has at most 1,024 tokens in the rows `lm` and 2,048 tokens in the rows `rc`. So the
  models see at most a third and two thirds of the training passages.
- The accuracies are 0, because no model has learned to predict the last word. The most frequent
  last word in training is `<UNK>`, which never counts as correct.
"""

from results.definitions import Cell, Score, Table

MODELS = {
    "lstm": ("lstm_seq2seq", "lstm_seq2seq_attention", "lstm_text"),
    "transformer": ("transformer", "transformer_encoder", "transformer_text"),
    "universal": (
        "universal_transformer",
        "universal_transformer_encoder",
        "universal_transformer_text",
    ),
    "adaptive": (
        "universal_transformer",
        "universal_transformer_encoder",
        "adaptive_universal_transformer_text",
    ),
}


def _scores(measure):
    metric = f"last_word_{measure}"
    return (
        Score(f"{metric}/control", name=f"{measure}, control"),
        Score(metric, name=f"{measure}, dev", split="valid"),
        Score(f"{metric}/test", name=f"{measure}, test"),
    )


def _cells(form):
    is_lm = form == "lm"
    for name, (of_lm, of_rc, hparams_set) in MODELS.items():
        yield Cell(
            name=f"{form}/{name}",
            problem=f"small_lambada_{form}",
            package="benchmarks/results/small_data",
            model=of_lm if is_lm else of_rc,
            hparams_set=hparams_set,
            hparams=f"batch_size={1024 if is_lm else 2048},learning_rate_warmup_steps=50",
            updates=100,
            every=50,
            valid="last_word_perplexity" if is_lm else "last_word_accuracy",
            scores=(*(_scores("perplexity") if is_lm else ()), *_scores("accuracy")),
        )


TABLE = Table(
    title="LAMBADA, a part",
    raw=("lambada_*_plain_text.txt", "lambada-vocab-2.txt.gz"),
    block="small",
    is_wide=True,
    cells=(*_cells("lm"), *_cells("rc")),
)
