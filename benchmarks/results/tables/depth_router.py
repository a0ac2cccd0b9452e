"""The data router of the table [Addition](#addition) loses accuracy if it takes more steps than the
14 steps in training. The model `sampled_penalty` differs from it only in two training options:
`num_rec_steps_sampling=uniform` and `recurrence_fixed_point_loss_weight=0.1`. The model keeps its
accuracy up to 56 steps. It is evaluated with 1, 2, 4 and 8 times 14 steps. We chose the options on
the validation split, with seed 1.
"""

from results.definitions import Cell, Score, Table

_METRIC = "accuracy_per_sequence"

TABLE = Table(
    title="The data router with more steps",
    page="depth",
    cells=(
        Cell(
            name="addition/sampled_penalty",
            problem="addition10",
            model="universal_transformer_encoder",
            hparams_set="universal_transformer_depth_ndr_mixed",
            updates=2_000,
            every=200,
            valid=_METRIC,
            scores=(
                Score(_METRIC, name="2 to 10 digits (validation)", split="valid"),
                Score(_METRIC, name="20 digits"),
            ),
            hparams="num_rec_steps_sampling=uniform,recurrence_fixed_point_loss_weight=0.1",
        ),
    ),
    steps=(14, 28, 56, 112),
)
