"""Every recipe trains the same small model with at most N = 4 steps. The model has hidden size 64
and no step signals. It is then evaluated with 1, 2, 4, 8 and 32 times N steps. A recipe changes
only the hparams in this table:

| Recipe | Change |
| --- | --- |
| fixed | none: N steps in every update |
| uniform | `num_rec_steps_sampling=uniform` |
| poisson | `num_rec_steps_sampling='lognormal_poisson(mean=2, sigma=0.5)'`, and at most N steps |
| start | `recurrence_initial_state='normal(sigma=1.0)'` and `recurrence_input_injection=concat` |
| sandwich | `layer_postprocess_sequence=dan` |
| scale | `recurrence_residual_scale=1/sqrt(N)` |
| penalty | `recurrence_fixed_point_loss_weight=0.1` |
| geiping | poisson, start and sandwich, with `recurrence_backprop_steps=2` |
| combined | uniform, start, sandwich and penalty |

`geiping` uses the options that follow Geiping et al. 2025. Its sizes, and the number of steps with
a gradient, are our choice. The tasks and the scores are those of the other tables on this page. The
test split of each finished run is read once with N steps, and once more with every number of steps.
No setting was chosen by the test split. Some runs shared the core with other processes, so their
times differ.
"""

from results import more_steps
from results.definitions import Table

TABLE = Table(
    title="Recipes for more steps",
    page="depth",
    cells=(
        *more_steps.cells(
            "addition",
            "addition10",
            updates=1_000,
            metric="accuracy_per_sequence",
            valid="2 to 10 digits (validation)",
            test="20 digits",
        ),
        *more_steps.cells(
            "parity",
            "parity10",
            updates=1_200,
            valid="6 to 10 digits, 88 strings (validation)",
            test="20 digits",
        ),
        *more_steps.cells(
            "lookup",
            "ctl_forward",
            updates=1_200,
            valid="6 to 8 functions (validation)",
            test="9 and 10",
        ),
        *more_steps.cells(
            "sudoku",
            "sudoku6",
            updates=1_200,
            metric="accuracy_per_sequence",
            valid="5 and 6 steps (validation)",
            test="7 and 8",
        ),
    ),
    steps=tuple(more_steps.TRAINED * multiple for multiple in more_steps.MULTIPLES),
)
