"""Call `preprocess_example` of a package and record which features it reads.

example["context"]      example.read == {"context"}
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ut_keras.data import contract
from ut_keras.errors import DataError
from ut_keras.hparam_schema import BasicHParams
from ut_keras.t2t import hparam, missing, problem


class Example(dict[str, Any]):
    """An example that records in `read` which of its features were accessed."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        super().__init__(features)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    # With this method, `dict(example)` and `{**example}` call __getitem__ for each feature.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]

    def pop(self, name: str, *default: Any) -> Any:
        self.read.add(name)
        return super().pop(name, *default)

    def items(self) -> Any:
        return {**self}.items()

    def values(self) -> Any:
        return {**self}.values()

    def copy(self) -> dict[str, Any]:
        return {**self}


def mode_of(split: str | None, decodes: bool) -> str:
    """Return T2T's mode for the examples of a split: "train", "eval" or "infer".

    Args:
        split: str. None means that the split is unknown.
        decodes: bool. Whether the examples are read to be decoded.
    """
    if decodes:
        return "infer"  # tf.estimator.ModeKeys.PREDICT
    return "train" if split == "train" else "eval"


def fixed_length(t2t: problem.Problem, mode: str, hparams: BasicHParams | None) -> int | None:
    """Return the length of the longest feature, if the package fixes all shapes.

    In T2T, `batch_size` is then a number of examples, unless `batch_size_means_tokens` is true.
    `example_reading_spec` fixes a shape with `tf.FixedLenFeature`, and `preprocess_example` with
    `set_shape`.

    Args:
        t2t: `problem.Problem`, the problem of the package.
        mode: str. T2T's mode, "train", "eval" or "infer".
        hparams: the hparams of the run. None means that `preprocess_example` is not called.

    Returns:
        int, or None if `batch_size` is a number of tokens.
    """
    if t2t.batch_size_means_tokens:
        return None
    import tensorflow as tf

    fields, _ = t2t.example_reading_spec()
    fixed = [isinstance(field, tf.io.FixedLenFeature) for field in fields.values()]
    shapes = {
        name: tf.TensorShape(field.shape if is_fixed else [None])
        for (name, field), is_fixed in zip(fields.items(), fixed, strict=True)
    }
    if hparams is not None:
        of_run = hparam.from_dataclass(hparams)
        # If the code of the package raises an error here, `preprocess` reports it later.
        with contextlib.suppress(Exception, SystemExit):
            example = {name: tf.TensorSpec(shape, tf.int64) for name, shape in shapes.items()}
            # The package may change its argument, so it gets a copy.
            call = tf.function(lambda values: t2t.preprocess_example({**values}, mode, of_run))
            made = call.get_concrete_function(example).structured_outputs
            shapes = {name: values.shape for name, values in made.items()}
    if not shapes or not all(shape.is_fully_defined() for shape in shapes.values()):
        return None
    return max(shape.num_elements() for shape in shapes.values())


def preprocess(
    t2t: problem.Problem,
    records: dict[str, Any],
    known: Mapping[str, int | None],
    mode: str,
    hparams: hparam.HParams,
    note_unused: Callable[[str], None],
) -> dict[str, Any]:
    """Apply `preprocess_example` of a package to n records.

    Args:
        t2t: `problem.Problem`, the problem of the package.
        records: dict of int32 tensors, ragged [n, (length)] or [n, 1].
        known: dict from each feature that the method `hparams` of the problem declares to its
            vocabulary size, if the size is known.
        mode: str. T2T's mode, "train", "eval" or "infer".
        hparams: `HParams` of the run.
        note_unused: function that is called with each known feature that neither the package nor a
            model reads.

    Returns:
        dict of int32 tensors "inputs" and "targets", as in `records`. For packed records, the dict
        also has the segmentation and the positions.

    Raises:
        DataError: if the package does not return a dict with these features, or if they are not
            ints.
    """
    import tensorflow as tf

    from ut_keras.ops import int32

    features = [name for name in known if name in ("inputs", "targets")]
    parts = _parts_of_packed(features, records)
    names = (*features, *parts)
    fixed = [name for name, rows in records.items() if not isinstance(rows, tf.RaggedTensor)]
    call_package = _package_call(t2t, mode, hparams, {*known} - {*names}, note_unused)

    def preprocess_one(example):
        example = {name: tf.cast(ids, tf.int64) for name, ids in example.items()}
        found = _checked_features(call_package(example), names, t2t.name)
        return {
            name: tf.reshape(int32.cast(ids), [1] if name in fixed else [-1])
            for name, ids in found.items()
        }

    made = _map_examples(preprocess_one, records, names, fixed)
    with tf.control_dependencies(_checks_of_ids(made, parts, known, t2t.name)):
        return tf.nest.map_structure(tf.identity, made, expand_composites=True)


def _parts_of_packed(features, records):
    """Return {name of a segmentation or of positions: feature} for packed records."""
    parts = {f"{name}_{part}": name for name in features for part in ("segmentation", "position")}
    return {part: name for part, name in parts.items() if part in records}


def _package_call(t2t, mode, hparams, others, note_unused):
    """Return a function that calls `preprocess_example` of a package with one example.

    The function takes a dict of int64 tensors. It returns the package's value, or a str if the
    package calls `sys.exit`.

    Args:
        t2t, mode, hparams, note_unused: as for `preprocess`.
        others: set of str. Features that no model reads.
    """
    import tensorflow as tf

    code = type(t2t).preprocess_example.__code__
    calls = problem.TruncationCalls.number  # every call of `preprocess_example_common` adds 1

    @tf.function  # AutoGraph then converts each `if` on a tensor in the package's code
    def call(example):
        example = Example(example)
        made = t2t.preprocess_example(example, mode, hparams)
        for name in others & example.keys() - example.read:
            note_unused(name)
        if problem.TruncationCalls.number == calls:  # the package has not called the function
            _note_untruncated(t2t.name, hparams)
        return {**made} if made is example else made

    def call_or_error(example):
        try:
            return call(example)
        except SystemExit as error:  # raised by AutoGraph's copy of the package's code
            return f"SystemExit: {error} ({code.co_filename}, line {code.co_firstlineno})"

    return call_or_error


def _checked_features(made, names, title):
    """Return the features `names` of an example as tensors.

    Args:
        made: the value that the package returned.
        names: names of features.
        title: str, the name of the problem.

    Raises:
        DataError: if `made` is no dict with these features, or if they are not ints.
    """
    import tensorflow as tf

    if not isinstance(made, dict) or not made.keys() >= set(names):
        raise DataError(
            f"preprocess_example of {title} must return a dict of "
            f"{', '.join(names)}. Received: {contract.shortened(made)}."
        )
    ids = {name: tf.convert_to_tensor(made[name]) for name in names}
    for name, values in ids.items():
        if not values.dtype.is_integer:
            raise DataError(
                f"preprocess_example of {title} must return {name} with an int dtype. "
                f"Received: {values.dtype.name}."
            )
    return ids


def _map_examples(function, records, names, fixed):
    """Return the results of a function for n examples, as int32 tensors.

    Args:
        function: function from the features of one example to a dict with the keys `names`.
        records: dict of tensors, as for `preprocess`.
        names: names of features.
        fixed: the names of features with a single id.
    """
    import tensorflow as tf

    one, ragged = tf.TensorSpec([1], tf.int32), tf.RaggedTensorSpec([None], tf.int32, ragged_rank=0)
    specs = {name: one if name in fixed else ragged for name in names}
    scope = tf.compat.v1.get_variable_scope()
    caching_device = scope.caching_device
    try:
        return tf.map_fn(function, records, fn_output_signature=specs)
    finally:
        # `tf.map_fn` changes the caching device, and does not restore it after an error. Later
        # calls of `strategy.scope()` in the same process would then fail.
        if scope.caching_device is not caching_device:
            scope.set_caching_device(caching_device)


def _checks_of_ids(made, parts, known, title):
    """Return operations that check the ids and the lengths of packed features.

    Args:
        made: dict of int32 tensors, ragged [n, (length)] or [n, 1].
        parts: the result of `_parts_of_packed`.
        known: as for `preprocess`.
        title: str, the name of the problem.
    """
    import tensorflow as tf

    from ut_keras.data.reading import record_parser

    checks = []
    for name, ids in made.items():
        rows = ids if isinstance(ids, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(ids)
        origin = tf.fill([rows.nrows()], f"preprocess_example of {title}")
        if name in parts:
            lengths = made[parts[name]].row_lengths(), rows.row_lengths()
            checks.append(record_parser.check_part(name, *lengths, origin))
        elif vocab_size := known[name]:
            checks.append(record_parser.check_ids(rows, name, vocab_size, origin))
    return checks


def _note_untruncated(title, hparams):
    """Print a note for each limit that the package does not apply."""
    for name in ("max_input_seq_length", "max_target_seq_length"):
        limit = getattr(hparams, name)
        if limit > 0:
            missing.print_once(
                f"note: {name}={limit} has no effect for {title}, as in T2T, because its "
                "preprocess_example does not call preprocess_example_common"
            )
