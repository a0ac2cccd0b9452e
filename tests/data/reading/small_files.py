"""Functions that write small TFRecord files and read their batches."""

import pytest

from ut_keras.data import tfrecords
from ut_keras.data.features import FeatureSpec
from ut_keras.data.reading import input_pipeline, readable
from ut_keras.errors import DataError

SYMBOLS = {"inputs": FeatureSpec(1000), "targets": FeatureSpec(1000)}
LENGTHS = [1, 2, 3, 8, 9, 20, 31, 32, 33, 40, 400]


def example(length, target_length=None):
    """Return an example whose ids encode its length."""
    return {
        "inputs": [2 + length] * (length - 1) + [1],
        "targets": [2 + length] * ((target_length or length) - 1) + [1],
    }


def write(folder, examples, num_shards=1):
    paths = tfrecords.shard_paths(folder, "p", "train", num_shards)
    tfrecords.write(examples, paths)
    return paths


def settings(**kwargs):
    return input_pipeline.InputSettings(**{"batch_size": 64, "max_length": 32, **kwargs})


def batches(files, training=False, specs=SYMBOLS, **kwargs):
    chosen = kwargs.pop("settings", settings())
    dataset = input_pipeline.make_dataset(files, specs, chosen, training=training, **kwargs)
    with readable.errors():
        return arrays(dataset)


def arrays(dataset):
    return [
        ({name: value.numpy() for name, value in features.items()}, targets.numpy())
        for features, targets in dataset
    ]


def rows(found):
    """Return the inputs of all batches as lists without padding."""
    return [row[row > 0].tolist() for features, _ in found for row in features["inputs"]]


def assert_data_error(pattern, files, training=False, specs=SYMBOLS, **kwargs):
    with pytest.raises(DataError, match=pattern) as error:
        batches(files, training, specs, **kwargs)
    assert "\n" not in str(error.value)
