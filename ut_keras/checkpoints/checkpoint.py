"""Checkpoints that let a stopped run resume as if it had never stopped.

    checkpoints = Checkpoints(output_dir, model, optimizer, position)
    checkpoints.restore_newest()   ->  True if there was a checkpoint
    checkpoints.start_saving()     copies the state and returns; the copy is written in a thread
    checkpoints.finish_saving()

As in T2T, a checkpoint is called `model.ckpt-STEP`. It contains these variables, by name:

- the variables of the model, under their Keras paths
- the variables of the optimizer
- the state of each dropout's random number generator, which neither Keras nor TensorFlow saves;
  without this state, a resumed run would sample other dropout masks
- the position in the data

`checkpoint_files` writes the files and lists the checkpoints of a folder.
"""

import concurrent.futures
import contextlib
import re
from typing import TYPE_CHECKING, Any, cast

import keras
import tensorflow as tf

from ut_keras.checkpoints import checkpoint_files
from ut_keras.checkpoints.checkpoint_files import CheckpointError
from ut_keras.files import file_error
from ut_keras.ops import finite

if TYPE_CHECKING:
    import numpy as np

_SEED_SUFFIX = "seed_generator_state"
_AVERAGE = "moving_average"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # TensorFlow's key for a checkpoint's structure
_KEY_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

# The errors that TensorFlow raises for damaged files. Its checkpoint reader converts some of them
# to Python's own errors.
_UNREADABLE = (tf.errors.OpError, OSError, IndexError, RuntimeError)


class SaveError(CheckpointError):
    """A checkpoint could not be written. Earlier checkpoints are unchanged."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: str, the folder of the checkpoints.
        model: a built Keras model.
        optimizer: a built Keras optimizer, or None to read only the model.
        position: dict from name to `tf.Variable`, the position in the data. Optional.
        keep: int. Number of newest checkpoints to keep. 0 means all checkpoints.
        moving_average: dict from name to `tf.Variable`, or None. Checkpoints without moving
            averages can be read too. The attribute `has_moving_average` is True if the checkpoint
            that was read last contained moving averages.
    """

    def __init__(
        self,
        directory: str,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer | None = None,
        position: dict[str, tf.Variable] | None = None,
        keep: int = 20,
        moving_average: dict[str, tf.Variable] | None = None,
    ) -> None:
        self._directory = directory
        self._optimizer: Any = optimizer
        self._updates_per_batch: int = getattr(model, "num_segments", 1)
        groups = {"model": model_variables(model)}
        if optimizer is not None:
            # Keras names an optimizer's variable OPTIMIZER/MODEL_LAYER_WEIGHT_SLOT.
            prefixes = (f"{optimizer.name}/", f"{model.name}_")
            groups["optimizer"] = _by_path(optimizer.variables, *prefixes)
            # The states of the random number generators, in order of creation.
            seeds = [variable for variable in model.variables if _is_seed(variable)]
            groups["seeds"] = {str(number): seed.value for number, seed in enumerate(seeds)}
        if position is not None:
            groups["position"] = dict(position)
        if moving_average is not None:
            groups[_AVERAGE] = dict(moving_average)
        self.has_moving_average = False
        self._groups = groups
        self._keep = keep
        # Path of the newest checkpoint, or of the checkpoint that was read last.
        self.newest = checkpoint_files.newest(directory)
        # Copies of the groups in host memory. Training does not change the copies while they are
        # saved.
        self._copies: dict[str, dict[str, tf.Variable]] = {}
        self._checkpoint: tf.train.Checkpoint | None = None
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._writing: concurrent.futures.Future | None = None

    @property
    def step(self) -> int:
        """The number of batches that the optimizer has used.

        The optimizer counts updates. A model with several segments has several updates per batch.
        """
        return int(self._optimizer.iterations.numpy()) // self._updates_per_batch

    def save(self) -> str:
        """Write the checkpoint of the optimizer's current step and return its path.

        Raises:
            SaveError: if the checkpoint cannot be written, for example because the disk is full.
        """
        self.start_saving()
        return cast(str, self.finish_saving())

    def start_saving(self) -> None:
        """Copy the state to host memory and start to write it in the background.

        Training may continue as soon as this method returns. If the previous checkpoint is still
        being written, the method first waits for it.

        Raises:
            SaveError: if the previous checkpoint could not be written.
        """
        self.finish_saving()
        self._copy_state()
        self._writing = self._writer.submit(self._write, self.step)

    def finish_saving(self, wait: bool = True) -> str | None:
        """Wait until the started checkpoint is written.

        Args:
            wait: bool. If False, the method returns None at once while the checkpoint is being
                written.

        Returns:
            str, the path of the checkpoint. The value is None if no checkpoint was started, or if
            the started checkpoint is not finished.

        Raises:
            SaveError: if the checkpoint could not be written.
        """
        if self._writing is None or not (wait or self._writing.done()):
            return None
        writing, self._writing = self._writing, None
        return writing.result()

    def _copy_state(self):
        if self._checkpoint is None:
            with tf.device("CPU:0"):
                self._copies = {
                    group: {
                        name: tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False)
                        for name, v in variables.items()
                    }
                    for group, variables in self._groups.items()
                }
            self._checkpoint = tf.train.Checkpoint(**self._copies)
        for group, variables in self._groups.items():
            for name, variable in variables.items():
                self._copies[group][name].assign(variable)

    def _write(self, step):
        try:
            self.newest = checkpoint_files.save(self._checkpoint, self._directory, step, self._keep)
        except (tf.errors.OpError, OSError) as error:
            raise SaveError(
                f"The checkpoint of step {step} could not be saved to {self._directory}: "
                f"{file_error.one_line(error)}"
            ) from error
        return self.newest

    def restore_newest(self) -> bool:
        """Read the newest readable checkpoint, and return whether there is a checkpoint.

        Raises:
            CheckpointError: if the checkpoint belongs to another model, or if no checkpoint can be
                read.
        """
        failures = []
        for path in checkpoint_files.newest_first(self._directory):
            try:
                self._restore(path)
            except _UNREADABLE as error:
                failures.append(f"{path}: {file_error.one_line(error)}")
                continue
            for failure in failures:
                print(f"Skipped a checkpoint that cannot be read: {failure}", flush=True)
            self.newest = path
            return True
        if failures:
            raise CheckpointError(
                f"At least one checkpoint must be readable. Received: {'; '.join(failures)}"
            )
        return False

    def restore(self, path: str) -> None:
        """Read one checkpoint, such as "run/model.ckpt-1000".

        Raises:
            CheckpointError: if the checkpoint cannot be read or belongs to another model.
        """
        with _readable(path):
            self._restore(path)

    def moving_average_note(self) -> str | None:
        """Return a message if the moving average starts or ends with this checkpoint.

        Otherwise the return value is None.
        """
        if self.has_moving_average == (_AVERAGE in self._groups):
            return None
        if self.has_moving_average:
            return (
                "Ignoring the moving average of the weights in the checkpoint, because "
                "--moving_average_decay is not given"
            )
        return "Starting a moving average of the weights, because the checkpoint contains none"

    def _restore(self, path):
        reader = _reader(path)
        shapes = reader.get_variable_to_shape_map()
        self.has_moving_average = any(key.startswith(f"{_AVERAGE}/") for key in shapes)
        variables = {
            _variable_key(group, name): variable
            for group, named in self._groups.items()
            if group != _AVERAGE or self.has_moving_average
            for name, variable in named.items()
        }
        # These variables may be missing:
        # - the order of the batches, in checkpoints of older versions
        # - the state of a curriculum
        # - the random states of dropout and of gradient noise, if the earlier run did not use them
        optional_keys = _variable_key("position", "order"), _variable_key("optimizer", "noise_seed")
        for key in variables.keys() - shapes.keys():
            if key in optional_keys or key.startswith(("seeds/", "position/curriculum_")):
                del variables[key]
        _check_is_ut_keras_checkpoint(path, shapes)
        if self._optimizer is not None and not any(key.startswith("optimizer/") for key in shapes):
            raise CheckpointError(
                f"{path} must contain the optimizer's state, because training cannot resume "
                "without it. Received: only weights, as ut-avg-checkpoints writes them."
            )
        _check_shapes(path, shapes, variables)
        # `tf.train.Checkpoint.restore` is not used. For each variable that was not read, it would
        # print a line at the end of the process. All values are read before any variable is
        # changed. The values are cast, because the checkpoint may hold float16. The reader would
        # return NumPy arrays, which TensorFlow would copy, so `RestoreV2` reads the values.
        dtypes = reader.get_variable_to_dtype_map()
        with tf.device("CPU:0"):
            values = tf.raw_ops.RestoreV2(
                prefix=path,
                tensor_names=list(variables),
                shape_and_slices=[""] * len(variables),
                dtypes=[dtypes[key] for key in variables],
            )
            named = zip(variables.items(), values, strict=True)
            read = [(key, v, tf.cast(value, v.dtype)) for (key, v), value in named]
        if _OBJECT_GRAPH in shapes:  # the value of this key is read only to detect damage
            reader.get_tensor(_OBJECT_GRAPH)
        _check_finite(path, ((key, value) for key, _, value in read))
        for _, variable, value in read:
            variable.assign(value)


def _check_finite(path, named):
    """Check that weights and moving averages are finite.

    Training never saves values that are not finite.
    """
    of_weights = (pair for pair in named if pair[0].startswith(("model/", f"{_AVERAGE}/")))
    if key := finite.first_non_finite(of_weights):
        raise CheckpointError(
            f"{path} must contain finite weights. Received: {_variable_name(key)}, with NaN or inf."
        )


def _check_shapes(path, shapes, variables):
    """Check that a checkpoint contains these variables, with these shapes.

    The checkpoint must not contain further variables in the group "model". It may contain further
    variables in other groups.
    """
    expected = {key: tuple(variable.shape) for key, variable in variables.items()}
    stored = {
        key: tuple(shapes[key]) for key in shapes if key in expected or key.startswith("model/")
    }
    for key in expected | stored:
        if expected.get(key) != stored.get(key):
            raise CheckpointError(
                f"{path} must belong to the same model and vocabulary. Received: variable "
                f"{_variable_name(key)} is {stored.get(key, 'missing')} in the checkpoint and "
                f"{expected.get(key, 'missing')} in the model."
            )


def restored(
    directory: str, model: keras.Model, moving_average: dict[str, tf.Variable] | None = None
) -> Checkpoints:
    """Restore a run's newest checkpoint for evaluation. Return the `Checkpoints`.

    Args:
        directory, model, moving_average: the same as for `Checkpoints`.

    Raises:
        CheckpointError: if there is no checkpoint, or if moving averages are requested and the
            checkpoint contains none.
    """
    checkpoints = Checkpoints(directory, model, moving_average=moving_average)
    if not checkpoints.restore_newest():
        raise CheckpointError(
            f"{directory} must contain a checkpoint. Received: no checkpoint. Train first."
        )
    if moving_average and not checkpoints.has_moving_average:
        raise CheckpointError(
            "moving_average_decay requires a checkpoint that contains moving averages. Received: "
            f"{checkpoints.newest}, which contains none."
        )
    return checkpoints


def read_weights(path: str) -> "dict[str, np.ndarray]":
    """Read the weights of a model from a checkpoint, without building the model.

    Returns:
        dict from the path of a variable to its value.

    Raises:
        CheckpointError: if the checkpoint cannot be read, was not written by ut_keras, or contains
            a weight that is not finite.
    """
    with _readable(path):
        reader = _reader(path)
        names = _variable_names(path, reader)
        values = {key: reader.get_tensor(key) for key in names}
    _check_finite(path, values.items())
    return {names[key]: value for key, value in values.items()}


def contains_moving_average(path: str) -> bool:
    """Return whether a checkpoint contains moving averages of the weights.

    Raises:
        CheckpointError: if the checkpoint cannot be read.
    """
    with _readable(path):
        keys = _reader(path).get_variable_to_shape_map()
    return any(key.startswith(f"{_AVERAGE}/") for key in keys)


def _variable_names(path, reader):
    """Return a dict from key to name for the model's variables in a checkpoint."""
    keys = reader.get_variable_to_shape_map()
    _check_is_ut_keras_checkpoint(path, keys)
    return {
        key: _variable_name(key)
        for key in keys
        if key.startswith("model/") and key.endswith(_KEY_SUFFIX)
    }


def contains_only_weights(path: str, like: str = "") -> bool:
    """Return whether ut_keras wrote a checkpoint that contains only weights.

    Args:
        path: str, the path of the checkpoint.
        like: str, the path of another checkpoint. If it is given, the result is True only if both
            checkpoints also contain the same variables of the model.

    Raises:
        CheckpointError: if a checkpoint cannot be read, or if ut_keras did not write `like`.
    """
    with _readable(path):
        keys = _reader(path).get_variable_to_shape_map()
    of_model = [key for key in keys if key.startswith("model/")]
    if like:
        with _readable(like):
            if _variable_names(like, _reader(like)).keys() != set(of_model):
                return False
    # In a key of ut_keras, the name of the variable has no slash (see `_variable_key`). In the keys
    # of other programs, the name has several parts, separated by slashes.
    own_keys = [key for key in of_model if key.removesuffix(_KEY_SUFFIX).count("/") == 1]
    return (
        bool(own_keys)
        and own_keys == of_model
        and not any(key.startswith("optimizer") for key in keys)
    )


def model_variables(model: keras.Model) -> dict[str, Any]:
    """Return a dict from path to variable for the variables of a model.

    The states of random number generators are excluded. The paths do not contain the name of the
    model.
    """
    return _by_path(
        [variable for variable in model.variables if not _is_seed(variable)], f"{model.name}/"
    )


def _by_path(variables, *prefixes):
    named = {}
    for variable in variables:
        path = variable.path
        for prefix in prefixes:
            path = path.removeprefix(prefix)
        if path in named:
            raise ValueError(f"Variables must have different paths. Received: {path} twice.")
        named[path] = variable.value if isinstance(variable, keras.Variable) else variable
    return named


def _is_seed(variable):
    return variable.path.endswith(_SEED_SUFFIX)


def _check_is_ut_keras_checkpoint(path, keys):
    if not any(key.startswith("model/") and key.endswith(_KEY_SUFFIX) for key in keys):
        raise CheckpointError(
            f"{path} must be a checkpoint of ut_keras. Received: none of its variables. "
            "If Tensor2Tensor wrote the checkpoint, import it with ut-import-t2t."
        )


def _reader(path):
    checkpoint_files.check_accessible(path)
    return tf.train.load_checkpoint(path)


@contextlib.contextmanager
def _readable(path):
    try:
        yield
    except _UNREADABLE as error:
        raise CheckpointError(
            f"A checkpoint must be readable. Received: {path}: {file_error.one_line(error)}"
        ) from error


def _variable_key(group, name):
    # This is the format of `tf.train.Checkpoint` for keys of a dict.
    escaped = name.replace(".", "..").replace("/", ".S")
    return f"{group}/{escaped}{_KEY_SUFFIX}"


def _variable_name(key):
    """Return the name of a variable from its key, as the inverse of `_variable_key`."""
    escaped = key.partition("/")[2].removesuffix(_KEY_SUFFIX)
    return re.sub(r"\.(S|\.)", lambda match: "/" if match[1] == "S" else ".", escaped)
