"""Check which methods of T2T a package's problem overrides, and their signatures."""

import inspect
from collections.abc import Callable
from typing import Any

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.t2t import missing, problem, text_problems

_STAND_INS = "ut_keras.t2t."
# Method that ut_keras does not call -> method to override instead. Ignoring an override of these
# methods would change the data.
_UNSUPPORTED = {
    "dataset": "preprocess_example",
    "decode_example": "example_reading_spec",
    "eval_metric_fns": "eval_metrics",
    "filepattern": "dataset_filename",
    "input_fn": "preprocess_example",
    "make_estimator_input_fn": "preprocess_example",
    "maybe_copy_features": "preprocess_example",
    "maybe_reverse_and_copy": "preprocess_example",
    "maybe_reverse_features": "preprocess_example",
    "normalize_example": "task_list",
    "preprocess": "preprocess_example",
    "_maybe_pack_examples": "packed_length",
    "_pack_fn": "packed_length",
}
# Method or attribute that is ignored -> reason. Overriding it would not change data or results.
_IGNORED = {
    "decode_hooks": "use ut-bleu to score decoded text",
    "eval_hooks": "the trainer writes its own summaries",
    "all_metrics_fns": "eval_metrics selects the metrics",
    "export_assets": "ut-exporter writes the files that a model needs",
    "serving_input_fn": "the models that ut-exporter writes take text",
}
# Methods that T2T calls -> their arguments.
_T2T_ARGUMENTS = {
    "class_labels": "data_dir",
    "dataset_filename": "",
    "dev_text_filepaths": "tmp_dir",
    "eval_metrics": "",
    "example_generator": "encoder tmp_dir task_id",
    "example_reading_spec": "",
    "feature_encoders": "data_dir",
    "filepath_to_unicode_strings": "filepath",
    "generate_data": "data_dir tmp_dir task_id",
    "generate_encoded_samples": "data_dir tmp_dir dataset_split",
    "generate_samples": "data_dir tmp_dir dataset_split",
    "generate_text_for_vocab": "data_dir tmp_dir",
    "get_feature_encoders": "data_dir",
    "get_hparams": "model_hparams",
    "get_max_num_classes": "",
    "get_or_create_vocab": "data_dir tmp_dir",
    "hparams": "defaults model_hparams",
    "input_files": "dataset_split",
    "max_length": "model_hparams",
    "prepare_to_generate": "data_dir tmp_dir",
    "preprocess_example": "example mode hparams",
    "source_data_files": "dataset_split",
    "text_filepaths_for_task": "tmp_dir task_id",
    "train_text_filepaths": "tmp_dir",
    "update_task_ids": "encoder_vocab_size",
    "vocab_data_files": "",
}
# T2T calls a problem class with these arguments.
INIT_ARGUMENTS = {"was_reversed": False, "was_copy": False}


def check(t2t: problem.Problem) -> None:
    """Check a problem, and print a note for each override that has no effect.

    Raises:
        DataError: if the problem overrides a method that ut_keras does not call (the message names
            the alternative), if a method takes other arguments than T2T's, or if an attribute has
            a wrong type or range.
    """
    class_name = type(t2t).__name__
    _check_signatures(t2t)
    for name, instead in _UNSUPPORTED.items():
        if not is_unchanged(t2t, name):
            raise DataError(
                f"{class_name} must override {instead} and not {name}. "
                f"Received: an override of {name}, which is not supported."
            )
    for name, reason in _IGNORED.items():
        if not is_unchanged(t2t, name):
            missing.print_once(f"note: {name} of {class_name} has no effect here: {reason}")
    if hasattr(t2t, "check_hooks"):  # the class derives from a built-in problem
        t2t.check_hooks()
    contract.check(t2t, contract.T2T_PROBLEM_FIELDS)
    _check_vocabulary(t2t)


def _check_signatures(t2t):
    cls = type(t2t)
    for name, arguments in _T2T_ARGUMENTS.items():
        if is_unchanged(t2t, name):
            continue
        words = arguments.split()
        if name == "generate_samples" and isinstance(
            t2t, text_problems.DistributedText2TextProblem
        ):
            words.append("input_files")
        if name == "get_or_create_vocab" and is_unchanged(t2t, "feature_encoders"):
            words.append("force_get")  # T2T's feature_encoders passes this argument
        found = inspect.getattr_static(t2t, name)
        title = f"{cls.__name__}.{name}"
        if isinstance(found, property) or not callable(getattr(t2t, name)):
            raise DataError(
                f"{name} of {cls.__name__} must be a method, as T2T's "
                f"{name}(self{_join_arguments(words)}). Received: {contract.shortened(found)}."
            )
        check_call(getattr(t2t, name), title, words, f"{name}(self{_join_arguments(words)})")


def check_call(
    function: Callable[..., Any], title: str, arguments: Any, expected: str, by_name: bool = False
) -> None:
    """Check that a function of a package accepts T2T's arguments.

    Args:
        function: callable. The function.
        title: str. Name of the function for the error.
        arguments: list of str. Names of T2T's arguments.
        expected: str. T2T's signature for the error.
        by_name: bool. Whether T2T passes keyword arguments.

    Raises:
        DataError: if the function cannot be called with these arguments.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # the function is not written in Python
        return
    try:
        signature.bind(
            *(() if by_name else arguments), **dict.fromkeys(arguments if by_name else ())
        )
    except TypeError:
        # The signature of a bound method does not contain `self`.
        first = "self" if "(self" in expected else ""
        parts = [first, *map(str, signature.parameters.values())]
        name = title.rpartition(".")[2].split()[-1]
        raise DataError(
            f"{title} must take T2T's arguments, {expected}. "
            f"Received: {name}({', '.join(filter(None, parts))})."
        ) from None


def _join_arguments(words):
    return "".join(f", {word}" for word in words)


def _check_vocabulary(t2t):
    """Check the attributes that describe the vocabulary, if ut_keras builds it."""
    if isinstance(t2t, text_problems.Text2TextProblem) and is_unchanged(t2t, "get_or_create_vocab"):
        kinds = contract.T2T_VOCABULARY_FIELDS
        contract.check(t2t, {"vocab_type": contract.one_of(*kinds)})
        contract.check(t2t, kinds[t2t.vocab_type])
        if t2t.use_vocab_from_other_problem:
            _check_vocabulary(t2t.use_vocab_from_other_problem)


def is_unchanged(t2t: Any, *names: str) -> bool:
    """Return whether a class overrides none of these members of the stand-ins.

    A member is a method or a property.
    """
    for name in names:
        cls = next((cls for cls in type(t2t).__mro__ if name in vars(cls)), None)
        if cls and not cls.__module__.startswith(_STAND_INS):
            return False
    return True
