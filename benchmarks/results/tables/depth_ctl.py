"""An example is a symbol and a sequence of functions. Each function is a fixed table that the model
must learn. The model applies the functions to the symbol, one after another, and predicts the
result. The input contains the functions in the order of their application (forward) or in the
opposite order (backward). Training uses 1 to 5 functions. The score is the share of correct
predictions.

With more functions than in training, all models except the data router are hardly better than
chance (12.5 %). Models with a halting rule do not generalize either. After 10,000 updates in the
forward direction, the router's predictions are correct at every depth, with all seeds. In the
backward direction, 71 to 87 % of its predictions are correct for the deepest examples. In this
direction, the validation accuracy is already 1.000, so it cannot distinguish between checkpoints.

Csordás et al. 2022 report 1.00 for their Neural Data Router in both directions, on their own tables
and with their own number of examples. The model `published` uses their setting: eleven tables, the
same number of examples, and their data router. This router has hidden size 256, one head and
attention weights that are not normalized, and it is trained with three times as many updates. Its
last checkpoint predicts all 1,000 test examples correctly, also in the backward direction.
`benchmarks/in_jax.py` trained it on a GPU that also ran another job.

The router reaches a fixed point: examples that are correct after 14 steps remain correct after 28.
Halting by convergence needs no training. It does not reduce the router's accuracy, and it saves one
or two steps.
"""

from results import depth
from results.definitions import Cell, Score, Table

VALID, TEST = "6 to 8 functions (validation)", "9 and 10"

TABLE = Table(
    title="Compositional table lookup",
    page="depth",
    cells=depth.cells(
        {"forward": "ctl_forward", "backward": "ctl_backward"},
        updates=3_000,
        more_updates={"ndr": 10_000},  # the section Protocol of docs/results.md gives the reason
        valid=VALID,
        test=TEST,
    )
    + tuple(
        Cell(
            name=f"{row}/published",
            problem=f"ctl_{row}_11",
            model="universal_transformer_encoder",
            hparams_set="universal_transformer_ctl_ndr",
            updates=30_000,
            every=1_000,
            valid="accuracy",
            scores=(
                Score("accuracy", name=VALID, split="valid"),
                Score("accuracy", "1.00", name=TEST),
            ),
        )
        for row in ("forward", "backward")
    ),
)
