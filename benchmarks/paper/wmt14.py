"""Table 7, newstest2014, BLEU. Not run: 4.5 million pairs of sentences are beyond two cores. On
eight GPUs as in [Scale](scale.md), an update of `universal_transformer_base` takes twice that of
`transformer_big` there (the same width and depth, twice the batch), 0.09 s with TF32: 100,000
updates take two and a half hours; those of the two small models, with 0.03 s, about one.
"""

from tables import Cell, Score, Table

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
