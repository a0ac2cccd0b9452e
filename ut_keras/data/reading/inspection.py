"""Reports the number of records of a split, their lengths and used vocabulary.

The following lines show a call and its output:

print(inspection.report(files, specs, encoders, num_shown=2))

1  inputs   63 ids  "Gutach: Increased safety for pedestrians"  [5331, 27, 8, …, 1]
   targets  …
4,500,000 records in 100 file(s)
inputs   2 to 312 ids, 31.4 on average; 32,101 of the vocabulary's 32,768 ids occur
1,024 records (0.02 %) are longer than max_length=256: training skips them
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ut_keras.data.reading import input_pipeline, readable, record_parser
from ut_keras.ops import autotuning
from ut_keras.process.live_line import counted
from ut_keras.text import text_encoder

if TYPE_CHECKING:
    from ut_keras.data.features import FeatureSpec
    from ut_keras.text.text_encoder_base import TextEncoder

_BATCH_SIZE = 1024  # number of records in a batch
_NO_TEXT = (text_encoder.PAD, text_encoder.EOS)
_MAX_IDS_SHOWN = 40
_MAX_TEXT_SHOWN = 400  # maximum number of characters of a text in the report


def report(
    files: Sequence[str],
    record_specs: "Mapping[str, FeatureSpec]",
    encoders: "Mapping[str, TextEncoder]",
    preprocess: Callable[..., Any] | None = None,
    max_length: int = 256,
    training: bool = True,
    num_shown: int = 0,
) -> str:
    """Read all records of a split and return a report of several lines.

    Args:
        files: list of str, TFRecord files.
        record_specs: dict from the name of a feature of the records to its `FeatureSpec`.
        encoders: dict from the name of a feature to its `TextEncoder`. Features without an encoder
            are shown without text.
        preprocess: the same as in `ReadingOptions`.
        max_length: int. Training skips longer examples.
        training: bool. Whether the split is used for training.
        num_shown: int. The number of records to show.

    Raises:
        DataError: if a record does not match the specs.
    """
    lines = []
    lengths: list[np.ndarray] = []  # one array [n, features] per batch
    occurrences = {name: np.zeros(encoder.vocab_size, int) for name, encoder in encoders.items()}
    names: list[str] = []
    num_records = 0
    with readable.errors(files):
        for batch in _batches(files, record_specs, preprocess):
            names = input_pipeline.in_order(batch)
            lines += _shown(batch, encoders, num_records, max(0, num_shown - num_records))
            lengths.append(input_pipeline.feature_lengths(batch).numpy())
            num_records += len(lengths[-1])
            for name in occurrences.keys() & batch.keys():
                ids = getattr(batch[name], "flat_values", batch[name]).numpy().ravel()
                size = len(occurrences[name])
                occurrences[name] += np.bincount(ids, minlength=size)[:size]
    lines.append(f"{counted(num_records, 'record')} in {counted(len(files), 'file')}")
    all_lengths = np.concatenate(lengths) if lengths else np.zeros([0, 0], int)
    lines += _length_lines(names, all_lengths, occurrences)
    num_long = int((all_lengths.max(axis=1, initial=0) > max_length).sum())
    share = f" ({num_long / num_records:.2%})".replace("%", " %") if num_long else ""
    action = "training skips them" if training else "evaluation keeps them"
    lines.append(f"{num_long:,} records{share} are longer than max_length={max_length}: {action}")
    return "\n".join(lines)


def _length_lines(names, lengths, occurrences):
    """Return one line per feature, with its lengths and its share of the vocabulary.

    Args:
        names: list of str, the names of the features.
        lengths: int array [n, features].
        occurrences: dict from the name of a feature to an int array, the number of occurrences of
            each id.
    """
    lines = []
    width = max(map(len, names), default=0)
    for name, values in zip(names, lengths.T, strict=True):
        line = f"{name:{width}}  {values.min():,} to {values.max():,} {_unit(name)}"
        line += f", {values.mean():.1f} on average"
        if name in occurrences:
            counts = occurrences[name]
            line += f"; {(counts > 0).sum():,} of the vocabulary's {len(counts):,} ids occur"
        lines.append(line)
    return lines


def _unit(name):
    """Return the word for the values of a feature: "weights" or "ids"."""
    return "weights" if name == "weights" else "ids"


@tf.autograph.experimental.do_not_convert
def _batches(files, specs, preprocess):
    """Return a dataset of batches: dicts from feature name to the ids for the model."""

    def to_features(file, records):
        files = tf.fill(tf.shape(records)[:1], file)
        features = record_parser.parse_records(files, records, specs)
        return preprocess(features) if preprocess else features

    def of_file(file):
        records = tf.data.TFRecordDataset(file).batch(_BATCH_SIZE)
        return records.map(lambda records: to_features(file, records))

    dataset = tf.data.Dataset.from_tensor_slices(list(files)).flat_map(of_file)
    return autotuning.disable(dataset)


def _shown(batch, encoders, first, count):
    """Return the lines that show the first `count` examples of a batch."""
    width = max(map(len, batch))
    rows = [value[:count] for value in batch.values()]
    lines = []
    for number, values in enumerate(zip(*rows, strict=True), start=first + 1):
        label = f"{number}"
        for name, value in zip(batch, values, strict=True):
            ids = value.numpy().ravel().tolist()
            parts = [f"{label:3}{name:{width}}", f"{len(ids)} {_unit(name)}"]
            if name in encoders:
                text = _text(encoders[name], ids)
                more = "…" if len(text) > _MAX_TEXT_SHOWN else ""
                parts.append(f'"{text[:_MAX_TEXT_SHOWN]}{more}"')
            more = ", …" if len(ids) > _MAX_IDS_SHOWN else ""
            lines.append("  ".join([*parts, f"{ids[:_MAX_IDS_SHOWN]}"[:-1] + more + "]"]))
            label = ""
    return lines


def _text(encoder, ids):
    """Return the text of ids. A vertical line replaces every EOS except the last one."""
    if len(ids) == 1:
        return encoder.decode(ids)
    ids = np.array(ids)
    # Every part except the first one begins with an EOS.
    parts = np.split(ids, np.flatnonzero(ids == text_encoder.EOS))
    texts = [encoder.decode([i for i in part.tolist() if i not in _NO_TEXT]) for part in parts]
    return " | ".join(texts if texts[-1] else texts[:-1])
