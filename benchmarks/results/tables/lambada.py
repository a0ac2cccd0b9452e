"""This is table 3 of the paper. It was not run: the training text (203 million words of novels) was
unavailable, and training would take too long on two cores. If you have the text and GPUs, you can
run the experiment with the printed commands.
"""

from results.definitions import Cell, Score, Table


def _cell(form, name, hparams_set, scores):
    model = "universal_transformer_encoder" if form == "rc" else "universal_transformer"
    return Cell(
        name=f"{form}/{name}",
        problem=f"lambada_{form}",
        model=model,
        hparams_set=hparams_set,
        updates=100_000,
        every=5_000,
        valid=scores[0].metric,
        scores=scores,
        flags=("--worker_gpu=8",),
    )


def _lm(perplexity, accuracy):
    return (
        Score("last_word_perplexity", perplexity, "perplexity"),
        Score("last_word_accuracy", accuracy, "accuracy"),
    )


ADAPTIVE, UNIVERSAL = "adaptive_universal_transformer_base", "universal_transformer_base"
TABLE = Table(
    title="LAMBADA",
    cells=(
        _cell("lm", "adaptive", ADAPTIVE, _lm("142", "0.19")),
        _cell("lm", "universal", UNIVERSAL, _lm("319", "0.17")),
        _cell("rc", "adaptive", ADAPTIVE, (Score("last_word_accuracy", "0.5625"),)),
        _cell("rc", "universal", UNIVERSAL, (Score("last_word_accuracy", "0.5216"),)),
    ),
)
