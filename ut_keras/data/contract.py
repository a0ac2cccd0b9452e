"""Checks of the values that a problem class provides.

    check(problem, T2T_PROBLEM_FIELDS)   DataError: num_classes of Reviews must be an int from 1 …

A problem class may belong to ut_keras or to a user's package. Each table maps the name of an
attribute to the `Requirement` for its value. A name that ends with "()" is a method without
arguments. For a method, the return value is checked. The functions at the end check the samples,
texts and ids that a problem yields. Code that uses a checked value needs no further checks.
"""

import inspect
import numbers
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ut_keras.errors import DataError, UserError
from ut_keras.hparam_schema import limits

_MAX_SHARDS = 10_000  # the limit for one split; data generation keeps one lock file per shard open
_MAX_CLASSES = 10**6
_NUM_TEXT_SPACES = 32  # the number of kinds of text for which T2T's models have an embedding


class Requirement(NamedTuple):
    """A requirement that a value must meet.

    Fields:
        expected: str. The requirement in words, for error messages.
        fits: function from a value to a bool. The bool is True if the value meets the requirement.
    """

    expected: str
    fits: Callable[[Any], bool]


def _int(least, most=limits.LARGEST_INT):
    def fits(value):
        is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return is_int and least <= value <= most

    return Requirement(f"an int from {least} to {most}", fits)


def one_of(*names: str) -> Requirement:
    """Return the requirement that a value is one of some strings."""
    return Requirement(
        f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names
    )


def _or_none(requirement):
    return Requirement(
        f"{requirement.expected}, or None", lambda value: value is None or requirement.fits(value)
    )


def _list_of(requirement, least=0):
    def fits(values):
        is_list = isinstance(values, list | tuple) and len(values) >= least
        return is_list and all(map(requirement.fits, values))

    some = f" of at least {least}" if least else ""
    return Requirement(f"a list{some}, each item {requirement.expected}", fits)


def _unique(requirement):
    return Requirement(
        f"{requirement.expected}, without duplicates",
        lambda values: requirement.fits(values) and len({*values}) == len(values),
    )


def _is_text(value):
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:  # the text contains a lone surrogate
        return False


def _is_line(value):
    return _is_text(value) and value != "" and not {"\n", "\r", "\0"} & {*value}


def _is_relative_file(value):
    parts = value.split(os.sep) if _is_line(value) else [""]
    return not {"", ".", ".."} & {*parts}


def _is_reading_spec(pair):
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    if not is_pair or not isinstance(pair[0], dict) or not isinstance(pair[1], dict | None):
        return False
    dtypes = (getattr(pair[0].get(name), "dtype", None) for name in ("inputs", "targets"))
    return not any(getattr(dtype, "is_floating", False) for dtype in dtypes)


def _are_splits(values):
    return (
        isinstance(values, list | tuple)
        and all(isinstance(value, dict) and {*value} >= {"split", "shards"} for value in values)
        and _T2T_SPLITS.fits([value["split"] for value in values])
        and all(SHARDS.fits(value["shards"]) for value in values)
    )


def _leads_to_own_vocab(other):
    """Return whether following `use_vocab_from_other_problem` leads to a vocabulary."""
    seen = set()
    while other is not None:
        if type(other) in seen or not hasattr(type(other), "get_or_create_vocab"):
            return False
        seen.add(type(other))
        other = other.use_vocab_from_other_problem
    return True


_TEXT = Requirement("text that can be encoded as UTF-8", _is_text)
_LINE = Requirement("a line of text", _is_line)
_LINES = _list_of(_LINE)
_FILE = Requirement(
    "a file name without a folder", lambda v: _is_relative_file(v) and os.sep not in v
)
RELATIVE_FILE = Requirement("a file name that stays inside its folder", _is_relative_file)
_BOOL = Requirement("True or False", lambda value: isinstance(value, int) and value in (0, 1))
_METHOD = Requirement("a method", callable)
DICT = Requirement("a dict", lambda value: isinstance(value, Mapping))
SHARDS = _int(1, _MAX_SHARDS)
SPLITS = _unique(_list_of(one_of("train", "dev", "test"), 1))
_T2T_SPLITS = _unique(_list_of(one_of("train", "eval", "test"), 1))
_TEXT_SPACE = _int(0, _NUM_TEXT_SPACES - 1)
MAX_LENGTH = _or_none(_int(1))

# Attributes of the problems in problems/.
PROBLEM_FIELDS = {
    "name": _FILE,
    "filename": _FILE,
    "splits": SPLITS,
    "num_train_shards": SHARDS,
    "eval_metrics": _LINES,
    "other_results": _LINES,
    "target_space_id": _TEXT_SPACE,
    "input_space_id": _TEXT_SPACE,
    "class_label_features": _LINES,
    "max_length": MAX_LENGTH,
    "packed_length": _int(1),
    "side_files()": _list_of(RELATIVE_FILE),
    "generate_samples": _METHOD,
}
# Further attributes of text problems, and of text problems that build their vocabulary.
CLASS_LABELS = _unique(_LINES)
TEXT_PROBLEM_FIELDS = {"class_labels": _or_none(CLASS_LABELS)}
VOCABULARY_FIELDS = {
    "vocab_type": one_of("subwords", "tokens", "characters"),
    "vocab_name": _or_none(_FILE),
    "vocab_filename": RELATIVE_FILE,
    "approx_vocab_size": _int(1, sys.maxsize),
    "max_samples_for_vocab": _or_none(_int(1, sys.maxsize)),
    "oov_token": _or_none(_LINE),
}
# Further attribute of a T2T problem whose `generate_data` is called once per task.
T2T_TASK_FIELDS = {"num_generate_tasks": _int(1)}
# Attributes of all problems that are written for T2T's API.
T2T_PROBLEM_FIELDS = {
    "name": _FILE,
    "dataset_filename()": _FILE,
    "dataset_splits": Requirement(
        f'a list of {{"split": …, "shards": {SHARDS.expected}}}, each split one of '
        "train, eval, test, without duplicates",
        _are_splits,
    ),
    # T2T also declares this attribute as a method. A method counts as true, whatever it returns.
    "is_generate_per_split": _BOOL._replace(fits=lambda v: callable(v) or _BOOL.fits(v)),
    "multiprocess_generate": _BOOL,
    "eval_metrics()": _LINES,
    "example_reading_spec()": Requirement(
        "(dict of fields, dict of decoders or None), with inputs and targets of ints (for real "
        "numbers, use a Text2ClassProblem over ranges)",
        _is_reading_spec,
    ),
    "has_inputs": _BOOL,
    "inputs_prefix": _TEXT,
    "targets_prefix": _TEXT,
    "packed_length": _or_none(_int(0)),
    "packed_spacing": _int(0, 0)._replace(expected="0"),
    "num_classes": _int(1, _MAX_CLASSES),
    "generate_samples": _METHOD,
}
# T2T calls these methods when it reads data, not when it generates data. If one of them raises an
# error, the error is reported when the data are read.
_CALLED_LATER = {"eval_metrics()", "example_reading_spec()"}
# Further attributes of T2T problems that build their vocabulary, by the type of the vocabulary.
_VOCABULARY_FILE_FIELDS = {
    "use_vocab_from_other_problem": _or_none(
        Requirement(
            "a problem that has a vocabulary, its own or one from another problem",
            _leads_to_own_vocab,
        )
    ),
    "vocab_filename": RELATIVE_FILE,
}
_TOKEN_VOCABULARY_FIELDS = {**_VOCABULARY_FILE_FIELDS, "oov_token": _or_none(_LINE)}
_SUBWORD_VOCABULARY_FIELDS = {
    **_VOCABULARY_FILE_FIELDS,
    "approx_vocab_size": _int(1, sys.maxsize),
    "max_samples_for_vocab": _or_none(_int(0, sys.maxsize)),
    "max_subtoken_length": _or_none(_int(1)),
    "additional_reserved_tokens": _LINES,
}
T2T_VOCABULARY_FIELDS = {
    "character": {},
    "tokens": _TOKEN_VOCABULARY_FIELDS,
    "subwords": _SUBWORD_VOCABULARY_FIELDS,
}
# Attributes of the hparams object that the `hparams` method of a T2T problem fills.
T2T_HPARAMS_FIELDS = {
    "modality": DICT,
    "vocab_size": DICT,
    "input_modality": DICT,
    "input_space_id": _TEXT_SPACE,
    "target_space_id": _TEXT_SPACE,
}
ENCODER = Requirement(
    "a text encoder with the methods encode and decode",
    lambda encoder: all(callable(getattr(encoder, name, None)) for name in ("encode", "decode")),
)
FEATURE_ENCODERS = Requirement(
    f"a dict, each value {ENCODER.expected}",
    lambda encoders: isinstance(encoders, dict) and all(map(ENCODER.fits, encoders.values())),
)


def check(problem: Any, table: Mapping[str, Requirement]) -> None:
    """Check the attributes of a problem against a table.

    Attributes that the problem does not have are skipped. Attributes that raise a `UserError` when
    they are read are skipped too. The code that needs such an attribute reports the error.

    Args:
        problem: the problem object.
        table: dict from attribute name to `Requirement`. "name()" stands for the return value of
            the method `name`.

    Raises:
        DataError: for the first value that does not meet its requirement.
    """
    for key, requirement in table.items():
        name = key.removesuffix("()")
        if inspect.getattr_static(problem, name, check) is check:
            continue
        try:
            value = getattr(problem, name)
            value = value() if key != name else value
        except UserError:
            continue
        except Exception:
            if key == name or key not in _CALLED_LATER:
                raise
            continue
        validated(value, requirement, f"{name} of {type(problem).__name__}")


def validated(value: Any, requirement: Requirement, title: str) -> Any:
    """Return a value if it meets a requirement.

    Args:
        value: any object.
        requirement: `Requirement`.
        title: str. The name of the value in the error message.

    Raises:
        DataError: if the value does not meet the requirement.
    """
    if not requirement.fits(value):
        remedy = ""
        if inspect.ismethod(value):
            value, remedy = "a method", " Write an attribute of the class, or a property."
        else:
            value = shortened(value)
        raise DataError(f"{title} must be {requirement.expected}. Received: {value}.{remedy}")
    return value


def check_generate_samples(problem: Any) -> None:
    """Check that the method `generate_samples` has the arguments of ut_keras.

    Raises:
        DataError: if it has others.
    """
    signature = inspect.signature(problem.generate_samples)
    try:
        signature.bind("train", "data_dir", "tmp_dir", 0)
    except TypeError as error:
        raise DataError(
            f"generate_samples of {type(problem).__name__} must have the arguments (split, "
            f"data_dir, tmp_dir, seed). Received: {signature}. T2T's arguments work only in a "
            "package for --t2t_usr_dir that imports its classes from tensor2tensor."
        ) from error


def line_error(expected: str, path: str, number: int, received: Any) -> DataError:
    """Return the error for a line of a raw file.

    Args:
        expected: str. A complete sentence that says what a line must be.
        path: str. The file.
        number: int. The line number.
        received: the content of the line, or the error that it caused.
    """
    return DataError(f"{expected} Received: {path}, line {number}: {shortened(received)}.")


def shortened(value: Any) -> str:
    """Return the `repr` of a value for a message, cut to 100 characters."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


# The requirement and the functions below check samples, texts and ids.

SAMPLES = Requirement(
    "an iterable of samples",
    lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping),
)


def text_of(sample: dict[str, Any], name: str) -> str:
    """Return the text of a sample under a name.

    Raises:
        DataError: if the sample has no text under this name, or if UTF-8 cannot encode the text.
    """
    text: Any = sample.get(name) if isinstance(sample, dict) else None
    if not _is_text(text):
        requirement = _TEXT.expected if isinstance(text, str) else "the text"
        raise DataError(
            f"A sample must be a dict with {requirement} {name!r}. Received: {shortened(sample)}."
        )
    return text


def texts_of(samples: Sequence[dict[str, Any]], name: str) -> list[str]:
    """Return the texts of several samples under a name.

    Raises:
        DataError: in the same cases as `text_of`.
    """
    try:
        texts = [sample[name] for sample in samples]
        if all(map(str.isascii, texts)):
            return texts
    except (KeyError, TypeError, IndexError):
        pass
    return [text_of(sample, name) for sample in samples]


def texts(values: Iterable[str]) -> Iterator[str]:
    """Yield the texts from which a vocabulary is built.

    Raises:
        DataError: for the first value that is not a text, or if there are no values.
    """
    value = None
    for value in values:
        yield validated(value, _TEXT, "Each text for a vocabulary")
    if value is None:
        raise DataError("A vocabulary requires at least one text. Received: none.")


def ids(title: str, values: Any) -> list[int]:
    """Return the ids of a feature as a list of ints.

    Args:
        title: str. The name of the feature in the error message.
        values: iterable of ints or numpy integers.

    Raises:
        DataError: if a value is not an integer, for example a float.
    """
    try:
        return list(map(int, map(operator.index, values)))
    except TypeError:
        raise ids_error(title, values) from None


def ids_error(title: str, values: Any) -> DataError:
    """Return the error for values that must be ids."""
    return DataError(f"The ids of {title} must be 64-bit ints. Received: {shortened(values)}.")
