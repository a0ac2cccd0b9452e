"""Multi30k, English to German, test2016: captions, no pictures. BLEU is sacreBLEU's, cased, of text
as it stands in the files: `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`; beam search
with 4 beams. The three models have 2.4 million weights each. Not in the paper; the column is for a
number of the literature on the same text and score, of which we have checked none (most are of
lower-cased, tokenized text, which is another score).
"""

from paper_cells import Cell, Score, Table

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
            scores=(Score("decode/bleu"),),
            decode="beam_size=4,alpha=0.6,extra_length=50",
        )
        for name, model, hparams_set in (
            ("transformer", "transformer", "transformer_multi30k"),
            ("universal", "universal_transformer", "universal_transformer_multi30k"),
            ("adaptive", "universal_transformer", "adaptive_universal_transformer_multi30k"),
        )
    ),
)
