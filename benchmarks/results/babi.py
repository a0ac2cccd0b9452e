"""Defines the cells of the bAbI tables, with the numbers in appendix B of the paper."""

from results.definitions import Cell, Score
from ut_keras.problems import babi_files

RAW = ("*tasks_1-20_v1-2*.tar.gz",)
MODELS = {
    "adaptive": ("universal_transformer_encoder", "adaptive_universal_transformer_babi"),
    "universal": ("universal_transformer_encoder", "universal_transformer_babi"),
    "transformer": ("transformer_encoder", "transformer_babi"),
    "adaptive_t2t": ("universal_transformer_encoder", "adaptive_universal_transformer_babi_t2t"),
}
MODELS |= {
    f"{name}_large_batch": (model, f"{hparams_set}_large_batch")
    for name, (model, hparams_set) in MODELS.items()
    if name != "adaptive_t2t"
}
# These models are trained on copies of the stories with exchanged words.
MODELS["permuted"] = MODELS["adaptive"]
MODELS["permuted_no_dropout"] = (
    "universal_transformer_encoder",
    "universal_transformer_babi_permuted_joint",
)
# The paper's errors of each task: the best of ten seeds, and then the mean and the deviation over
# the ten seeds. We assume that the paper's "± var" is a standard deviation. We also assume that
# these errors belong to the adaptive model, because their means are equal to its errors in table 1.
BEST = {
    "10k_single": "0 0 .4 0 0 0 0 0 0 0 0 0 0 0 0 .4 .6 0 2.8 0",
    "10k_joint": "0 0 1.2 0 0 0 0 0 0 0 0 0 0 0 0 1.2 .2 0 3.1 0",
    "1k_single": "0 0 3.7 0 0 0 0 0 0 0 0 0 0 0 0 5.8 32.1 0 47.2 2.4",
    "1k_joint": "0 .5 5.4 0 .5 .5 3.2 1.6 .2 .4 .1 0 .6 3.8 5.9 15.4 43.2 4.1 69.11 2.4",
}
MEAN = {
    "10k_single": "0 .2 1.8 .1 .2 .1 .3 .3 0 .1 0 .2 .2 1.8 2.1 1.9 1.6 .3 3.4 0",
    "10k_joint": "0 1.7 4.6 .2 .8 .1 1.1 .5 0 .5 .1 .4 .3 1.3 1.6 .9 1.4 .7 6.1 0",
    "1k_single": ".2 3.2 9.1 .3 1.1 1.2 0 .1 .1 .7 .4 .6 .8 .1 .3 9.1 44.7 2.3 50.2 3.2",
    "1k_joint": ".1 4.3 14.3 .4 4.3 .8 4.1 3.9 .3 1.3 .3 .3 1.1 4.7 10.3 34.1 51.1 12.8 73.1 2.6",
}
DEVIATION = {
    "10k_single": "0 .4 1.8 .1 .3 .2 .5 .2 0 .2 0 .1 .5 2.6 3.4 2.2 .8 .4 4 0",
    "10k_joint": "0 2.6 7.3 .1 .5 .2 1.5 1.1 0 .4 .1 .4 .4 1.6 2.8 1.3 3.4 1.4 7.3 0",
    "1k_single": ".3 4.1 12.7 .3 1.3 2.1 0 .2 .1 .8 .8 .9 .9 .2 .5 8.1 16.6 3.6 8.4 2.5",
    "1k_joint": ".2 11.6 18.1 .6 5.6 .4 2.9 4.2 .3 1.6 .9 .4 .9 5.2 8.6 22.8 12.3 9 23.9 2.8",
}
# The best of ten runs for "10k single" with ACT, from the README of
# andreamad8/Universal-Transformer-Pytorch.
PUBLIC = "0 .2 2.4 0 .1 0 0 .1 0 0 0 0 0 0 0 50.6 14.1 6.9 65.2 0"


def _of_the_paper(size_and_form, task):
    best, mean, deviation = (
        _as_printed(numbers[size_and_form].split()[task - 1]) for numbers in (BEST, MEAN, DEVIATION)
    )
    return f"{best}; {mean} ± {deviation}"


def _as_printed(number):
    return number if len(number.partition(".")[2]) > 1 else f"{float(number):.1f}"


def single(size, updates, sets=""):
    """Return a cell for each task and model, in which the model is trained on this task only.

    Args:
        size: str, "1k" or "10k".
        updates: dict from a task to its number of updates.
        sets: str, the ending of the names of the hparams sets.
    """
    return tuple(
        Cell(
            name=f"task{task}/{name}",
            problem=f"babi_qa_sentence_single_task{task}_{size}_valid",
            model=MODELS[name][0],
            hparams_set=MODELS[name][1] + sets,
            updates=number,
            every=1000,
            valid="mean_error",
            scores=(
                Score(
                    "mean_error",
                    _of_the_paper(f"{size}_single", task) if name == "adaptive" else "",
                    percent=True,
                ),
            ),
        )
        for task, number in updates.items()
        for name in ("adaptive", "universal", "transformer")
    )


def permuted(size, tasks, updates):
    """Return a cell for each task. Its problem has copies of the stories with exchanged words."""
    return tuple(
        Cell(
            name=f"task{task}/permuted",
            problem=f"babi_qa_sentence_single_task{task}_{size}_permuted_valid",
            model="universal_transformer_encoder",
            hparams_set="universal_transformer_babi_permuted",
            updates=updates,
            every=1000,
            valid="mean_error",
            scores=(Score("mean_error", percent=True),),
        )
        for task in tasks
    )


def joint(size, models):
    """Return a cell for each model, which is trained on all tasks together.

    Args:
        size: str, "1k" or "10k".
        models: dict from a model to (updates, error, failed). `error` is the paper's average error,
            and `failed` is the paper's number of failed tasks. The cell of the first model also
            has the error of each task, with the paper's errors. The cells of the models `permuted`
            have the error of each task, too.
    """
    return tuple(_joint(size, name, name == next(iter(models)), *models[name]) for name in models)


def _joint(size, name, is_first, updates, error, failed):
    is_permuted = name.startswith("permuted")
    return Cell(
        name=f"joint/{name}",
        problem=f"babi_qa_sentence_all_tasks_{size}{'_permuted' * is_permuted}_valid",
        model=MODELS[name][0],
        hparams_set=MODELS[name][1],
        updates=updates,
        every=4000,
        valid="mean_error",
        scores=(
            Score("mean_error", error, "average error", percent=True),
            Score("failed_tasks", failed, "failed tasks"),
            *(
                Score(
                    f"error/task_{task}",
                    _of_the_paper(f"{size}_joint", task) if is_first else "",
                    f"task {task}, {babi_files.TASKS[task].replace('-', ' ')}",
                    percent=True,
                )
                for task in babi_files.TASKS
                if is_first or is_permuted
            ),
        ),
    )
