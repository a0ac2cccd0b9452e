"""The weights of the best evaluation, in a folder of their own, `OUTPUT_DIR/best`.

The folder holds one checkpoint, of the weights as they were evaluated (with a moving average, the
averaged ones) and nothing else: it can be evaluated and decoded from, not trained on.
"""

import os

import keras
import tensorflow as tf

from ut_keras import file_error
from ut_keras.checkpoints import checkpoint, checkpoint_files

FOLDER = "best"


class BestCheckpoint:
    """Keeps the weights of one step.

    Args:
        output_dir: str, of the run.
        model: a built Keras model.
    """

    def __init__(self, output_dir: str, model: keras.Model) -> None:
        self._directory = os.path.join(output_dir, FOLDER)
        self._model = model

    def holds(self, step: int) -> bool:
        """Whether the weights of `step` are there."""
        try:
            newest = checkpoint_files.newest(self._directory)
        except checkpoint.CheckpointError:
            return False
        return newest is not None and checkpoint_files.step_of(newest) == step

    def save(self, step: int) -> None:
        """Writes the weights and removes those of the step before.

        The older ones go when the new ones are whole. What cannot be written, as on a full disk, is
        said: training does not end for it.
        """
        weights = tf.train.Checkpoint(model=checkpoint.model_variables(self._model))
        try:
            checkpoint_files.save(weights, self._directory, step, keep=1)
        except (tf.errors.OpError, OSError) as error:
            print(
                f"The best weights are not written to {self._directory}: {file_error.line(error)}",
                flush=True,
            )
