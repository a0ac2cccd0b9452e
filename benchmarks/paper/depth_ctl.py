"""Compositional table lookup, trained on 1 to 5 functions in a row; share of right answers. Csordás
et al. 2022 have 1.00 for their Neural Data Router both ways, on tables and numbers of examples of
their own. Of deeper ones all but the data router answer hardly more than by guessing (12.5 %): here
it is the routing that carries over, no rule of halting does. After 10,000 updates the router is
right at every depth forward, of all seeds; backward, where the validation has nothing left to
choose by, on 71 to 87 % of the deepest.
It comes to rest: what is right after 14 steps stays so after 28, and halting by convergence, which
is not trained, costs nothing and saves a step or two. "published" is eleven tables and as many
examples as theirs, and their data router: width 256, one head, weights that are not normalized,
three times as many updates. It is right backward, too: on all 1,000 test questions, with its last
weights, of a run on a GPU by `benchmarks/in_jax.py`, beside another.
"""

from tables import Cell, Score, Table, depth

VALID, TEST = "6 to 8 functions (validation)", "9 and 10"

TABLE = Table(
    title="Compositional table lookup",
    page="depth",
    cells=depth.cells(
        {"forward": "ctl_forward", "backward": "ctl_backward"},
        updates=3_000,
        more_updates={"ndr": 10_000},  # results.md, Protocol, says why
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
