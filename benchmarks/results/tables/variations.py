"""These are variations of the Transformer from table 3 of Vaswani et al. 2017, on Multi30k. The
check shows that each hparams set trains. The base set and every variation are reduced in the same
way:

- The hidden size, the filter size and the number of key channels are a quarter of the set's value.
- The number of layers is half of the set's value.
- The number of heads, the dropout and the label smoothing are the set's values.
- The learning rate schedule and the batches of 1,024 tokens are the same for all.

So the base has hidden size 128, filter size 512, 3 layers and 8 heads. A model is trained for 600
updates, which is about 1.3 times the number of tokens of the training split. The scores are the
cross-entropy per subword in nats with the targets as the decoder's input, and cased BLEU of greedy
decoding. BLEU is sacreBLEU's, as in the table of Multi30k. The rows show one seed each. Differences
between rows can be due to the seed and to the short training.
"""

from results.definitions import Cell, Score, Table

from ut_keras import hparams

_WIDTHS = ("hidden_size", "filter_size", "attention_key_channels")
_TRAINING = (
    "batch_size=1024,learning_rate_schedule=constant*linear_warmup*single_cycle_cos_decay,"
    "learning_rate_constant=0.002,learning_rate_warmup_steps=100"
)
_ROWS = {
    "base": ("base",),
    "A": ("h1", "h4", "h16", "h32"),
    "B": ("k128", "k256"),
    "C": ("l2", "l4", "l8", "hs256", "hs1024", "ff1024", "ff4096"),
    "D": ("dr0", "dr2", "ls0", "ls2"),
}


def reduced(hparams_set):
    """Return the value of `--hparams` that reduces a set of table 3."""
    values = hparams.get(hparams_set).to_dict()
    widths = [f"{name}={values[name] // 4}" for name in _WIDTHS if values[name]]
    return ",".join([*widths, f"num_hidden_layers={values['num_hidden_layers'] // 2}", _TRAINING])


TABLE = Table(
    title="Variations of the Transformer, reduced",
    raw=("train.??.gz", "val.??.gz", "test_2016_flickr.??.gz"),
    block="small",
    cells=tuple(
        Cell(
            name=f"{row}/transformer_{name}",
            problem="translate_ende_multi30k",
            model="transformer",
            hparams_set=f"transformer_{name}",
            hparams=reduced(f"transformer_{name}"),
            updates=600,
            every=600,
            valid="decode/bleu",
            scores=(
                Score("loss", name="cross-entropy, validation", split="valid"),
                Score("decode/bleu", name="BLEU, validation", split="valid"),
                Score("decode/bleu", name="BLEU, test"),
            ),
            decode="beam_size=1,extra_length=50",
        )
        for row, names in _ROWS.items()
        for name in names
    ),
)
