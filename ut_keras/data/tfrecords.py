"""TFRecord files under T2T's names: `<problem>-train-00000-of-00010`, `-dev-`, `-test-`.

A record is a `tf.train.Example` whose features are int64 lists:

    {"inputs": [3, 2, 3, 1], "targets": [3, 2, 3, 1]}

Files are written under a temporary name and renamed when they are whole, and a split is read only
if all of its files are there. TensorFlow is loaded only to read and write.
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

from ut_keras.data import contract
from ut_keras.errors import DataError, UserError
from ut_keras.files import file_error, whole_file

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
_SPLITS = ("train", "dev", "test")
_EDGE = 1 << 16  # bytes of either end of a file
_HEADER = 12  # bytes before a record: its size and the checksum of that
_MASK_DELTA = 0xA282EAD8  # TensorFlow's lib/hash/crc32c.h
_MAGIC = {
    "GZIP-compressed": b"\x1f\x8b\x08",
    "BZIP2-compressed": b"BZh",
    "XZ-compressed": b"\xfd7zXZ\0",
    "ZSTD-compressed": b"\x28\xb5\x2f\xfd",
    "a ZIP archive": b"PK\x03\x04",
}


def shard_paths(data_dir: str, filename: str, split: str, num_shards: int) -> list[str]:
    """Returns the paths of the shards of a split, in order."""
    return [
        os.path.join(data_dir, f"{filename}-{split}-{shard:05d}-of-{num_shards:05d}")
        for shard in range(num_shards)
    ]


def parse_path(path: str) -> tuple[str, str]:
    """Returns the filename and the split that `shard_paths` made a path of."""
    filename, _, split = _SHARD.sub("", os.path.basename(path)).rpartition("-")
    return filename, split


def find(data_dir: str, filename: str, split: str) -> list[str]:
    """Returns the paths of the shards that are there, in order.

    Args:
        data_dir: str. The folder that data generation wrote, by us or by T2T.
        filename: str. What the file names begin with, most often the problem's name.
        split: "train", "dev" or "test".
    Raises:
        DataError: if the folder, the split or a shard is missing, or a shard is no file.
        OSError: if one may not be read.
    """
    if split not in _SPLITS:
        raise DataError(f"split must be one of {', '.join(_SPLITS)}. Received: split={split!r}.")
    wanted = f"{filename}-{split}-?????-of-?????"
    advice = "Run with --generate_data, or give the folder that holds the data as --data_dir"
    if not data_dir or not os.path.isdir(data_dir):
        raise DataError(
            f"data_dir must be a folder with the files {wanted}. Received: data_dir={data_dir!r}, "
            f"which is not a folder. {advice}."
        )
    sets = _shards_by_count(data_dir, filename, split)
    if not sets:
        raise DataError(
            f"data_dir must contain files {wanted}. Received: data_dir={data_dir!r}, which has "
            f"none. {advice}."
        )
    if len(sets) > 1:
        counts = " and ".join(f"of-{count:05d}" for count in sorted(sets))
        raise DataError(
            f"data_dir must contain one set of files {wanted}. Received: {counts} in {data_dir!r}. "
            "Remove the files that are not needed."
        )
    ((count, present),) = sets.items()
    paths = shard_paths(data_dir, filename, split, count)
    missing = [path for shard, path in enumerate(paths) if shard not in present]
    if missing:
        raise DataError(
            f"data_dir must contain all {count} files {filename}-{split}-*-of-{count:05d}. "
            f"Received: {len(present)} in {data_dir!r}; missing: {os.path.basename(missing[0])}"
            f"{' and others' if len(missing) > 1 else ''}. {advice}."
        )
    if max(present) >= count:
        raise DataError(
            f"The files {filename}-{split}-*-of-{count:05d} in {data_dir!r} must be numbered from "
            f"0 to {count - 1}. Received: {max(present):05d}. Remove the files that are not needed."
        )
    for path in paths:
        if not os.path.isfile(path):  # a pipe would be waited for without end
            raise DataError(f"A TFRecord file must be a regular file. Received: {path}.")
        with open(path, "rb"):  # a user who may not is told of the file, and TensorFlow does not
            pass
    return paths


def is_complete(data_dir: str, filename: str, split: str) -> bool:
    """True if all shards of a split are there."""
    try:
        return bool(find(data_dir, filename, split))
    except UserError:
        return False


def write(examples: Iterable[Any], paths: Sequence[str]) -> int:
    """Writes examples to shards, one after the other in turn, all or nothing.

    Args:
        examples: iterable of dicts from feature name to a non-empty list of ints, or of their
            bytes, as `serialize` makes them.
        paths: list of str, one file per shard.
    Returns:
        The number of examples written, which may be 0.
    Raises:
        DataError: if an example is no dict of lists of ints, or one of these is empty.
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
    """Returns the bytes of the `tf.train.Example` that holds a dict of int lists."""
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
    """Yields the examples of one file as dicts from feature name to a list of ints."""
    import tensorflow as tf

    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        yield {
            name: list(feature.int64_list.value)
            for name, feature in example.features.feature.items()
        }


def find_bad(paths: Iterable[str]) -> str | None:
    """Returns the first file that is damaged or has other records than lists of ints, or None."""
    import tensorflow as tf

    for path in paths:
        try:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                features = tf.train.Example.FromString(record).features.feature.values()
                if any(feature.WhichOneof("kind") != "int64_list" for feature in features):
                    return path
        except Exception:  # TensorFlow's, or protobuf's own, which is no public name
            return path
    return None


def check_format(path: str) -> None:
    """Raises DataError if a file holds something else than plain TFRecords, and names what."""
    if other := other_format(path):
        advice = " Decompress it under the same name." if other.endswith("compressed") else ""
        raise DataError(
            "A TFRecord file must be uncompressed, as in T2T. "
            f"Received: {path}, which is {other}.{advice}"
        )


def other_format(path: str) -> str | None:
    """Returns what a file is that holds no plain TFRecords, such as "GZIP-compressed"; else None.

    None is also for what cannot be told, such as a damaged file, and for an empty one.
    """
    with open(path, "rb") as file:
        start = file.read(_EDGE)
    if len(start) >= _HEADER and _masked_crc(start[:8]) == int.from_bytes(start[8:12], "little"):
        return None  # a size and its checksum, as a plain file begins
    for name, magic in _MAGIC.items():
        if start.startswith(magic):
            return name
    with contextlib.suppress(zlib.error):
        if zlib.decompressobj().decompress(start):
            return "ZLIB-compressed"
    return _text_format(start)


def _text_format(start):
    """What the bytes of the beginning of a file are if they are text; else None."""
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


def _masked_crc(content):
    crc = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def fingerprint(files: Sequence[str]) -> str:
    """Which data files hold, in a line: "10 files, 1,234,567 bytes, sha256 0a1b2c3d4e5f6071".

    Of the sizes of the files, in their order, and of the beginning and the end of each, so that
    gigabytes need not be read; other examples or another order give another one, a copy or another
    name the same. What is damaged in between is told by the checksum of a record when it is read.
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


def _shards_by_count(data_dir, filename, split):
    """{number of shards that the names speak of: {shards present}}."""
    sets: dict[int, set[int]] = {}
    for name in os.listdir(data_dir):
        match = _SHARD.search(name)
        if match and name[: match.start()] == f"{filename}-{split}":
            sets.setdefault(int(match[2]), set()).add(int(match[1]))
    return sets
