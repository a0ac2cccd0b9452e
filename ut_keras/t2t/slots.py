"""Load the slots of T2T's optimizers, so that ut_keras can resume a T2T run.

    model = t2t_import.load_checkpoint(t2t_output_dir, "transformer", problem.target_space_id)
    optimizer = optimizers.get(model.hparams)
    slots.load_optimizer(t2t_output_dir, model, optimizer)

A slot is a variable of the optimizer for one weight, such as a moment. T2T's checkpoint contains
the slots as training/WEIGHT/OPTIMIZER, training/WEIGHT/OPTIMIZER_1, ... in the order in which its
optimizer creates them.

On TensorFlow 2, T2T's optimizer "adam" is LazyAdam of TensorFlow Addons. Its slots are
training/LazyAdam/WEIGHT/m and training/LazyAdam/WEIGHT/v.
"""

import re
from collections.abc import Mapping

import keras
import numpy as np

from ut_keras import t2t_import
from ut_keras.optimizers import adam

_SCOPE = "training/"
_LAZY_ADAM = "LazyAdam/"
_LAZY_ADAM_SLOTS = ("m", "v")
# Powers and counters that can be computed from the number of updates, and constants of LazyAdam.
_DERIVED = re.compile(r"((beta[12]_power|iter)(_\d+)?|LazyAdam/(iter|beta_[12]|decay))$")


def load_optimizer(
    t2t_output_dir: str, model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> int:
    """Load the optimizer's slots from the newest checkpoint of a T2T run.

    Args:
        t2t_output_dir: str. Folder with `model.ckpt-*`.
        model: the result of `t2t_import.load_checkpoint`.
        optimizer: the result of `optimizers.get`. If it is not built, the function builds it.

    Returns:
        int, the number of updates.

    Raises:
        ValueError: if there is no checkpoint, if it belongs to another optimizer, or if it has
            only some of the slots of a weight.
    """
    variables = t2t_import.read_checkpoint(t2t_output_dir, "global_step", _SCOPE)
    return assign(model, optimizer, variables)


def assign(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, variables: Mapping[str, np.ndarray]
) -> int:
    """Load the optimizer's slots from a dict of T2T's variable name to array.

    T2T has no slots for a weight that never had a gradient. The slots of such a weight keep their
    values. Arguments, return value and errors are the same as for `load_optimizer`.
    """
    optimizer.build(model.trainable_variables)
    slots = optimizer.slots()
    is_lazy = any(name.startswith(_SCOPE + _LAZY_ADAM) for name in variables)
    values, used = [], set()
    for entry in t2t_import.weight_entries(model):
        # This list has one element for each slot of the weight: the names of the slot's shards.
        shards = [
            [_slot_name(optimizer, name, number, is_lazy) for name in entry.names]
            for number in range(len(slots[entry.variable.path]))
        ]
        present = {name for names in shards for name in names if name in variables}
        used |= present
        if not present:
            continue
        _check_complete(entry, shards, present)
        for slot, names in zip(slots[entry.variable.path], shards, strict=True):
            values.append((slot, _merge_shards(slot, entry, names, variables)))
    expected = {name for name in variables if name.startswith(_SCOPE)} - used
    unknown = sorted(name for name in expected if not _DERIVED.fullmatch(name.removeprefix(_SCOPE)))
    if unknown:
        raise ValueError(
            f"The optimizer must be the T2T run's optimizer. Received: {type(optimizer).__name__}, "
            f"which cannot hold {len(unknown)} variables, such as {unknown[0]}."
        )
    for slot, value in values:
        slot.assign(value)
    optimizer.iterations.assign(int(variables["global_step"]))
    return int(variables["global_step"])


def _check_complete(entry, shards, present):
    """Raise ValueError if only some of the slots of a weight are present.

    The empty shards of an embedding table may lack slots in a checkpoint of T2T.
    """
    for names in shards:
        for name, shape in zip(names, entry.shapes, strict=True):
            if shape[0] > 0 and name not in present:
                raise ValueError(
                    "The checkpoint must contain all statistics of a weight, or none. "
                    f"Received: {min(present)} without {name}."
                )


def _slot_name(optimizer, weight_name, number, is_lazy):
    """Return the name of a slot of a weight in T2T's checkpoint.

    Args:
        number: int. The index of the slot among the slots of the weight.
        is_lazy: bool. Whether the checkpoint contains slots of LazyAdam.
    """
    if is_lazy and type(optimizer) is adam.Adam:
        return f"{_SCOPE}{_LAZY_ADAM}{weight_name}/{_LAZY_ADAM_SLOTS[number]}"
    kind = optimizer.t2t_slot_name + (f"_{number}" if number else "")
    return f"{_SCOPE}{weight_name}/{kind}"


def _merge_shards(slot, entry, names, variables):
    """Join the shards of one slot of a weight. Empty shards are skipped."""
    shapes = zip(names, entry.shapes, strict=True)
    present = [name for name, shape in shapes if shape[0] > 0]
    t2t_import.check_finite(present, variables)  # T2T's empty shards contain NaN
    filled = [np.asarray(variables[name]) for name in present]
    size = sum(part.size for part in filled)
    if size != np.prod(slot.shape):
        raise ValueError(
            f"{names[0]} and the other shards of {slot.path} must have {np.prod(slot.shape)} "
            f"numbers in total. Received: {size}."
        )
    return np.concatenate([part.ravel() for part in filled]).reshape(slot.shape)
