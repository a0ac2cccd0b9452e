"""Load a `.keras` file of `model.save`, for `ut_keras.load("model.keras")`.

Keras finds a class of the file only if the module that registers the class was imported. This
module imports all such modules, so that Keras' own `load_model` finds the classes too. A program
that calls `load_model` only needs to import the package:

    import keras
    import ut_keras

    model = keras.models.load_model("model.keras")
"""

from ut_keras.process import silent_tensorflow  # noqa: F401  (before the imports of TensorFlow)

# isort: split
import os

import keras

import ut_keras.metrics.keras_metrics
import ut_keras.models.lstm_seq2seq
import ut_keras.models.neural_gpu
import ut_keras.models.universal_transformer
import ut_keras.optimizers  # noqa: F401
from ut_keras.errors import DataError
from ut_keras.files import file_error
from ut_keras.ops import finite

# Maximum number of characters of Keras' reason in an error. Keras adds the complete configuration
# to some of its errors.
_LONGEST_REASON = 200


def load(path: str | os.PathLike[str]) -> keras.Model:
    """Load a model from a `.keras` file.

    Args:
        path: str or `os.PathLike`. The path of a file whose name ends in ".keras", or the path of a
            folder that `model.save(folder, zipped=False)` wrote.

    Returns:
        `keras.Model`. The model is compiled if it was compiled when it was saved.

    Raises:
        DataError: if the file does not exist, contains no known model, or contains a weight that is
            not finite.
    """
    path = file_error.checked_path(path, "path")
    if not os.path.isdir(path) and not (path.endswith(".keras") and os.path.isfile(path)):
        raise DataError(
            f"A Keras model must be a file, NAME.keras, or a folder. Received: {path!r}."
        )
    try:
        model = keras.models.load_model(path)
    except Exception as error:  # A file with arbitrary content can raise any error.
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON].rstrip(".")
        raise DataError(
            f"{path} must be a file that model.save wrote. Received: {reason}. If the file has "
            f"your own classes, import them before you load it."
        ) from error
    finite.check(path, ((weight.path, weight.value) for weight in model.weights))
    return model
