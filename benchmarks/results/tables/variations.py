"""These are ten variations of the Transformer from table 3 of Vaswani et al. 2017, on Multi30k. The
check shows that each hparams set trains. The base set and every variation are reduced in the same
way:

- The hidden size, the filter size and the number of key channels are a quarter of the set's value.
- The number of layers is half of the set's value.
- The number of heads, the dropout and the label smoothing are the set's values.
- The learning rate schedule, the batches of 512 tokens and the 300 updates are the same for all.

So the base has hidden size 128, filter size 512, 3 layers and 8 heads. The score is the
cross-entropy per subword in nats, with teacher forcing. Training is too short for translations. The
rows show one seed each, so differences between rows can be due to the seed.
"""

from results.definitions import Cell, Score, Table

from ut_keras import hparams

_WIDTHS = ("hidden_size", "filter_size", "attention_key_channels")
_TRAINING = (
    "batch_size=512,learning_rate_schedule=constant*linear_warmup*single_cycle_cos_decay,"
    "learning_rate_constant=0.002,learning_rate_warmup_steps=50"
)
_ROWS = {
    "base": ("base",),
    "A": ("h1", "h32"),
    "B": ("k128",),
    "C": ("l2", "l8", "hs256", "ff1024"),
    "D": ("dr0", "ls0", "ls2"),
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
    is_wide=True,
    cells=tuple(
        Cell(
            name=f"{row}/transformer_{name}",
            problem="translate_ende_multi30k",
            model="transformer",
            hparams_set=f"transformer_{name}",
            hparams=reduced(f"transformer_{name}"),
            updates=300,
            every=150,
            valid="loss",
            scores=(
                Score("loss", name="validation", split="valid"),
                Score("loss", name="test"),
            ),
        )
        for row, names in _ROWS.items()
        for name in names
    ),
)
