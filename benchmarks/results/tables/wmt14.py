"""This is table 7 of the paper, BLEU on newstest2014. It was not run, because training on 4.5
million sentence pairs would take too long on two cores.
"""

from results.definitions import Cell, Score, Table

TABLE = Table(
    title="WMT14, English to German",
    cells=tuple(
        Cell(
            name=f"newstest2014/{name}",
            problem="translate_ende_wmt32k",
            model=model,
            hparams_set=hparams_set,
            updates=100_000,
            every=5_000,
            valid="neg_log_perplexity",
            scores=(Score("decode/bleu", paper),),
            decode="beam_size=4,alpha=0.6,extra_length=50",
            flags=("--worker_gpu=8",),
        )
        for name, model, hparams_set, paper in (
            ("universal-base", "universal_transformer", "universal_transformer_base", "28.9"),
            ("universal-small", "universal_transformer", "universal_transformer_small", "26.8"),
            ("transformer-base", "transformer", "transformer_base", "28.0"),
        )
    ),
)
