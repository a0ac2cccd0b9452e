"""From TFRecord files to batches of (features, targets), as T2T batches them.

    files -> records -> examples -> [too long dropped] -> [shuffled] -> buckets by length -> batches

    ({"inputs": int32 [B, S], "targets": int32 [B, T]}, int32 [B, T])        0 = padding

`batch_size` counts tokens per replica; a batch is for all replicas together. Training drops the
examples longer than `max_length` and shuffles; evaluation drops nothing and always gives the same
batches. Both make one pass, with the last, smaller batches of every bucket at its end.

Data that is not as expected ends in a `DataError` of one line: right away where that costs
nothing, else while iterating, inside `readable_errors()`.
"""

import contextlib
import dataclasses
import math
import re

import tensorflow as tf

from ut_keras.data import batching, tfrecords
from ut_keras.data.tfrecords import DataError

_PARALLEL_FILES = 8
_LONGEST_IN_EVALUATION = 1 << 20

# What the checks inside tf.data say: the marker travels through TensorFlow's own error.
_CHECKS = {
    "ids out of range": (
        "{0!r} must hold ids in [0, {1}), the vocabulary size. Received: ids from {2} to {3} in "
        "{file}. The data and the vocabulary (or the problem) do not belong together."
    ),
    "feature is missing": "Every record needs the feature {0!r}. Received: one without, in {file}.",
    "wrong number of values": (
        "{0!r} must hold {1} ids in every record, as the problem's metadata say. Received: {2} in "
        "{file}. Generate the data again."
    ),
}
_FAILED_CHECK = re.compile(r"assertion failed: \[(?P<check>[^\]]*)\](?P<values>.*)")

# Files that this process has made datasets of, the latest last; only looked at after an error, since
# TensorFlow's own on a damaged file doesn't name it.
_files_read = {}


@dataclasses.dataclass(frozen=True)
class InputSettings:
    """What the input pipeline takes from the hparams; the fields and defaults are T2T's.

    Fields:
        batch_size: int. Tokens in a batch, per replica.
        max_length: int. Training drops longer examples. The length of an example is that of its
            longest feature, EOS included. 0 stands for `batch_size`.
        min_length: int. Shorter examples are dropped, in evaluation too.
        min_length_bucket: int. The first bucket holds lengths below this.
        length_bucket_step: float > 1. Ratio of the buckets' boundaries.
        eval_drop_long_sequences: bool. Drop long examples in evaluation as well.
        max_input_seq_length, max_target_seq_length: int. Cut features to this length; 0 does not.
        use_fixed_batch_size: bool. One bucket, and `batch_size` counts examples.
        batch_shuffle_size: int. How many batches the training shuffles; 0 or None for none.
        shuffle_buffer_size: int. How many examples the training shuffles.
        static_shapes: bool. Ours: pad every feature to the boundary of its bucket, so that there
            are only as many shapes as buckets (for TPUs, XLA; saves retracing). In training the
            last batch of a bucket is then filled up with repeated examples.
    """

    batch_size: int
    max_length: int = 0
    min_length: int = 0
    min_length_bucket: int = 8
    length_bucket_step: float = 1.1
    eval_drop_long_sequences: bool = False
    max_input_seq_length: int = 0
    max_target_seq_length: int = 0
    use_fixed_batch_size: bool = False
    batch_shuffle_size: int = 0
    shuffle_buffer_size: int = 1024
    static_shapes: bool = False

    @classmethod
    def from_hparams(cls, hparams):
        """Reads the fields of the same name; those that `hparams` lacks keep their default."""
        fields = [field.name for field in dataclasses.fields(cls)]
        found = {name: getattr(hparams, name) for name in fields if hasattr(hparams, name)}
        return cls(**found)

    @property
    def longest(self):
        """The length of the longest bucket."""
        return self.max_length or self.batch_size


def make_dataset(
    files, record_specs, settings, training, num_replicas=1, seed=None, preprocess=None
):
    """Makes the batches of one pass over `files`.

    Args:
        files: list of str, TFRecord files.
        record_specs: dict from the name of a feature of the records to its `FeatureSpec`.
        settings: `InputSettings`.
        training: bool. Shuffle, and drop what is too long.
        num_replicas: int. Batches are this many times larger.
        seed: int. Makes shuffling repeatable; a repeated dataset is shuffled anew every time.
        preprocess: function from the features of a record to those of an example. Optional.

    Returns:
        A `tf.data.Dataset` of (features, targets).

    Raises:
        DataError: if there are no examples, or training would drop all of them.
    """
    for file in files:
        _files_read.pop(file, None)
        _files_read[file] = None
    drop_long = training or settings.eval_drop_long_sequences
    longest = settings.longest if drop_long else _LONGEST_IN_EVALUATION

    def to_example(file, record):
        features = _parse(file, record, record_specs)
        if preprocess is not None:
            features = preprocess(features)
        return _truncate(features, settings)

    def has_right_length(features):
        length = example_length(features)
        return tf.logical_and(length >= settings.min_length, length <= longest)

    _check_not_empty(files, to_example, settings.min_length, longest, drop_long)
    dataset = _records(files, shuffle=training, seed=seed)
    if training:
        dataset = dataset.shuffle(settings.shuffle_buffer_size, seed=seed)
    dataset = dataset.map(to_example, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.filter(has_right_length)
    dataset = _batch(dataset, settings, training, drop_long, num_replicas)
    if training and settings.batch_shuffle_size:
        dataset = dataset.shuffle(settings.batch_shuffle_size, seed=seed)
    dataset = dataset.map(lambda features: (features, features["targets"]))
    return dataset.prefetch(2)


def example_length(features):
    """The length of the longest feature."""
    return tf.reduce_max([tf.shape(value)[0] for value in features.values()])


@contextlib.contextmanager
def readable_errors():
    """Turns TensorFlow's errors about data into a `DataError` of one line; iterate inside it."""
    try:
        yield
    except tf.errors.DataLossError as error:
        damaged = tfrecords.find_damaged(reversed(_files_read))
        raise DataError(
            f"A TFRecord file must be whole. Received: {_first_line(error)} in "
            f"{damaged or 'one of the data files'}. Remove the file and generate the data again."
        ) from error
    except tf.errors.InvalidArgumentError as error:
        message = _explain(str(error))
        if message is None:
            raise
        raise DataError(message) from error
    except tf.errors.NotFoundError as error:
        if "No such file" not in str(error):
            raise
        raise DataError(f"A data file has gone. Received: {_first_line(error)}.") from error


def _records(files, shuffle, seed):
    """(file, record) pairs; in order if they are not shuffled."""
    dataset = tf.data.Dataset.from_tensor_slices(list(files))
    if shuffle:
        dataset = dataset.shuffle(len(files), seed=seed)

    def records_of(file):
        return tf.data.TFRecordDataset(file).map(lambda record: (file, record))

    return dataset.interleave(records_of, cycle_length=_PARALLEL_FILES if shuffle else 1)


def _parse(file, record, specs):
    """One record to int32 features, checked against their specs."""
    parsed = tf.io.parse_single_example(
        record, {name: tf.io.RaggedFeature(tf.int64) for name in specs}
    )
    features = {}
    for name, spec in specs.items():
        ids = parsed[name]
        size = tf.size(ids)
        shape = (1,) if spec.modality == "class_label" else spec.shape
        wanted = math.prod(shape)
        checks = [_check(size > 0, "feature is missing", name, file)]
        if shape:
            checks.append(
                _check(size == wanted, "wrong number of values", name, wanted, size, file)
            )
        low, high = tf.reduce_min(ids), tf.reduce_max(ids)
        with tf.control_dependencies(checks):
            in_range = tf.logical_and(low >= 0, high < spec.vocab_size)
            check = _check(in_range, "ids out of range", name, spec.vocab_size, low, high, file)
        with tf.control_dependencies([check]):
            ids = tf.cast(ids, tf.int32)
        if shape:
            ids = tf.reshape(ids, shape)
        features[name] = ids
    return features


def _check(condition, name, *values):
    return tf.debugging.Assert(condition, [name, *values])


def _truncate(features, settings):
    """T2T's cut: the end of a feature, EOS included, is lost."""
    limits = {
        "inputs": settings.max_input_seq_length,
        "targets": settings.max_target_seq_length,
    }
    return {
        name: value[: limits[name]] if limits.get(name) and value.shape[0] is None else value
        for name, value in features.items()
    }


def _scheme(settings, drop_long):
    """The buckets; static shapes, and whatever is kept though too long, need some beyond the last."""
    longest = settings.longest
    farthest = longest if drop_long else _LONGEST_IN_EVALUATION
    if settings.use_fixed_batch_size:
        boundaries = []
        if settings.static_shapes:
            boundaries = batching.bucket_boundaries(longest + 1, farthest + 2, 1.5)
        return batching.BatchingScheme(boundaries, [settings.batch_size] * (len(boundaries) + 1))
    scheme = batching.batching_scheme(
        settings.batch_size, longest, settings.min_length_bucket, settings.length_bucket_step
    )
    if settings.static_shapes or not drop_long:
        scheme = batching.extended(scheme, settings.batch_size, longest, farthest)
    return scheme


def _batch(dataset, settings, training, drop_long, num_replicas):
    scheme = _scheme(settings, drop_long)
    sizes = [size * num_replicas for size in scheme.batch_sizes]
    dataset = dataset.bucket_by_sequence_length(
        example_length,
        bucket_boundaries=scheme.boundaries,
        bucket_batch_sizes=sizes,
        pad_to_bucket_boundary=settings.static_shapes,
    )
    if settings.static_shapes and training:
        dataset = dataset.map(lambda features: _fill_up(features, scheme.boundaries, sizes))
    return dataset


def _fill_up(features, boundaries, sizes):
    """Repeats the rows of a batch until it is as large as its bucket wants."""
    # The length after padding is still in the bucket.
    length = tf.reduce_max([tf.shape(value)[1] for value in features.values()])
    bucket = tf.searchsorted(tf.constant(boundaries), [length], side="right")[0]
    rows = tf.range(tf.constant(sizes)[bucket]) % tf.shape(features["targets"])[0]
    return {name: tf.gather(value, rows) for name, value in features.items()}


def _check_not_empty(files, to_example, shortest, longest, drop_long):
    """Looks for one example to use; reads on only while there is none."""
    lengths = _records(files, shuffle=False, seed=None).map(
        lambda file, record: example_length(to_example(file, record))
    )
    count = 0
    with readable_errors():
        for length in lengths.as_numpy_iterator():
            if shortest <= length <= longest:
                return
            count += 1
    if not count:
        raise DataError(
            f"Expected examples in {len(files)} file(s). Received: none, in {files[0]}."
        )
    limit = f"longer than max_length={longest}" if drop_long else "of the wrong length"
    raise DataError(
        f"Expected examples of lengths {shortest} to {longest}. Received: all {count} examples were "
        f"{limit} (or shorter than min_length={shortest}), in {files[0]} and the like."
    )


def _explain(text):
    """The line for the user if `text` comes from a check or from parsing a record; else None."""
    match = _FAILED_CHECK.search(text)
    if match and match["check"] in _CHECKS:
        values = re.findall(r"\[([^\]]*)\]", match["values"])
        return _CHECKS[match["check"]].format(*values, file=values[-1])
    if "Could not parse example input" in text or "ParseSingleExample" in text:
        return (
            "A record must be a tf.train.Example with lists of int64. Received: "
            f"{_first_line(text)}, in {next(reversed(_files_read), 'a file')} or one like it."
        )
    return None


def _first_line(error):
    text = re.sub(r"\{\{.*?\}\}", "", str(error)).strip().splitlines()[0]
    return text.split(" [Op:")[0].strip()
