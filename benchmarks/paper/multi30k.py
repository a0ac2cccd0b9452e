"""Multi30k, English to German, test2016: captions without pictures. BLEU is sacreBLEU's, cased,
on the text of the files: `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`. Beam
search uses 4 beams. The three models have 2.4 million weights each.

The dataset is not in the paper of the Universal Transformer. The column "paper" shows a
Transformer of the same size without pictures: Wu et al. 2021, Good for Misconceived Reasons, as
given in README-baseline.md of their repository, LividWo/Revisit-MMT. It has width 128, 4 layers,
lower-cased and tokenized text, 8,000 updates of two times 4,096 tokens, an average of the last
ten checkpoints, and 5 beams. Lower-cased text gives a slightly higher BLEU than cased text. The
models of ut_keras saw a fourth of the tokens.
"""

from tables import Cell, Score, Table

TABLE = Table(
    title="Multi30k, English to German",
    raw=("train.??.gz", "val.??.gz", "test_2016_flickr.??.gz"),
    cells=tuple(
        Cell(
            name=f"test2016/{name}",
            problem="translate_ende_multi30k",
            model=model,
            hparams_set=hparams_set,
            updates=8_000,
            every=1_000,
            valid="decode/bleu",
            scores=(Score("decode/bleu", "41.02 (lower-cased)" if name == "transformer" else ""),),
            decode="beam_size=4,alpha=0.6,extra_length=50",
        )
        for name, model, hparams_set in (
            ("transformer", "transformer", "transformer_multi30k"),
            ("universal", "universal_transformer", "universal_transformer_multi30k"),
            ("adaptive", "universal_transformer", "adaptive_universal_transformer_multi30k"),
        )
    ),
)
