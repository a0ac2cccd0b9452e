"""A check for `load_weights`: the weights in a file must be those of the model.

Without this check, Keras does the following:

- If the file has more weights than the model, Keras ignores them. So a model with two layers would
  load the file of a model with three layers without an error.
- If the file lacks a weight of the model, Keras loads other weights before it raises an error.
- If a weight has another shape, Keras' error is "expected 1 variables, but received 0". It does not
  contain the shapes.
"""

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import h5py

_WEIGHTS = "model.weights.h5"  # the weights in a .keras file
_OPTIMIZER = "optimizer/"  # a model may have another optimizer, or none
_MOST_NAMES = 3  # maximum number of weights in an error message


def check(
    path: str | os.PathLike[str], shapes: Sequence[Sequence[int]], save: Callable[..., None]
) -> None:
    """Check a file before `load_weights` reads it.

    The function ignores the weights of the optimizer. It checks only files on this machine in the
    formats `.weights.h5`, `.weights.json` and `.keras`.

    Args:
        path: the argument of `load_weights`.
        shapes: the shapes of all weights of the model.
        save: function that writes the weights of the model to a file. The function `check` calls it
            only if the shapes in the file are not exactly `shapes`.

    Raises:
        ValueError: if the file contains other weights than the model would save, fewer weights, or
            weights of other shapes.
    """
    path = os.fspath(path)
    found = _shapes(path)
    if not found or sorted(found.values()) == sorted(map(tuple, shapes)):
        return
    with tempfile.TemporaryDirectory() as folder:
        own_path = os.path.join(folder, _WEIGHTS)
        save(own_path)
        own = _shapes(own_path)
    unknown = sorted(found.keys() - own.keys())
    if unknown:
        raise ValueError(
            f"{path} must contain only weights that the model has. To ignore the others, "
            "set skip_mismatch=True. "
            f"Received: {', '.join(unknown[:_MOST_NAMES])} ({len(unknown)} are unknown)."
        )
    missing = sorted(own.keys() - found.keys())
    if missing:
        raise ValueError(
            f"{path} must contain all weights of the model. To load only the weights in the file, "
            "set skip_mismatch=True. "
            f"Received: a file without {', '.join(missing[:_MOST_NAMES])} "
            f"({len(missing)} are missing)."
        )
    others = sorted(name for name in found if found[name] != own[name])
    if others:
        shown = (f"{n} with {found[n]} instead of {own[n]}" for n in others[:_MOST_NAMES])
        raise ValueError(
            f"{path} must contain weights with the shapes of the model. Make the model with the "
            "hparams and the vocabulary sizes of the saved model. "
            f"Received: {', '.join(shown)} ({len(others)} have other shapes)."
        )


def _shapes(path):
    """Return {name: shape} of the weights in a file, without those of the optimizer."""
    shapes: dict[str, tuple[int, ...]] = {}

    def add(name, entry):
        if isinstance(entry, h5py.Dataset) and not name.startswith(_OPTIMIZER):
            shapes[name] = entry.shape

    for part in _hdf5_files(path):
        with h5py.File(part, "r") as opened:
            opened.visititems(add)
    return shapes


def _hdf5_files(path: str) -> list[Any]:
    """Return the HDF5 files with the weights.

    Each file is a path, or the content of a file in an archive.
    """
    if not os.path.isfile(path):
        return []
    if path.endswith("weights.h5"):
        return [path]
    if path.endswith(".keras"):
        with zipfile.ZipFile(path) as archive:
            if _WEIGHTS not in archive.namelist():
                return []
            return [io.BytesIO(archive.read(_WEIGHTS))]
    if path.endswith("weights.json"):  # several files, which this file lists
        with open(path, encoding="utf-8") as file:
            lists = json.load(file)["weight_map"].values()
        found = {name for names in lists for name in ([names] if isinstance(names, str) else names)}
        return [os.path.join(os.path.dirname(path), name) for name in sorted(found)]
    return []
