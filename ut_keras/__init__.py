"""Transformer and (Adaptive) Universal Transformer for TensorFlow and Keras.

Importing this package loads neither TensorFlow nor Keras. Modules of the package that need
TensorFlow or Keras import it.

If the program has already imported Keras, this package registers its model classes, so that
`keras.models.load_model` finds them. Otherwise, this package selects TensorFlow as the backend of
Keras by setting the environment variable KERAS_BACKEND. Only this variable selects a backend
without an import of Keras, and it has precedence over `keras.json`. If KERAS_BACKEND already names
another backend, the package prints a warning.
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
    # In a checkout without symbolic links (on Windows), problems/, hparams/ and pretrained/ are
    # next to this folder.
    __path__.append(os.path.dirname(__path__[0]))


def load(
    path: str | os.PathLike[str],
    checkpoint_path: str | None = None,
    problem: Any = None,
    data_dir: str | None = None,
) -> "SavedRun | keras.Model":
    """Load a trained run or a saved model.

    The import of TensorFlow takes seconds, so the function prints a line before the import.

    Args:
        path: str or `os.PathLike`. One of the following:
            - the folder of a run
            - a file or folder that `model.save` wrote
            - the name of a run that ships with the package (see `pretrained`). A folder of the same
              name has precedence.
            - an address "hf://user/name@revision" of the Hugging Face hub
        checkpoint_path, problem, data_dir: options for the folder of a run, see `saved_run.load`.
            A saved model contains no text encoders. To use a saved model with texts, also pass its
            problem and the data_dir that contains its vocabulary.

    Returns:
        `SavedRun`, whose inputs are texts, if `path` is a run or if `problem` is given.
        `keras.Model` if `path` is a saved model and `problem` is None.

    Raises:
        DataError: if a file is missing, or if another program wrote the file.
    """
    from ut_keras.files import file_error
    from ut_keras.inference import run_directory

    path = file_error.checked_path(path, "path")
    run_directory.check_arguments(checkpoint_path, problem, data_dir)
    folder, is_keras = _find(path)
    if is_keras:
        run_directory.check_keras_arguments(checkpoint_path, problem, data_dir)
    if "tensorflow" not in sys.modules:  # the import takes up to half a minute
        print(f"Loading TensorFlow and {path}…", file=sys.stderr, flush=True)
        tensorflow_log.load()
    from ut_keras.inference import saved_run

    if is_keras:
        from ut_keras import keras_file

        model = keras_file.load(folder)
        return model if problem is None else saved_run.SavedRun.of(model, problem, data_dir)
    return saved_run.load(folder, checkpoint_path, problem, data_dir)


def _find(path):
    """Return (location, whether Keras wrote the files at this location).

    The location is a folder, a file or an address. The function does not import TensorFlow.
    """
    from ut_keras import pretrained
    from ut_keras.errors import DataError
    from ut_keras.inference import hub, run_directory

    if path.startswith(hub.PREFIX):
        hub.check(path)
        return path, False
    files_of_keras = ("metadata.json", "model.weights.h5")  # written by model.save(…, zipped=False)
    is_folder = all(os.path.isfile(os.path.join(path, name)) for name in files_of_keras)
    if is_folder or path.endswith(".keras") and os.path.exists(path):
        return path, True
    if not os.path.exists(path):
        if path in pretrained.names():
            return pretrained.folder(path), False
        raise DataError(
            "path must be the folder of a run, a file NAME.keras, hf://user/name, or the name of a "
            f"run that ships with the package: {', '.join(pretrained.names())}. "
            f"Received: {path!r}, which does not exist."
        )
    run_directory.check_folder(path, "path")
    return path, False


if "keras" in sys.modules:
    if (backend := sys.modules["keras"].config.backend()) != "tensorflow":
        raise ImportError(f"ut_keras needs Keras on TensorFlow. Received: Keras on {backend}.")
    from ut_keras import keras_file  # noqa: F401
else:
    if (backend := os.environ.get("KERAS_BACKEND") or "tensorflow") != "tensorflow":
        warnings.warn(f"ut_keras runs Keras on TensorFlow, not on {backend}.", stacklevel=2)
    os.environ["KERAS_BACKEND"] = "tensorflow"
