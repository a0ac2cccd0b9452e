"""The options of `input_pipeline` that depend on the problem.

The options that depend on the hparams are `InputSettings`.

This module does not import TensorFlow.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ut_keras.data.reading import example_order

OWN_LIMITS = types.MappingProxyType({"inputs": "inputs", "targets": "targets"})


@dataclasses.dataclass(frozen=True)
class ReadingOptions:
    """Options that define how the records of some files become examples.

    Fields:
        preprocess: function from the features of n records to the features of n examples. Both are
            dicts of int32 tensors: ragged [n, (length)] or [n, (length), ...], or [n, ...] if the
            shape is fixed. The key "weights" is not a feature. Its value, float [n, 1] or ragged
            like the targets, holds the weights for the loss and the metrics. Optional.
        parse: function from the files and the contents of n records, string tensors [n], to the
            features of the records. Required if the specs do not describe the records.
        lengths_vary: bool. Whether `preprocess` may sample lengths. If True, the lengths at the
            first reading determine the batches. If the batches have static shapes, `preprocess`
            must not sample lengths.
        limits: dict. A key is a feature to truncate. Its value is "inputs" or "targets", whose
            maximum length in `InputSettings` applies to the feature. By default, inputs and
            targets have their own limits. If the dict is empty, `preprocess` or `parse` truncates
            the features.
        evenly_sharded: bool. Whether the records of a split were distributed evenly over its files.
        check_counts: function that gets the number of records in each file and raises a `DataError`
            if records are missing. Optional.
        groups: list of int. If the files belong to several problems, this is the number of files of
            each problem, in order. Evaluation reads one record of each problem in turn. Optional.
        mixture: `Mixture`, the shares of these problems in training. Optional.
        fixed_length: int, the length of every example, if the hparam `batch_size` is a number of
            examples. No example is then too long or too short. Optional.
    """

    preprocess: Callable[..., Any] | None = None
    parse: Callable[..., Any] | None = None
    lengths_vary: bool = False
    limits: Mapping[str, str] = dataclasses.field(default_factory=lambda: OWN_LIMITS)
    evenly_sharded: bool = True
    check_counts: Callable[[list[int]], Any] | None = None
    groups: Sequence[int] = ()
    mixture: example_order.Mixture | None = None
    fixed_length: int | None = None
