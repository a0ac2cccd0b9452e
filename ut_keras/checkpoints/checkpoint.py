"""Checkpoints: everything that a stopped run needs to go on as if it had not been stopped.

    checkpoints = Checkpoints(output_dir, model, optimizer, position)
    checkpoints.restore_newest()   ->  True if there was one
    checkpoints.start_saving()     returns at once; what is written is the state of this moment
    checkpoints.finish_saving()

A checkpoint is `model.ckpt-STEP`, as in T2T, and holds by name: the model's variables (by their
Keras paths), the optimizer's, the state of every dropout's random numbers (which neither Keras nor
TensorFlow would save, and without which a resumed run draws other masks), and the place in the
data. `checkpoint_files` knows how one gets to the disk, and which there are.
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
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # TensorFlow's
_KEY_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

# What TensorFlow raises on damaged files; its checkpoint reader turns some codes into Python's own.
_UNREADABLE = (tf.errors.OpError, OSError, IndexError, RuntimeError)


class SaveError(CheckpointError):
    """A checkpoint could not be written; those that there were are as they were."""


class Checkpoints:
    """The checkpoints of one run.

    Args:
        directory: str, where they lie.
        model: a built Keras model.
        optimizer: a built Keras optimizer, or None to read the model only.
        position: dict from name to `tf.Variable`: the place in the data. Optional.
        keep: int. How many of the newest to keep; 0 keeps all.
        moving_average: dict from name to `tf.Variable`, or None. Checkpoints of a run without one
            can be read: `has_moving_average` says whether the one that was read had it.
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
        groups = {"model": model_variables(model)}
        if optimizer is not None:
            # Keras names a slot OPTIMIZER/MODEL_LAYER_WEIGHT_SLOT.
            prefixes = (f"{optimizer.name}/", f"{model.name}_")
            groups["optimizer"] = _by_path(optimizer.variables, *prefixes)
            # Of the random number generators, in order of creation.
            seeds = [variable for variable in model.variables if _is_seed(variable)]
            groups["seeds"] = {str(number): seed.value for number, seed in enumerate(seeds)}
        if position is not None:
            groups["position"] = dict(position)
        if moving_average is not None:
            groups[_AVERAGE] = dict(moving_average)
        self.has_moving_average = False
        self._groups = groups
        self._keep = keep
        # Path of the newest checkpoint; of several that there are, the one that was read.
        self.newest = checkpoint_files.newest(directory)
        # Copies of the groups in host memory, where a train step does not change them.
        self._copies: dict[str, dict[str, tf.Variable]] = {}
        self._checkpoint: tf.train.Checkpoint | None = None
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._writing: concurrent.futures.Future | None = None

    def save(self) -> str:
        """Writes the checkpoint of the step that the optimizer has reached; returns its path.

        Raises:
            SaveError: if the disk is full, or whatever else keeps it from being written.
        """
        self.start_saving()
        return cast(str, self.finish_saving())

    def start_saving(self) -> None:
        """Sets the state aside, in host memory, and starts to write it; training may go on.

        Raises:
            SaveError: if the checkpoint before, which is waited for, could not be written.
        """
        self.finish_saving()
        self._copy_state()
        step = int(self._optimizer.iterations.numpy())
        self._writing = self._writer.submit(self._write, step)

    def finish_saving(self, wait: bool = True) -> str | None:
        """Waits until what was started is written; tells if that failed.

        Without `wait` it is only told if it is known by now. Returns the path of the checkpoint;
        None if none was being written, or still is. Raises as `save`.
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
                f"{file_error.line(error)}"
            ) from error
        return self.newest

    def restore_newest(self) -> bool:
        """Reads the newest checkpoint that can be read; returns whether there was one.

        Raises:
            CheckpointError: if it belongs to another model, or none can be read.
        """
        failures = []
        for path in checkpoint_files.newest_first(self._directory):
            try:
                self._restore(path)
            except _UNREADABLE as error:
                failures.append(f"{path}: {file_error.line(error)}")
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
        """Reads one checkpoint, such as "run/model.ckpt-1000".

        Raises:
            CheckpointError: if it cannot be read or belongs to another model.
        """
        with _readable(path):
            self._restore(path)

    def moving_average_note(self) -> str | None:
        """What is to be said if averages begin or end with what was restored; else None."""
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
        # Of an older version; of dropout, or noise of gradients, that begins here.
        optional_keys = _variable_key("position", "order"), _variable_key("optimizer", "noise_seed")
        for key in variables.keys() - shapes.keys():
            if key in optional_keys or key.startswith("seeds/"):
                del variables[key]
        _check_is_ut_keras_checkpoint(path, shapes)
        if self._optimizer is not None and not any(key.startswith("optimizer/") for key in shapes):
            raise CheckpointError(
                f"{path} must contain the optimizer's state, because training cannot resume "
                "without it. Received: only weights, as ut-avg-checkpoints writes them."
            )
        _check_shapes(path, shapes, variables)
        # Not by tf.train.Checkpoint: what it does not come to read it lists, a line each, when the
        # process ends. All is read before anything is changed; float16 has a type of its own.
        read = [(key, v, reader.get_tensor(key)) for key, v in variables.items()]
        if _OBJECT_GRAPH in shapes:  # nobody needs it, but it tells of damage
            reader.get_tensor(_OBJECT_GRAPH)
        cast = [(key, v, tf.cast(value, v.dtype)) for key, v, value in read]
        _check_finite(path, ((key, value) for key, _, value in cast))
        for _, variable, value in cast:
            variable.assign(value)


def _check_finite(path, named):
    """Checks the weights, and averages of them; training never saves any that are not finite."""
    of_weights = (pair for pair in named if pair[0].startswith(("model/", f"{_AVERAGE}/")))
    if key := finite.first_not_finite(of_weights):
        raise CheckpointError(
            f"{path} must contain finite weights. Received: {_variable_name(key)}, with NaN or inf."
        )


def _check_shapes(path, shapes, variables):
    """Checks that a checkpoint has all variables, of these shapes, and no others of a model."""
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
    """The `Checkpoints` of a run that is not trained on, its newest read into the model.

    Args:
        directory, model, moving_average: as for `Checkpoints`.

    Raises:
        CheckpointError: if there is none, or it holds no averages where they are asked for.
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
    """Reads the model's variables of a checkpoint, by their paths, without a model.

    Raises:
        CheckpointError: if it cannot be read, was not written by this library, or holds a weight
            that is not finite.
    """
    with _readable(path):
        reader = _reader(path)
        names = _variable_names(path, reader)
        values = {key: reader.get_tensor(key) for key in names}
    _check_finite(path, values.items())
    return {names[key]: value for key, value in values.items()}


def _variable_names(path, reader):
    """{key: name} of the model's variables."""
    keys = reader.get_variable_to_shape_map()
    _check_is_ut_keras_checkpoint(path, keys)
    return {
        key: _variable_name(key)
        for key in keys
        if key.startswith("model/") and key.endswith(_KEY_SUFFIX)
    }


def contains_only_weights(path: str, like: str = "") -> bool:
    """Whether a checkpoint holds weights of ours alone, those of the checkpoint `like` if given.

    Raises:
        CheckpointError: if one cannot be read, or `like` was not written by this library.
    """
    with _readable(path):
        keys = _reader(path).get_variable_to_shape_map()
    of_model = [key for key in keys if key.startswith("model/")]
    if like:
        with _readable(like):
            if _variable_names(like, _reader(like)).keys() != set(of_model):
                return False
    # A name of ours is one part of a key, see `_variable_key`; others' are several.
    own_keys = [key for key in of_model if key.removesuffix(_KEY_SUFFIX).count("/") == 1]
    return (
        bool(own_keys)
        and own_keys == of_model
        and not any(key.startswith("optimizer") for key in keys)
    )


def model_variables(model: keras.Model) -> dict[str, Any]:
    """The model's variables by path, without the seeds and without the model's own name."""
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
            f"A checkpoint must be readable. Received: {path}: {file_error.line(error)}"
        ) from error


def _variable_key(group, name):
    # As `tf.train.Checkpoint` spells a dict key.
    escaped = name.replace(".", "..").replace("/", ".S")
    return f"{group}/{escaped}{_KEY_SUFFIX}"


def _variable_name(key):
    """The name that `_variable_key` makes a key of."""
    escaped = key.partition("/")[2].removesuffix(_KEY_SUFFIX)
    return re.sub(r"\.(S|\.)", lambda match: "/" if match[1] == "S" else ".", escaped)
