"""What is in the files of a split: some records as text, lengths, vocabulary, what training drops.

print(inspection.report(files, specs, encoders, num_shown=2))

1  inputs   63 ids  "Gutach: Increased safety for pedestrians"  [5331, 27, 8, …, 1]
   targets  …
4,500,000 records
inputs   2 to 312 ids, 31.4 on average; 32,101 of 32,768 ids of the vocabulary occur; …
training leaves out 1,024 records (0.02 %) longer than max_length=256
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from ut_keras.data.reading import input_pipeline, readable, record_parser
from ut_keras.text import text_encoder

if TYPE_CHECKING:
    from ut_keras.data.features import FeatureSpec
    from ut_keras.text.text_encoder_base import TextEncoder

_TOGETHER = 1024  # records
_MOST_IDS_SHOWN = 40
_MOST_TEXT_SHOWN = 400  # characters
_ESCAPED_CHARACTER = re.compile(r"\\(?:\\|u|[0-9]+;)")


def report(
    files: Sequence[str],
    record_specs: "Mapping[str, FeatureSpec]",
    encoders: "Mapping[str, TextEncoder]",
    preprocess: Callable[..., Any] | None = None,
    max_length: int = 256,
    training: bool = True,
    num_shown: int = 0,
) -> str:
    """Reads all records of a split.

    Args:
        files: list of str, TFRecord files.
        record_specs: dict from the name of a feature of the records to its `FeatureSpec`.
        encoders: dict from the name of a feature to its `TextEncoder`; the others have no text.
        preprocess: as for `input_pipeline.make_dataset`.
        max_length: int. Training drops longer examples.
        training: bool. Whether the split is trained on.
        num_shown: int. How many records are shown.

    Returns:
        str, several lines.

    Raises:
        DataError: if a record is not as the specs say.
    """
    lines = []
    statistics = {}
    num_records = num_long = 0
    with readable.errors():
        for batch in _batches(files, record_specs, preprocess):
            shown = max(0, num_shown - num_records)
            lines += _shown(batch, encoders, num_records, shown)
            lengths = input_pipeline.example_lengths(batch).numpy()
            num_records += len(lengths)
            num_long += int((lengths > max_length).sum())
            for name, value in batch.items():
                if name not in statistics:
                    statistics[name] = _Statistics(encoders.get(name))
                statistics[name].add(value)
    lines.append(f"{num_records:,} records in {len(files)} file(s)")
    width = max(map(len, statistics), default=0)
    lines += [f"{name:{width}}  {values.text()}" for name, values in statistics.items()]
    share = f" ({_percent(num_long / num_records)})" if num_long else ""
    action = "training leaves them out" if training else "evaluation keeps them"
    lines.append(f"{num_long:,} records{share} are longer than max_length={max_length}: {action}")
    return "\n".join(lines)


def _batches(files, specs, preprocess):
    """Yields dicts of the features of many examples, as the model gets them."""

    def to_features(file, records):
        files = tf.fill(tf.shape(records)[:1], file)
        features = record_parser.parse_records(files, records, specs)
        return preprocess(features) if preprocess else features

    def of_file(file):
        records = tf.data.TFRecordDataset(file).batch(_TOGETHER)
        return records.map(lambda records: to_features(file, records))

    return tf.data.Dataset.from_tensor_slices(list(files)).flat_map(of_file)


def _shown(batch, encoders, first, count):
    """Lines that show the first `count` examples of a batch."""
    width = max(map(len, batch))
    rows = [value[:count] for value in batch.values()]
    lines = []
    for number, values in enumerate(zip(*rows, strict=True), start=first + 1):
        label = f"{number}"
        for name, value in zip(batch, values, strict=True):
            ids = value.numpy().ravel().tolist()
            parts = [f"{label:3}{name:{width}}", f"{len(ids)} ids"]
            if name in encoders:
                text = _text(encoders[name], ids)
                more = "…" if len(text) > _MOST_TEXT_SHOWN else ""
                parts.append(f'"{text[:_MOST_TEXT_SHOWN]}{more}"')
            more = ", …" if len(ids) > _MOST_IDS_SHOWN else ""
            lines.append("  ".join([*parts, f"{ids[:_MOST_IDS_SHOWN]}"[:-1] + more + "]"]))
            label = ""
    return lines


def _text(encoder, ids):
    """The text of ids; a vertical line stands where EOS is, but for the last."""
    if len(ids) == 1:
        return encoder.decode(ids)
    texts, part = [], []
    for i in [*ids, text_encoder.EOS]:
        if i != text_encoder.EOS:
            part.append(i)
        else:
            texts.append(encoder.decode([i for i in part if i != text_encoder.PAD]))
            part = []
    if not texts[-1]:
        texts.pop()
    return " | ".join(texts)


class _Statistics:
    """Of one feature: lengths, and how well the vocabulary fits."""

    def __init__(self, encoder):
        self._encoder = encoder
        self._least, self._most, self._total, self._count = None, 0, 0, 0
        self._empty = self._escaped = 0
        self._is_fixed = False
        self._occurrences = np.zeros(encoder.vocab_size if encoder else 0, np.int64)
        self._subtokens: Any = getattr(encoder, "subtokens", None)
        self._escapes = [i for i, s in enumerate(self._subtokens or ()) if "\\" in s]

    def add(self, value):
        """Counts a batch: ragged [n, (length)], or [n, ...]."""
        self._is_fixed = not isinstance(value, tf.RaggedTensor)
        if self._is_fixed:
            lengths = np.full(value.shape[0], np.prod(value.shape[1:], dtype=np.int64))
            ids = value
        else:
            lengths, ids = value.row_lengths().numpy(), value.flat_values
            self._empty += int((lengths <= 1).sum())
        ids = ids.numpy().ravel()
        self._least = min(lengths.min(), lengths.max() if self._least is None else self._least)
        self._most = max(self._most, lengths.max())
        self._total += lengths.sum()
        self._count += len(lengths)
        if self._encoder:
            counts = np.bincount(ids, minlength=len(self._occurrences))
            self._occurrences += counts[: len(self._occurrences)]
        if self._escapes and np.isin(ids, self._escapes).any():
            self._count_escapes(ids)

    def _count_escapes(self, ids):
        text = "".join(self._subtokens[i] for i in ids.tolist())
        escapes = _ESCAPED_CHARACTER.findall(text)
        self._escaped += sum(escape[1].isdigit() for escape in escapes)

    def text(self):
        """The line of the report."""
        parts = [
            f"{self._least:,} to {self._most:,} ids, {self._total / self._count:.1f} on average"
        ]
        if self._is_fixed and self._least == 1:
            parts = ["1 id"]
        if self._empty:
            parts.append(f"{self._empty:,} empty (nothing but EOS)")
        if self._encoder:
            used = int((self._occurrences[text_encoder.NUM_RESERVED_IDS :] > 0).sum())
            if self._is_fixed and self._least == 1:
                used = int((self._occurrences > 0).sum())
            size = len(self._occurrences)
            parts.append(f"{used:,} of the vocabulary's {size:,} ids occur")
        oov_id = getattr(self._encoder, "oov_id", None)
        if oov_id is not None:
            count = int(self._occurrences[oov_id])
            share = count / max(1, self._total)
            parts.append(f"{count:,} ({_percent(share)}) stand for words outside of it")
        if self._subtokens:
            parts.append(f"{self._escaped:,} characters outside of its alphabet")
        return "; ".join(parts)


def _percent(share):
    return f"{share:.2%}".replace("%", " %")
