"""The models translate the captions of Multi30k from English to German, without seeing the
pictures. They have 2.4 million weights each, and nearly the same BLEU. The test split is test2016.
The score is sacreBLEU's cased BLEU on the original text of the files, with the signature
`nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`. Beam search uses 4 beams.

The Universal Transformer paper does not use this dataset. The column "paper" shows the result of a
Transformer of the same size, also without pictures. It is from Wu et al. 2021, "Good for
Misconceived Reasons". The number is in README-baseline.md of their repository,
LividWo/Revisit-MMT. Their setting differs:

- The model has hidden size 128 and 4 layers.
- The text is lower-cased and tokenized, which gives a slightly higher BLEU than cased text.
- It is trained for 8,000 updates of two times 4,096 tokens. The models of ut_keras saw a fourth of
  this number of tokens.
- The last ten checkpoints are averaged, and beam search uses 5 beams.
"""

from results.definitions import Cell, Score, Table

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
