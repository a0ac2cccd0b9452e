"""The base class of text encoders, the reserved ids, and vocabulary files."""

import glob
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ut_keras.errors import DataError
from ut_keras.files import file_error, whole_file
from ut_keras.text import text_lines
from ut_keras.text.ragged_ids import RaggedIds

if TYPE_CHECKING:
    import tensorflow as tf

PAD = 0
EOS = 1
RESERVED_TOKENS = ("<pad>", "<EOS>")
NUM_RESERVED_IDS = len(RESERVED_TOKENS)
_MOST_SHOWN = 4  # how many vocabularies an error names


class TextEncoder:
    """The base class of text encoders, which map strings to lists of ids and back."""

    entries: tuple[str, ...]  # indexed by id; an encoder without entries overrides `vocab_size`

    @property
    def kind(self) -> str:
        """Str. The name of the encoder's class, for messages."""
        return type(self).__name__

    @property
    def vocab_size(self) -> int:
        """The number of ids; all ids are in [0, vocab_size)."""
        return len(self.entries)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a string, without EOS."""
        raise NotImplementedError

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the list of ids of every string of a list."""
        return self.encode_ragged(texts).to_lists()

    def encode_ragged(self, texts: Sequence[str]) -> RaggedIds:
        """Return the ids of strings as `RaggedIds`, the fastest way for many strings."""
        return RaggedIds.from_lists([self.encode(text) for text in texts])

    def decode(self, ids: Iterable[int]) -> str:
        """Return the string for a list of ids."""
        raise NotImplementedError


def is_overridden(encoder: Any, *names: str) -> bool:
    """Return whether a class outside of ut_keras overrides one of these methods."""
    for name in names:
        cls = next((cls for cls in type(encoder).__mro__ if name in vars(cls)), None)
        if cls and not cls.__module__.startswith("ut_keras."):
            return True
    return False


def read_lines(filename: str) -> list[str]:
    """Return the lines of a vocabulary file, without their line breaks.

    Raises:
        DataError: if the file does not exist or is not UTF-8.
    """
    filename = file_error.checked_path(filename, "filename")
    if not os.path.isfile(filename):
        raise DataError(
            f"A vocabulary file must exist. Received: {filename}, which is not a file."
            f"{_other_vocabularies(filename)} Generate the data (--generate_data; in Python, "
            "problem.generate_data), or pass the folder that contains the data (--data_dir; in "
            "Python, data_dir)."
        )
    return text_lines.read(filename)


def _other_vocabularies(filename):
    """Return sentences about other vocabularies in a missing file's folder, or ""."""
    # In older versions of T2T, the names of some vocabularies do not begin with "vocab".
    pattern = os.path.join(glob.escape(os.path.dirname(filename)), "*vocab*")
    found = sorted(filter(os.path.isfile, glob.glob(pattern)))
    found = [os.path.basename(path) for path in found]
    if not found:
        return ""
    shown = ", ".join(found[:_MOST_SHOWN]) + (", …" if len(found) > _MOST_SHOWN else "")
    return (
        f" The folder has {shown}. If the data was made with one of these files, copy this file to "
        "the name of the missing file."
    )


def write_lines(filename: str, lines: Iterable[str]) -> None:
    """Write lines to a file. If an error occurs, the old file is kept."""
    with whole_file.writing(file_error.checked_path(filename, "filename")) as file:
        file.writelines(line + "\n" for line in lines)


def cut_at_eos(ids: Iterable[int]) -> list[int]:
    """Return the list of ids before the first EOS, without padding."""
    ids = [int(i) for i in ids]
    if EOS in ids:
        ids = ids[: ids.index(EOS)]
    return [i for i in ids if i != PAD]


def to_text(encoder: TextEncoder, ids: Any, is_class: bool = False) -> str:
    """Return the text of an array of ids, up to EOS.

    Args:
        encoder: `TextEncoder`.
        ids: int array [length], or [sentences, length] for several sentences.
        is_class: bool. If True, the ids are class ids, so no id means padding or EOS.
    """
    if is_class:
        return encoder.decode([int(i) for i in ids])
    if ids.ndim > 1:
        sentences = [encoder.decode(cut_at_eos(row)) for row in ids]
        return " | ".join(sentence for sentence in sentences if sentence)
    return encoder.decode(cut_at_eos(ids))


def cut_at_eos_in_graph(ids: "tf.Tensor") -> "tf.RaggedTensor":
    """Apply `cut_at_eos` to every row of ids [B, T] in a graph.

    Returns:
        `RaggedTensor` [B, (ids)].
    """
    import tensorflow as tf

    is_over = tf.cumsum(tf.cast(ids == EOS, tf.int32), axis=1) > 0
    return tf.ragged.boolean_mask(ids, ~is_over & (ids != PAD))
