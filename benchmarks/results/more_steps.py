"""Defines the cells of the table `depth_more_steps`: recipes for more steps than in training.

A recipe is trained with at most `TRAINED` steps, and evaluated with multiples of this number.
"""

from results.definitions import Cell, Score

TABLE = "depth_more_steps"
TRAINED = 4
MULTIPLES = (1, 2, 4, 8, 32)
_SET = "universal_transformer_more_steps"
_SANDWICH = "layer_postprocess_sequence=dan"
_START = "recurrence_input_injection=concat,recurrence_initial_state='normal(sigma=1.0)'"
_POISSON = "num_rec_steps_sampling='lognormal_poisson(mean=2, sigma=0.5)'"
_UNIFORM = "num_rec_steps_sampling=uniform"
_PENALTY = "recurrence_fixed_point_loss_weight=0.1"
# What each recipe changes in the hparams set.
RECIPES = {
    "fixed": "",
    "uniform": _UNIFORM,
    "poisson": _POISSON,
    "start": _START,
    "sandwich": _SANDWICH,
    "scale": "recurrence_residual_scale=1/sqrt(N)",
    "penalty": _PENALTY,
    "geiping": f"{_POISSON},{_START},{_SANDWICH},recurrence_backprop_steps=2",
    "combined": f"{_UNIFORM},{_START},{_SANDWICH},{_PENALTY}",
}


def cells(row, problem, updates, valid, test, metric="accuracy"):
    """Return a cell for each recipe.

    Args:
        row: str, the name of the row.
        problem: str.
        updates: int, the number of updates.
        valid, test: str, descriptions of the examples in the two splits.
        metric: str, the metric that the table shows and by which the checkpoint is chosen.
    """
    return tuple(
        Cell(
            name=f"{row}/{name}",
            problem=problem,
            model="universal_transformer_encoder",
            hparams_set=_SET,
            updates=updates,
            every=updates // 5,
            valid=metric,
            scores=(Score(metric, name=valid, split="valid"), Score(metric, name=test)),
            hparams=hparams,
        )
        for name, hparams in RECIPES.items()
    )
