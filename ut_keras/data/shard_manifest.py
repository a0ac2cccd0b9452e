"""How large the files of a split are, as whoever generated them knows.

    shards.<problem>-train.json      {"bytes": [81234, 81190, 81377]}

A file that was cut off between two records is as good a TFRecord file as any, so its readers cannot
tell. Folders that T2T wrote have no such file: their sizes are taken as they are.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ut_keras.files import json_file, whole_file


def path(data_dir: str, filename: str, split: str) -> str:
    """The path of the manifest. T2T reads all files whose names begin with that of a split."""
    return os.path.join(data_dir, f"shards.{filename}-{split}.json")


def write(manifest: str, shards: Iterable[str]) -> None:
    """Notes the sizes of files that are whole.

    Args:
        manifest: str, its `path`.
        shards: list of str, the paths of all files, in order.
    """
    with whole_file.writing(manifest) as file:
        json.dump({"bytes": [os.path.getsize(shard) for shard in shards]}, file)
        file.write("\n")


def read(manifest: str) -> dict[str, Any] | None:
    """What a manifest holds, or None; DataError if somebody else's file has its name."""
    return json_file.read_own(manifest, ("bytes",))


def difference(data_dir: str, filename: str, split: str, shards: Sequence[str]) -> str | None:
    """What is wrong with the files, as one line; None if nothing is, or there is no manifest.

    Raises:
        DataError: as `read`.
    """
    manifest = path(data_dir, filename, split)
    content = read(manifest)
    if content is None:
        return None
    expected = content["bytes"]
    sizes = [os.path.getsize(shard) for shard in shards]
    if not isinstance(expected, list) or len(expected) != len(sizes):
        return (
            f"{manifest} must hold the sizes of {len(sizes)} files. Received: "
            f"{str(expected)[:80]}. Generate the data again, or remove it if the files are whole."
        )
    for shard, there, here in zip(shards, expected, sizes, strict=True):
        if there != here:
            return (
                f"A TFRecord file must be as it was generated. Received: {shard} of {here} bytes, "
                f"instead of {there}. Remove it and generate the data again; if it was meant to "
                f"change, remove {manifest}."
            )
    return None


_READ = 1 << 16  # bytes from either end of a file


def fingerprint(files: Sequence[str]) -> str:
    """Which data files hold, in a line: "10 files, 1,234,567 bytes, sha256 0a1b2c3d4e5f6071".

    Of the sizes of the files, in their order, and of the beginning and the end of each, so that
    gigabytes need not be read; other examples or another order give another one, a copy or another
    name the same. What is damaged in between is told by the checksum of a record when it is read.

    Args:
        files: list of str.

    Returns:
        str.
    """
    digest, total = hashlib.sha256(), 0
    for path in files:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(size.to_bytes(8, "little"))
            digest.update(file.read(_READ))
            file.seek(max(0, size - _READ))
            digest.update(file.read(_READ))
        total += size
    count = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    return f"{count}, {total:,} bytes, sha256 {digest.hexdigest()[:16]}"
