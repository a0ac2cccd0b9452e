"""The examples of a split, as rows of ids to decode and to compare with."""

import dataclasses
from typing import Any

import numpy as np

from ut_keras.data.reading import packing, readable

_TOGETHER = 128  # examples that are read together


def read(run: Any, split: str, most: int = -1) -> tuple[list[Any], list[Any]]:
    """Reads examples in the order of the files.

    Args:
        run: with the problem, its data_dir, hp and specs, such as `decode_setup.AskedRun`.
        split: str.
        most: int. How many examples to take; below 0 all.
    Returns:
        (inputs, targets): lists of int arrays.
    """
    # Batches of a fixed number of examples are not sorted by length.
    hp = dataclasses.replace(run.hp, use_fixed_batch_size=True, batch_size=_TOGETHER)
    dataset = packing.unpacked(run.problem.dataset(split, run.data_dir, hp), _TOGETHER)
    rows: list[Any] = []
    for features, targets, *_ in readable.batches(dataset):
        rows += zip(features["inputs"].numpy(), targets.numpy(), strict=True)
        if 0 <= most <= len(rows):
            rows = rows[:most]
            break
    trimmed = run.specs["inputs"].modality == "symbol"
    inputs = [np.trim_zeros(row, "b") if trimmed else row for row, _ in rows]
    return inputs, [target for _, target in rows]
