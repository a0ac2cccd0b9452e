"""What a package's problem overrides of T2T's methods: whether it is read here, and can be."""

from typing import Any

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.t2t import missing, problem, text_problems

_OURS = "ut_keras.t2t."
# What a problem may override in T2T and what is read here: without it, data would be others.
_REFUSED = {
    "dataset": "preprocess_example",
    "decode_example": "example_reading_spec",
    "eval_metric_fns": "eval_metrics",
    "filepattern": "dataset_filename",
    "input_fn": "preprocess_example",
    "normalize_example": "task_list",
    "preprocess": "preprocess_example",
    "_maybe_pack_examples": "packed_length",
    "_pack_fn": "packed_length",
}
# What has no effect on data and results.
_UNREAD = {
    "decode_hooks": "scores of what is decoded are those of ut-bleu",
    "eval_hooks": "the trainer writes its own summaries",
    "all_metrics_fns": "eval_metrics names those that are here",
    "export_assets": "ut-exporter writes what a model needs",
    "serving_input_fn": "what ut-exporter writes takes text",
}


def check(t2t: problem.Problem) -> None:
    """Says what has no effect here.

    Raises:
        DataError: if the problem overrides what is not read here; names what is. Or if something
            that it says is of a wrong type or range.
    """
    class_name = type(t2t).__name__
    for name, instead in _REFUSED.items():
        if not is_ours(t2t, name):
            raise DataError(
                f"{class_name} must say by {instead} what {name} says in T2T. "
                f"Received: one of its own for {name}, which nothing here reads."
            )
    for name, reason in _UNREAD.items():
        if not is_ours(t2t, name):
            missing.say_once(f"note: {name} of {class_name} has no effect here: {reason}")
    contract.check(t2t, contract.OF_T2T)
    _check_vocabulary(t2t)


def _check_vocabulary(t2t):
    """The same of what the vocabulary is made by, where it is made here."""
    if isinstance(t2t, text_problems.Text2TextProblem) and is_ours(t2t, "get_or_create_vocab"):
        kinds = contract.OF_T2T_VOCABULARY
        contract.check(t2t, {"vocab_type": contract.one_of(*kinds)})
        contract.check(t2t, kinds[t2t.vocab_type])
        if t2t.use_vocab_from_other_problem:
            _check_vocabulary(t2t.use_vocab_from_other_problem)


def is_ours(t2t: Any, *names: str) -> bool:
    """Whether methods or properties are those of stand-ins, or not there at all."""
    for name in names:
        cls = next((cls for cls in type(t2t).__mro__ if name in vars(cls)), None)
        if cls and not cls.__module__.startswith(_OURS):
            return False
    return True
