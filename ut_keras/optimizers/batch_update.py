"""The updates of a batch, for `fit` and the trainer: one for each model segment.

    done = batch_update.update(model, optimizer, forward_and_terms)

Most models have one segment, so a batch has one update. A model with `recurrence_segments=M` has M
updates for each batch (`layers.depth.segments`). All of them happen in one step of the trainer or
of `fit`. Therefore the carried state never outlives a step, and a checkpoint between two steps is
complete without it.

`train_steps`, the learning-rate schedule of the hparams, logs and checkpoints count steps, so one
batch counts as 1. `optimizer.iterations` counts updates, so it increases by M for each batch. Adam
requires this number to correct the bias of its moments.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from ut_keras.hparam_schema import HParamError
from ut_keras.ops.loss_term import LossTerm
from ut_keras.optimizers import optimizer as optimizer_lib
from ut_keras.optimizers import update as update_lib
from ut_keras.optimizers.update import Update


def count(model: Any) -> int:
    """Return the number of updates per batch: the number of the model's segments."""
    return getattr(model, "num_segments", 1)


def update(
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    forward_and_terms: Callable[[Any], tuple[Any, Mapping[str, list[LossTerm]]]],
    one_update: Callable[..., Update] = update_lib.update,
) -> Update:
    """Run all updates of a batch.

    Args:
        model, optimizer: as in `update.update`.
        forward_and_terms: function of the carried state. It runs the forward pass of one segment,
            and returns the same as in `update.update`. The carried state of the first segment is
            None. The carried state of each later segment is the field `carried` of the previous
            output.
        one_update: `update.update` or `update.update_in_two_programs`.

    Returns:
        `Update`. The output comes from the last segment. Each loss is the mean over the segments.

    Raises:
        HParamError: if the model has several segments, and the optimizer accumulates gradients over
            several updates.
    """
    num_segments = count(model)
    if num_segments == 1:
        return one_update(model, optimizer, functools.partial(forward_and_terms, None))
    _check_no_accumulation(optimizer, num_segments)
    carried, done, losses = None, None, []
    for segment in range(num_segments):
        run = functools.partial(forward_and_terms, carried)
        # Without input injection, only the first segment reads the embeddings.
        done = one_update(model, optimizer, run, fills_gradients=segment > 0)
        losses.append(done.losses)
        carried = done.output.carried
    assert done is not None
    mean = tf.nest.map_structure(lambda *values: tf.add_n(values) / num_segments, *losses)
    return Update(done.output, mean)


def _check_no_accumulation(optimizer, num_segments):
    names = ("gradient_accumulation_steps", "accumulate_steps")
    for one, name in itertools.product(optimizer_lib.weight_optimizers(optimizer), names):
        value = getattr(one, name, None) or 1
        if value > 1:
            raise HParamError(
                f"{name} must be 1 for a model with several segments, because each segment has its "
                f"own update. Received: {name}={value} with recurrence_segments={num_segments}."
            )
