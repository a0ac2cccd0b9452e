"""A few examples of an evaluation, looked at: for TensorBoard's images and histograms.

    look = EvaluationPictures(model)
    look(make_dataset)  ->  Pictures({"attention/encoder/0": [1, height, width, 3]}, {"encoder": …})

The examples are the first ones of the first evaluation, ever the same, so that pictures can be
compared. An image is a grid: a row for every step and layer, a column for every head; in each cell
white is 0, blue is 1, a row of pixels is a position that looks, and padding is left out.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ut_keras.training import ponder as ponder_lib

PONDERED_EXAMPLES = 16
DRAWN_EXAMPLES = 2
_MOST_POSITIONS = 64  # of an example, the last ones: a story's question is there
_CELL_PIXELS = 64  # about, of a short example
_GAP = 2
_BLUE = np.array([8, 81, 156], np.float32)


class Pictures(NamedTuple):
    """What is written."""

    images: dict  # from tag to uint8 [1, height, width, 3]
    ponder: dict  # from stack to (ponder times, mask), as `Summaries.write_training` takes it


class EvaluationPictures:
    """Looks at examples.

    Args:
        model: with `forward(features, training, record_attention)`.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._examples: Any = None

    def __call__(self, make_dataset: Callable[[], tf.data.Dataset]) -> Pictures:
        """Looks at the examples of the first call.

        Args:
            make_dataset: function to a `tf.data.Dataset` of (features, targets), batches.
        Returns:
            `Pictures`.
        """
        if self._examples is None:
            [batch] = make_dataset().take(1)
            self._examples = tf.nest.map_structure(lambda x: x[:PONDERED_EXAMPLES], batch)
        features, targets, *_ = self._examples
        output = self._model.forward(features, training=False)
        pondered = ponder_lib.times_and_masks(output, features, targets)
        return Pictures(self._images(), tf.nest.map_structure(np.asarray, pondered))

    def _images(self):
        features, targets, *_ = tf.nest.map_structure(lambda x: x[:DRAWN_EXAMPLES], self._examples)
        output = self._model.forward(features, training=False, record_attention=True)
        source = _real(features.get("inputs"))
        target = _real(targets if len(output.logits.shape) > 2 else tf.ones_like(targets))
        found = {}
        for kind, stack, name, queries, keys in (
            ("encoder", output.encoder, "attention_weights", source, source),
            ("decoder", output.decoder, "attention_weights", target, target),
            ("memory", output.decoder, "memory_attention_weights", target, source),
        ):
            weights = None if stack is None else getattr(stack, name)
            if weights is None:
                continue
            weights = np.asarray(weights, np.float32)
            for row in range(weights.shape[1]):
                cells = weights[:, row][:, :, queries[row]][..., keys[row]]
                if cells.size:
                    found[f"attention/{kind}/{row}"] = _grid(cells)[np.newaxis]
        return found


def _real(ids):
    """bool [B, length], False at padding; None for None."""
    if ids is None:
        return None
    real = np.asarray(ids) != 0
    return real.any(axis=-1) if real.ndim > 2 else real


def _grid(weights):
    """uint8 [height, width, 3] of weights [N, H, T, S]."""
    weights = np.clip(weights[:, :, -_MOST_POSITIONS:, -_MOST_POSITIONS:], 0, 1)
    scale = max(1, _CELL_PIXELS // max(weights.shape[2:]))
    cells = weights.repeat(scale, axis=2).repeat(scale, axis=3)
    cells = np.pad(cells, [(0, 0), (0, 0), (0, _GAP), (0, _GAP)], constant_values=np.nan)
    number, heads, height, width = cells.shape
    plane = cells.transpose(0, 2, 1, 3).reshape(number * height, heads * width, 1)
    colours = 255 - plane * (255 - _BLUE)
    return np.where(np.isnan(plane), 128, colours).astype(np.uint8)
