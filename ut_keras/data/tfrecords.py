"""TFRecord files under T2T's names, such as `<problem>-train-00000-of-00010`.

A record is a `tf.train.Example` whose features are int64 lists:

    {"inputs": [3, 2, 3, 1], "targets": [3, 2, 3, 1]}

ut_keras writes the files under temporary names and renames them when they are complete. It reads a
split only if all files of the split exist. Only the functions that read or write records import
TensorFlow.
"""

import codecs
import contextlib
import hashlib
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np

from ut_keras.data import contract
from ut_keras.errors import DataError, UserError
from ut_keras.files import file_error, own_files, whole_file

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
_SPLITS = ("train", "dev", "test")
# What to do about missing files.
_ADVICE = (
    "Generate the data (--generate_data; in Python, problem.generate_data), or pass the folder "
    "that contains the data (--data_dir; in Python, data_dir)"
)
# Matches a shard of any problem. Group 1 is the problem and the split. Group 2 is the problem.
_ANY_SHARD = re.compile(r"((.+)-(?:train|dev|test))-\d{5}-of-\d{5}")
_COMPRESSED_SHARD = re.compile(_ANY_SHARD.pattern + r"\.(?:gz|bz2|xz|zip)")
_MOST_SHOWN = 4  # how many splits of other data an error names
_EDGE = 1 << 16  # bytes that are read at each end of a file
_HEADER = 12  # number of bytes before a record: the record's size and the checksum of the size
_MASK_DELTA = np.uint32(0xA282EAD8)  # the constant in TensorFlow's lib/hash/crc32c.h
_MAGIC = {
    "GZIP-compressed": b"\x1f\x8b\x08",
    "BZIP2-compressed": b"BZh",
    "XZ-compressed": b"\xfd7zXZ\0",
    "ZSTD-compressed": b"\x28\xb5\x2f\xfd",
    "a ZIP archive": b"PK\x03\x04",
}


def shard_paths(data_dir: str, filename: str, split: str, num_shards: int) -> list[str]:
    """Return the paths of the shards of a split, in order."""
    return [
        os.path.join(data_dir, f"{filename}-{split}-{shard:05d}-of-{num_shards:05d}")
        for shard in range(num_shards)
    ]


def parse_path(path: str) -> tuple[str, str]:
    """Return the `filename` and the `split` of a path that `shard_paths` returned."""
    filename, _, split = _SHARD.sub("", os.path.basename(path)).rpartition("-")
    return filename, split


def find(data_dir: str, filename: str, split: str) -> list[str]:
    """Return the paths of the existing shards of a split, in order.

    Args:
        data_dir: str. The folder to which ut_keras or T2T wrote the data.
        filename: str. The first part of the file names, usually the problem's name.
        split: "train", "dev" or "test".

    Raises:
        DataError: if the folder, the split or a shard is missing, or if a shard is not a regular
            file.
        OSError: if the user may not read a shard.
    """
    if split not in _SPLITS:
        raise DataError(f"split must be one of {', '.join(_SPLITS)}. Received: split={split!r}.")
    data_dir = file_error.optional_path(data_dir, "data_dir") or ""
    count, present = _only_set_of_shards(data_dir, filename, split)
    paths = shard_paths(data_dir, filename, split, count)
    missing = [path for shard, path in enumerate(paths) if shard not in present]
    if missing:
        raise DataError(
            f"data_dir must contain all {count} files {filename}-{split}-*-of-{count:05d}. "
            f"Received: {len(present)} in {data_dir!r}; missing: {os.path.basename(missing[0])}"
            f"{' and others' if len(missing) > 1 else ''}. {_ADVICE}."
        )
    if max(present) >= count:
        raise DataError(
            f"The files {filename}-{split}-*-of-{count:05d} in {data_dir!r} must be numbered from "
            f"0 to {count - 1}. Received: {max(present):05d}. Remove the files that are not needed."
        )
    for path in paths:
        if not os.path.isfile(path):  # reading a pipe would block
            raise DataError(f"A TFRecord file must be a regular file. Received: {path}.")
        with open(path, "rb"):  # unlike TensorFlow, `open` names an unreadable file in its error
            pass
    _check_shuffled(data_dir, filename, split, paths)
    return paths


def _check_shuffled(data_dir, filename, split, paths):
    """Check that no file is an incomplete copy of its unshuffled file.

    T2T writes the records of an unshuffled file in another order, and then removes it. If T2T is
    stopped while it writes, both files remain. If T2T is stopped before, and ut_keras generates the
    data, the files of ut_keras have other sizes.
    """
    if os.path.isfile(own_files.find(data_dir, own_files.origin_name(filename, split))):
        return  # ut_keras wrote the files, and writes no incomplete files
    name, count = f"{filename}-unshuffled", len(paths)
    for shard in _shards_by_count(data_dir, name, split).get(count, ()):
        if shard >= count:
            continue
        path, unshuffled = paths[shard], shard_paths(data_dir, name, split, count)[shard]
        size, expected = os.path.getsize(path), os.path.getsize(unshuffled)
        if size != expected:
            raise DataError(
                f"{path} must have the size of its unshuffled file, {expected:,} bytes. "
                f"Received: {size:,} bytes. A generation probably did not finish, so remove both "
                "files and generate the data again. If the first file is complete, only remove "
                f"{unshuffled}."
            )


def of_other_splits(path: str) -> list[str]:
    """Return the paths of the shards of the same problem that belong to other splits.

    Args:
        path: str, the path of a shard.
    """
    folder = os.path.dirname(path) or "."
    filename, split = parse_path(path)
    others = {f"{filename}-{name}" for name in _SPLITS if name != split}
    names = (name for name in os.listdir(folder) if _SHARD.search(name))
    found = (os.path.join(folder, name) for name in names if _SHARD.sub("", name) in others)
    return sorted(filter(os.path.isfile, found))


def _other_data(data_dir, filename, split):
    """Return sentences about other data in a folder, or "" if the folder has none."""
    names = os.listdir(data_dir)
    own = sorted(name for name in names if name.startswith(f"{filename}-"))
    packed = list(filter(_COMPRESSED_SHARD.fullmatch, own))
    if packed:
        return f" It has compressed files, such as {packed[0]}. Decompress them first."
    matches = map(_ANY_SHARD.fullmatch, names)
    found = {match[1]: match[2] for match in sorted(filter(None, matches), key=lambda m: m[0])}
    if f"{filename}-unshuffled" in found.values():
        return " It has unshuffled files of this problem, because a generation did not finish."
    # Unshuffled files of other problems may be incomplete, so the error does not name them.
    found = {part: name for part, name in found.items() if not name.endswith("-unshuffled")}
    if not found:
        return ""
    shown = ", ".join(list(found)[:_MOST_SHOWN]) + (", …" if len(found) > _MOST_SHOWN else "")
    advice = ""
    if filename not in found.values():
        advice = (
            " If one of these names is an earlier name of the problem, rename the files, or "
            "override dataset_filename in the class of the problem."
        )
    elif split == "dev" and f"{filename}-train" in found:
        advice = " To train without an evaluation, pass --schedule=train."
    return f" It has files of {shown}.{advice}"


def _only_set_of_shards(data_dir, filename, split):
    """Return (number of shards in the file names, set of the shards that exist).

    Raises:
        DataError: if the folder is missing, or if it has no shards or several sets of shards.
    """
    pattern = f"{filename}-{split}-?????-of-?????"
    if not data_dir or not os.path.isdir(data_dir):
        raise DataError(
            f"data_dir must be a folder with the files {pattern}. Received: data_dir={data_dir!r}, "
            f"which is not a folder. {_ADVICE}."
        )
    sets = _shards_by_count(data_dir, filename, split)
    if not sets:
        raise DataError(
            f"data_dir must contain files {pattern}. Received: data_dir={data_dir!r}, which has "
            f"none.{_other_data(data_dir, filename, split)} {_ADVICE}."
        )
    if len(sets) > 1:
        counts = " and ".join(f"of-{count:05d}" for count in sorted(sets))
        raise DataError(
            f"data_dir must contain one set of files {pattern}. "
            f"Received: {counts} in {data_dir!r}. Remove the files that are not needed."
        )
    ((count, present),) = sets.items()
    return count, present


def _shards_by_count(data_dir, filename, split):
    """Return {number of shards in the file names: set of the shards that exist}."""
    sets: dict[int, set[int]] = {}
    for name in os.listdir(data_dir):
        match = _SHARD.search(name)
        if match and name[: match.start()] == f"{filename}-{split}":
            sets.setdefault(int(match[2]), set()).add(int(match[1]))
    return sets


def is_complete(data_dir: str, filename: str, split: str) -> bool:
    """Return whether all shards of a split exist."""
    try:
        return bool(find(data_dir, filename, split))
    except UserError:
        return False


def exist(data_dir: str, filename: str, split: str) -> bool:
    """Return whether at least one shard of a split exists."""
    return os.path.isdir(data_dir) and bool(_shards_by_count(data_dir, filename, split))


def write(examples: Iterable[Any], paths: Sequence[str]) -> int:
    """Write examples to shards in turn.

    The first example goes to the first shard, the second example to the second shard, and so on. If
    an error occurs, no shard is written.

    Args:
        examples: iterable of examples. An example is a dict from feature name to a non-empty list
            of ints, or the bytes that `serialize` makes from such a dict.
        paths: list of str, one file per shard.

    Returns:
        The number of examples written, which may be 0.

    Raises:
        DataError: if an example is not a dict of lists of ints, or if a list is empty.
    """
    import tensorflow as tf

    count = 0
    with whole_file.temporary_folder(paths[0]) as folder:
        temporary = [os.path.join(folder, os.path.basename(path)) for path in paths]
        writers = [tf.io.TFRecordWriter(path) for path in temporary]
        try:
            for example in examples:
                record = example if isinstance(example, bytes) else serialize(example)
                writers[count % len(writers)].write(record)
                count += 1
        finally:
            for writer in writers:
                writer.close()
        whole_file.move_into_place(list(zip(temporary, paths, strict=True)))
    return count


def serialize(example: Mapping[str, Any]) -> bytes:
    """Return the serialized `tf.train.Example` of a dict of int lists."""
    import tensorflow as tf

    message = tf.train.Example()
    features = message.features.feature
    for name, values in contract.validated(example, contract.DICT, "A record").items():
        try:
            is_empty = not len(values)
            features[name].int64_list.value.extend(values)
        except (TypeError, ValueError) as error:
            raise contract.ids_error(f"feature {name!r}", values) from error
        if is_empty:
            raise DataError(
                f"Feature {name!r} of an example must not be empty. Received: {example}."
            )
    return message.SerializeToString(deterministic=True)


def read(path: str) -> Iterator[dict[str, list[int]]]:
    """Yield the examples of one file as dicts from feature name to a list of ints."""
    import tensorflow as tf

    for record in _records(path):
        example = tf.train.Example.FromString(record)
        yield {
            name: list(feature.int64_list.value)
            for name, feature in example.features.feature.items()
        }


def _records(path):
    """Return an iterator over the records of a file, as bytes."""
    import tensorflow as tf

    from ut_keras.ops import autotuning

    return autotuning.disable(tf.data.TFRecordDataset(path)).as_numpy_iterator()


def find_bad(paths: Iterable[str]) -> str | None:
    """Return the first file that is damaged or has features other than int64 lists.

    The return value is None if there is no such file.
    """
    import tensorflow as tf

    for path in paths:
        try:
            for record in _records(path):
                features = tf.train.Example.FromString(record).features.feature.values()
                if any(feature.WhichOneof("kind") != "int64_list" for feature in features):
                    return path
        except Exception:  # an error of TensorFlow, or one of protobuf, whose class is not public
            return path
    return None


def check_format(path: str) -> None:
    """Check that a file is an uncompressed TFRecord file.

    Raises:
        DataError: if the file has another format. The message names this format.
    """
    if other := other_format(path):
        advice = " Decompress it under the same name." if other.endswith("compressed") else ""
        raise DataError(
            "A TFRecord file must be uncompressed, as in T2T. "
            f"Received: {path}, which is {other}.{advice}"
        )


def other_format(path: str) -> str | None:
    """Return the format of a file that is not an uncompressed TFRecord file.

    Returns:
        str, for example "GZIP-compressed". The value is None for a TFRecord file, for an empty
        file, and for a file whose format is not recognized, such as a damaged file.
    """
    with open(path, "rb") as file:
        start = file.read(_EDGE)
    if len(start) >= _HEADER:
        (size_crc,) = masked_crcs([start[:8]])
        if size_crc == int.from_bytes(start[8:12], "little"):
            return None  # an uncompressed file begins with a size and its checksum
    for name, magic in _MAGIC.items():
        if start.startswith(magic):
            return name
    with contextlib.suppress(zlib.error):
        if zlib.decompressobj().decompress(start):
            return "ZLIB-compressed"
    return _text_format(start)


def _text_format(start):
    """Return the kind of text that a file contains, from the first bytes of the file.

    The return value is None if the bytes are not text.
    """
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError:
        return None
    if not text.strip() or any(c < " " and not c.isspace() for c in text):
        return None
    if text.startswith("version https://git-lfs"):
        return "a Git LFS pointer; the file itself was not fetched"
    if re.match(r"\s*<(!doctype|html|head|\?xml)", text, re.IGNORECASE):
        return "an HTML or XML page"
    return f"text, {text.strip().splitlines()[0][:40]!r}"


def masked_crcs(strings: Iterable[bytes]) -> np.ndarray:
    """Return masked CRCs, uint32 [k], as TFRecord files store them.

    TensorFlow masks CRCs because a CRC over bytes that include CRCs is less reliable.
    """
    crcs = np.array([google_crc32c.value(string) for string in strings], np.uint32)
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + _MASK_DELTA


def fingerprint(files: Sequence[str]) -> str:
    """Return a line that identifies the content of some data files.

        10 files, 1,234,567 bytes, sha256 0a1b2c3d4e5f6071

    The hash covers the size and the first and last 64 KiB of each file, in the order of `files`. It
    does not cover complete files, which may have gigabytes. Different examples or a different order
    give a different hash. Copied or renamed files give the same hash. The hash does not cover
    damage in the middle of a file. Each record has its own checksum, so reading the record finds
    such damage.
    """
    digest, total = hashlib.sha256(), 0
    for path in files:
        with file_error.named(path), open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(size.to_bytes(8, "little"))
            digest.update(file.read(_EDGE))
            file.seek(max(0, size - _EDGE))
            digest.update(file.read(_EDGE))
        total += size
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    return f"{count}, {total:,} bytes, sha256 {digest.hexdigest()[:16]}"
