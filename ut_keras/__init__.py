"""The Transformer and the (Adaptive) Universal Transformer for TensorFlow and Keras.

Importing this package loads neither TensorFlow nor Keras. Its modules import them when they are
used. If Keras has been imported before, this package registers its model classes, so that
`keras.models.load_model` finds them. If not, this package selects TensorFlow as Keras' backend by
the environment variable KERAS_BACKEND, the only way that works without importing Keras. It warns
if KERAS_BACKEND names another backend; it overrides `keras.json`.
"""

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ut_keras.process import tensorflow_log

if TYPE_CHECKING:
    import keras

    from ut_keras.inference.saved_run import SavedRun

__version__ = "0.2.0"

if not os.path.isdir(os.path.join(__path__[0], "problems")):
    # A checkout without symbolic links (Windows): problems/, hparams/ and pretrained/ stand beside
    # this folder.
    __path__.append(os.path.dirname(__path__[0]))


def load(
    path: str | os.PathLike[str],
    checkpoint_path: str | None = None,
    problem: Any = None,
    data_dir: str | None = None,
) -> "SavedRun | keras.Model":
    """Load a trained run or a saved model.

    The function prints a line before it imports TensorFlow, which takes seconds.

    Args:
        path: str or `os.PathLike`. The folder of a run; a file or folder that `model.save` wrote;
            the name of a run that ships with the package (see `pretrained`; a folder of the same
            name has precedence); or "hf://user/name@revision" of the Hugging Face hub.
        checkpoint_path, problem, data_dir: options for the folder of a run, see `saved_run.load`.

    Returns:
        `SavedRun` for a run, which takes texts; `keras.Model` for a saved model.

    Raises:
        DataError: if a file is missing, or if ut_keras did not write it.
    """
    from ut_keras.files import file_error

    path = file_error.checked_path(path, "path")
    if "tensorflow" not in sys.modules:  # it takes up to half a minute
        print(f"Loading TensorFlow and {path}…", file=sys.stderr, flush=True)
        tensorflow_log.load()
    expanded, is_on_hub = os.path.expanduser(path), path.startswith("hf://")
    files_of_keras = ("metadata.json", "model.weights.h5")  # of model.save(…, zipped=False)
    is_folder = all(os.path.isfile(os.path.join(expanded, name)) for name in files_of_keras)
    if is_folder or path.endswith(".keras") and not is_on_hub:
        from ut_keras import keras_file

        return keras_file.load(path)
    from ut_keras import pretrained
    from ut_keras.errors import DataError
    from ut_keras.inference import saved_run

    if not is_on_hub and not os.path.exists(expanded):
        if path not in pretrained.names():
            raise DataError(
                "path must be the folder of a run, a .keras file, hf://user/name, or the name of a "
                f"run that comes along: {', '.join(pretrained.names())}. Received: {path!r}."
            )
        path = pretrained.folder(path)
    return saved_run.load(path, checkpoint_path, problem, data_dir)


if "keras" in sys.modules:
    if (backend := sys.modules["keras"].config.backend()) != "tensorflow":
        raise ImportError(f"ut_keras needs Keras on TensorFlow. Received: Keras on {backend}.")
    from ut_keras import keras_file  # noqa: F401
else:
    if (backend := os.environ.get("KERAS_BACKEND") or "tensorflow") != "tensorflow":
        warnings.warn(f"ut_keras runs Keras on TensorFlow, not on {backend}.", stacklevel=2)
    os.environ["KERAS_BACKEND"] = "tensorflow"
