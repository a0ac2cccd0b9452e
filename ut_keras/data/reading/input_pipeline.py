"""Reads TFRecord files as batches of (features, targets), batched as in T2T.

    files -> index of all lengths -> batches (`example_order`) -> the records of each -> examples

    ({"inputs": int32 [B, S], "targets": int32 [B, T]}, int32 [B, T])        0 = padding

`batch_size` is the number of tokens per replica, and a batch contains the examples for all
replicas. Training skips the examples that are longer than `max_length` and shuffles the others.
Evaluation uses all examples and always has the same batches, in the order of the records. The
incomplete last batch of each bucket comes at the end. A dataset is one pass over the data.

Invalid data raises a `DataError` of one line. If the check is cheap, the error is raised at once.
Otherwise it is raised during the iteration, which must run inside `readable.errors()`.
"""

import dataclasses
import functools
import secrets
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from ut_keras.data.reading import (
    batching,
    example_order,
    indexed_batches,
    readable,
    record_index,
    record_parser,
)
from ut_keras.data.reading.reading_options import OWN_LIMITS, ReadingOptions
from ut_keras.errors import DataError
from ut_keras.process.live_line import counted

_LONGEST_IN_EVALUATION = 1 << 20
_DEFAULT_OPTIONS = ReadingOptions()


@dataclasses.dataclass(frozen=True)
class InputSettings:
    """The hparams that the input pipeline uses, with T2T's names and defaults.

    The length of an example is the length of its longest feature, including EOS.
    """

    batch_size: int  # number of tokens in a batch, per replica
    max_length: int = 0  # training drops longer examples; 0 means batch_size
    min_length: int = 0  # training and evaluation drop shorter examples
    min_length_bucket: int = 8  # the first bucket holds lengths below this value
    length_bucket_step: float = 1.1  # ratio of successive bucket boundaries; it must be > 1
    eval_drop_long_sequences: bool = False  # whether evaluation also drops long examples
    max_input_seq_length: int = 0  # maximum number of ids in inputs; 0 or less means no limit
    max_target_seq_length: int = 0  # maximum number of ids in targets; 0 or less means no limit
    # If True, there is only one bucket, and batch_size is the number of examples in a batch.
    use_fixed_batch_size: bool = False
    # If this is positive, training shuffles all batches in addition to the examples. If it is 0 or
    # None, training shuffles only the examples. (In T2T this is the size of the shuffle buffer.)
    batch_shuffle_size: int = 0
    # T2T does not have this field. If it is True, every feature is padded to the boundary of its
    # bucket, so there are only as many shapes as buckets. The fixed shapes are for TPUs and XLA.
    # They avoid retracing. In training, repeated examples fill up the last batch of a bucket.
    static_shapes: bool = False
    # T2T does not have this field. If it is positive and static_shapes is True, training merges
    # neighboring buckets until at most this number of shapes remains, see `batching.merged`.
    most_shapes: int = 0
    # T2T does not have this field. If it is positive, training starts with short examples: see
    # `training.curriculum`.
    curriculum_start_length: int = 0
    # Unless this is "none", the model joins inputs, a 0 and targets into one sequence. The length
    # of this sequence is then the length of the example: see `models.prepended`.
    prepend_mode: str = "none"

    @classmethod
    def from_hparams(cls, hparams: Any) -> Self:
        """Return settings from hparams.

        A field that `hparams` lacks has its default value.
        """
        fields = [field.name for field in dataclasses.fields(cls)]
        found = {name: getattr(hparams, name) for name in fields if hasattr(hparams, name)}
        return cls(**found)

    @property
    def longest(self) -> int:
        """The length of the longest bucket."""
        return self.max_length or self.batch_size


def make_dataset(*arguments: Any, **settings: Any) -> tf.data.Dataset:
    """Make the batches of one pass over some files.

    The arguments are the same as for `make_batches`.

    Returns:
        A `tf.data.Dataset` of (features, targets), or of (features, targets, weights) if there are
        weights. The dataset knows its number of batches. If it is repeated, every epoch is shuffled
        differently.

    Raises:
        DataError: if there are no examples, or if training would drop all of them.
    """
    return make_batches(*arguments, **settings).one_pass()


def make_batches(
    files: list[str],
    record_specs: dict[str, Any],
    settings: InputSettings,
    training: bool,
    num_replicas: int = 1,
    seed: int | Callable[[int], int] | None = None,
    options: ReadingOptions = _DEFAULT_OPTIONS,
) -> indexed_batches.IndexedBatches:
    """Make the batches of all epochs over `files`.

    The methods of the result return datasets that read any part of these batches.

    Args:
        files: list of str, TFRecord files.
        record_specs: dict from the name of a feature of the records to its `FeatureSpec`.
        settings: `InputSettings`.
        training: bool. If True, examples are shuffled and long examples are skipped. A note
            gives the number of skipped examples.
        num_replicas: int. The factor by which the batches are enlarged.
        seed: int, or a function from the number of an epoch to an int. The seed makes shuffling in
            training reproducible. Even with an int, each epoch has a different order. If it is
            None, the seed is random.
        options: `ReadingOptions`.

    Returns:
        `IndexedBatches` of (features, targets), or of (features, targets, weights) if there are
        weights.

    Raises:
        DataError: if there are no examples, or if training would drop all of them.
    """
    if training:
        _check_curriculum(settings, seed)
    settings = _with_fixed_length(settings, options.fixed_length)
    kept = _kept_lengths(settings, training)
    to_examples = _converter(record_specs, settings, options)
    index = _index(files, to_examples, _lengths_key(record_specs, settings, options), options)
    lengths = _example_lengths(index, settings)
    scheme = _scheme(settings, kept.drops_long, num_replicas)
    merged = _merged(scheme, index, lengths, settings, kept) if training else None
    if merged:
        scheme = merged.scheme
    order = _order_class(index, options, training)(
        lengths,
        scheme.boundaries,
        scheme.batch_sizes,
        kept.shortest,
        kept.longest,
        shuffle_batches=training and bool(settings.batch_shuffle_size),
    )
    if not len(order):
        raise _no_examples(len(index), files, kept)
    _print_skipped(lengths, settings, kept, training)
    to_batch = _parser(
        index,
        to_examples,
        _padded_lengths(scheme, merged, settings),
        lengths_vary=options.lengths_vary and not settings.static_shapes,
    )
    fill_to = scheme.batch_sizes if training and settings.static_shapes else None
    seeds = _seed_of(seed, training)
    return indexed_batches.IndexedBatches(index, order, seeds, fill_to, to_batch, merged)


def _check_curriculum(settings, seed):
    if settings.curriculum_start_length and not callable(seed):
        raise DataError(
            "curriculum_start_length must be 0 except in ut-trainer, which measures when to use "
            f"longer examples. Received: {settings.curriculum_start_length}."
        )


def _with_fixed_length(settings, length):
    """Return the settings for examples that all have `length`. None means any length."""
    if not length:
        return settings
    return dataclasses.replace(settings, max_length=length, min_length=0, use_fixed_batch_size=True)


class _KeptLengths(NamedTuple):
    """The lengths of the examples that are not skipped."""

    shortest: int
    longest: int
    drops_long: bool  # whether `longest` comes from the hparams


def _kept_lengths(settings, training):
    drops_long = training or settings.eval_drop_long_sequences
    longest = settings.longest if drops_long else _LONGEST_IN_EVALUATION
    return _KeptLengths(settings.min_length, longest, drops_long)


def _converter(record_specs, settings, options):
    """Return a function from files and records to the features of the examples."""
    parse = options.parse or functools.partial(record_parser.parse_records, specs=record_specs)

    def to_examples(files, records):
        features = parse(files, records)
        if options.preprocess:
            features = options.preprocess(features)
        return _truncate(features, settings, options.limits)

    return to_examples


def _index(files, to_examples, key, options):
    """Return the `RecordIndex` of the files, after checks of the number of records."""
    with readable.errors(files):
        index = record_index.get(files, lambda *some: feature_lengths(to_examples(*some)), key)
    if options.evenly_sharded:
        index.check_shares()
    if options.check_counts:
        options.check_counts(index.counts.tolist())
    return index


def _merged(scheme, index, lengths, settings, kept):
    """Return the merged buckets of training, or None if no buckets are merged."""
    if not (settings.static_shapes and settings.most_shapes and len(lengths)):
        return None
    used = (lengths >= kept.shortest) & (lengths <= kept.longest)
    if not used.any():
        return None
    return batching.merged(scheme, lengths[used], index.lengths[used], settings.most_shapes)


def _order_class(index, options, training):
    """Return `ExampleOrder`, or `MixedOrder` for several problems."""
    if not options.groups:
        return example_order.ExampleOrder
    group_of_files = np.repeat(range(len(options.groups)), options.groups)
    group_of_examples = np.repeat(group_of_files, index.counts)
    mixture = options.mixture if training else None
    return functools.partial(example_order.MixedOrder, group_of_examples, mixture)


def _padded_lengths(scheme, merged, settings):
    """Return the argument `padded_lengths` of `_parser`."""
    if merged:
        return merged.lengths
    if settings.static_shapes:
        return np.array(scheme.boundaries, np.int64)[:, np.newaxis] - 1
    return None


def _example_lengths(index, settings):
    """Return the length of each example, by which the examples are bucketed."""
    if not len(index.lengths):
        return index.lengths
    if settings.prepend_mode != "none":
        return index.lengths[:, :2].sum(axis=1) + 1  # inputs and targets form one sequence
    return index.lengths.max(axis=1)


def _seed_of(seed, training):
    """Return a function from an epoch to its seed, which is None in evaluation."""
    if not training:
        return lambda number: None
    if callable(seed):
        return lambda number: [seed(number) % 2**32, 0]
    seed = secrets.randbits(32) if seed is None else seed % 2**32
    return lambda number: [seed, number]


def feature_lengths(features: dict[str, Any]) -> tf.Tensor:
    """Return the lengths [n, features] of n examples.

    `in_order` defines the order of the features.
    """
    values = [features[name] for name in in_order(features)]
    return tf.stack(
        [
            tf.cast(value.row_lengths(), tf.int32)
            if isinstance(value, tf.RaggedTensor)
            else tf.fill([tf.shape(value)[0]], tf.shape(value)[1])
            for value in values
        ],
        axis=1,
    )


def in_order(names: Iterable[str]) -> list[str]:
    """Return sorted names, with "inputs" and "targets" before all others."""
    return sorted(names, key=lambda name: (name not in ("inputs", "targets"), name))


def _parser(index, to_examples, padded_lengths, lengths_vary):
    """Return a function from records to features, targets and optional weights.

    Args:
        index: the index of the records.
        to_examples: function from files and records to features.
        padded_lengths: int array [buckets, features] or [buckets, 1], the length of each feature in
            a bucket. If it is None, each feature is padded to its greatest length in the batch.
        lengths_vary: bool, the same as in `ReadingOptions`, but False with static shapes.
    """

    def parse(files, records, lengths, longest, bucket):
        features = to_examples(files, records)
        found = feature_lengths(features)
        if lengths_vary:
            lengths, longest = found, tf.maximum(longest, tf.reduce_max(found, axis=0))
        check = record_parser.check_lengths(found, lengths, index.path)
        if padded_lengths is not None:
            fixed = tf.constant(padded_lengths, tf.int32)[bucket]
            longest = tf.broadcast_to(fixed, tf.shape(longest))
        with tf.control_dependencies([check]):
            batch = {
                name: _padded(features[name], longest[number])
                for number, name in enumerate(in_order(features))
            }
        weights = (batch.pop("weights"),) if "weights" in batch else ()
        return (batch, batch["targets"], *weights)

    return parse


def _lengths_key(record_specs, settings, options):
    """Return a key of all settings that affect lengths, except for the files."""
    preprocess, limits = options.preprocess or options.parse, options.limits
    owner = getattr(preprocess, "__self__", None)
    most: tuple = (settings.max_input_seq_length, settings.max_target_seq_length)
    if limits != OWN_LIMITS:
        most += (sorted(limits.items()),)
    function = [getattr(preprocess, name, "") for name in ("__module__", "__qualname__")]
    function += filter(None, [getattr(owner, "preprocess_key", "")])
    owner = type(owner).__qualname__
    return repr(("of each feature", sorted(record_specs.items()), most, owner, *function))


def _padded(value, length):
    """Return a feature of some examples as a dense tensor."""
    if not isinstance(value, tf.RaggedTensor):
        return value
    inner = value.shape[2:]
    padded = value.to_tensor(shape=tf.stack([-1, tf.cast(length, tf.int32), *inner]))
    return tf.ensure_shape(padded, [None, None, *inner])


def _truncate(features, settings, limits=OWN_LIMITS):
    """Truncate features to their maximum lengths.

    As in T2T, a truncated feature has no EOS. The segmentation and positions of a packed feature
    are truncated to the same length, and the weights to the length of the targets.
    """
    most = {"inputs": settings.max_input_seq_length, "targets": settings.max_target_seq_length}

    def cut(name, value):
        name = name.removesuffix("_segmentation").removesuffix("_position")
        limit = most.get(limits.get("targets" if name == "weights" else name, ""), 0)
        is_sequence = isinstance(value, tf.RaggedTensor) and value.shape.rank == 2
        return value[:, :limit] if limit > 0 and is_sequence else value

    return {name: cut(name, value) for name, value in features.items()}


def _scheme(settings, drop_long, num_replicas):
    """Return the buckets of the batches for all replicas."""
    scheme = _scheme_of_replica(settings, drop_long)
    return scheme._replace(batch_sizes=[size * num_replicas for size in scheme.batch_sizes])


def _scheme_of_replica(settings, drop_long):
    """Return T2T's buckets, with more buckets for static shapes or long examples."""
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


def _print_skipped(lengths, settings, kept, training):
    """Print a note if examples are skipped because they are too long or too short."""
    name = "max_length" if settings.max_length else "batch_size"
    counts = {
        f"{name}={kept.longest}": np.count_nonzero(lengths > kept.longest),
        f"min_length={kept.shortest}": np.count_nonzero(lengths < kept.shortest),
    }
    examples = f"{len(lengths):,} {'training' if training else 'evaluation'} examples"
    parts = [f"{limit} skips {n:,} of {examples}" for limit, n in counts.items() if n]
    if parts:
        print(f"note: {'; '.join(parts)}", flush=True)


def _no_examples(count, files, kept):
    """Return the error for files without an example that can be used.

    Args:
        count: int. The number of records in the files.
        files: list of str.
        kept: `_KeptLengths`.
    """
    if not count:
        return DataError(
            f"Expected examples in {counted(len(files), 'file')}. Received: no example. "
            f"The first file: {files[0]}."
        )
    limit = f"longer than max_length={kept.longest}" if kept.drops_long else "of the wrong length"
    return DataError(
        f"Expected examples of lengths {kept.shortest} to {kept.longest}. Received: all {count} "
        f"examples were {limit} (or shorter than min_length={kept.shortest}). "
        f"The first file: {files[0]}."
    )
