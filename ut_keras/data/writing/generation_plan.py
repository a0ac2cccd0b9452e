"""Find the missing files of a split, and record the origin of the existing files.

    with claimed(data_dir, "my_problem", {"train": 10, "dev": 1}, seed, tasks) as missing:
        for split, shards in missing.items():
            …                                                          see generation.py

    .ut_keras-records/datagen.<problem>-train.json
                            {"random_seed": 1, "shards": 10, "samples": …, "checksum": …}

The JSON file is called the origin of a split (see `own_files`). Data generation writes it before
the first file of the split, and keeps it afterwards. The origin contains the seed and a checksum of
all samples. A later run compares these values with its own values to determine whether it can
resume. The origin also contains the number of skipped samples for each reason. After the last file,
data generation adds the number of records of each file to the origin. `check_counts` compares these
numbers with the records that training reads. The origin also contains the digests of the vocabulary
and of the other side files. `check_side_files` compares these digests with the files in data_dir.
"""

import contextlib
import dataclasses
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ut_keras import process
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.files import file_error, json_file, own_files, path_lock

KEYS = ("random_seed", "shards")  # every origin has these keys


@dataclasses.dataclass(frozen=True)
class Split:
    """A split that must be written."""

    data_dir: str
    filename: str  # the first part of the file names
    name: str  # "train", "dev" or "test"
    num_shards: int  # the number of files
    random_seed: int  # the seed that the user gave

    @property
    def seed(self) -> int:
        """The seed for this split, derived from the user's seed."""
        # Python's hash of a string is different in every process.
        return zlib.crc32(f"{self.filename} {self.name} {self.random_seed}".encode())

    @property
    def is_shuffled(self) -> bool:
        return self.name == "train"

    @property
    def paths(self) -> list[str]:
        """The path of each shard."""
        return tfrecords.shard_paths(self.data_dir, self.filename, self.name, self.num_shards)

    @property
    def origin_path(self) -> str:
        """The path from which the origin is read."""
        return origin_path(self.data_dir, self.filename, self.name)

    @property
    def plan(self) -> dict[str, Any]:
        """The values that all files of the split must have in common."""
        return {"random_seed": self.random_seed, "shards": self.num_shards}


@contextlib.contextmanager
def claimed(
    data_dir: str,
    filename: str,
    num_shards: Mapping[str, int],
    random_seed: int,
    tasks: Sequence[int] | None = None,
) -> Iterator[dict[Split, list[int]]]:
    """Context that locks the missing files and yields them as `plan` returns them.

    No other process can write these files inside the context.

    Args:
        data_dir, filename, num_shards, random_seed, tasks: the same as for `plan`.

    Raises:
        LockedError: if another process writes one of the files.
        DataError: in the same cases as `plan`.
    """
    for name, number in num_shards.items():
        for path in tfrecords.shard_paths(data_dir, filename, name, number):
            if os.path.lexists(path):  # an existing file needs no lock
                path_lock.remove_leftover(path)
    arguments = (data_dir, filename, num_shards, random_seed, tasks)
    process.allow_open_files(sum(num_shards.values()))  # one lock per file
    with contextlib.ExitStack() as locks:
        for split, shards in plan(*arguments).items():
            for path in (split.paths[shard] for shard in shards):
                locks.enter_context(path_lock.held(path, "Data must be generated"))
        # Another process may have written some of the files before the locks were acquired.
        yield plan(*arguments)


def plan(
    data_dir: str,
    filename: str,
    num_shards: Mapping[str, int],
    random_seed: int,
    tasks: Sequence[int] | None = None,
) -> dict[Split, list[int]]:
    """Return the shards that are missing.

    Args:
        data_dir: str. The folder of the files.
        filename: str. The first part of the file names.
        num_shards: dict from the name of a split to its number of files.
        random_seed: int. The user's seed.
        tasks: list of int. The numbers of the requested files, counted over all splits from 0.
            Other machines may make the other files at the same time. None means all files.

    Returns:
        dict from `Split` to the list of the shards to write. A split is omitted if it has no shards
        to write.

    Raises:
        DataError: if a task does not exist, or if existing files are incompatible; see
            `missing_shards`.
    """
    total = sum(num_shards.values())
    outside = [task for task in tasks or () if not 0 <= task < total]
    if outside or tasks == []:
        raise DataError(
            f"The tasks of {filename} must be in 0..{total - 1}, one per file of "
            f"{', '.join(num_shards)}. Received: {outside or 'none'}."
        )
    missing = {}
    first = 0
    for name, number in num_shards.items():
        split = Split(str(data_dir), filename, name, number, random_seed)
        requested = None
        if tasks is not None:
            requested = [task - first for task in tasks if 0 <= task - first < number]
        first += number
        if not tfrecords.is_complete(data_dir, filename, name) and requested != []:
            missing[split] = missing_shards(split, requested)
    return {split: shards for split, shards in missing.items() if shards}


def origin_path(data_dir: str, filename: str, split: str) -> str:
    """Return the path of the JSON file with the origin of a split."""
    return own_files.find(data_dir, own_files.origin_name(filename, split), KEYS)


def remove_origin(split: Split) -> None:
    """Remove the JSON file of the origin if it exists."""
    own_files.remove(split.data_dir, own_files.origin_name(split.filename, split.name), KEYS)


def missing_shards(split: Split, shards: Sequence[int] | None = None) -> list[int]:
    """Return the requested shards that must be written.

    `shards` lists the requested shards. None means that all shards are requested. In this case,
    shards with another seed or another number of shards are written again if a shard is missing. If
    `shards` is a list, other machines may make shards at the same time, so no existing file is
    overwritten. Files without an origin are never overwritten. If all shards exist, the list is
    empty, as in T2T.

    Raises:
        DataError: if existing files have another seed or another number of shards and must not be
            overwritten.
    """
    present = [shard for shard, path in enumerate(split.paths) if os.path.lexists(path)]
    requested = range(split.num_shards) if shards is None else shards
    if len(present) == split.num_shards:
        return []
    own_files.check_folder(split.data_dir)
    origin = json_file.read_own(split.origin_path, KEYS)
    if not present or (origin and {**origin, **split.plan} == origin):
        return [shard for shard in requested if shard not in present]
    if shards is None and origin:
        return list(requested)
    raise DataError(
        f"The files {split.filename}-{split.name}-* in {split.data_dir!r} must have this seed and "
        f"number: {split.plan}. Received: {origin or 'files of unknown origin'}. Remove the files "
        "to generate them again."
    )


def write_origin(split: Split, origin: dict[str, Any]) -> None:
    """Write the JSON file with the origin of a split.

    Raises:
        DataError: if existing files were made from other samples.
    """
    known = json_file.read_own(split.origin_path, KEYS)
    has_files = any(os.path.exists(path) for path in split.paths)
    if has_files and known and known.get("checksum") != origin["checksum"]:
        raise DataError(
            f"The samples must be the {known.get('samples')} samples with checksum "
            f"{known.get('checksum')} from which the files {split.filename}-{split.name}-* in "
            f"{split.data_dir!r} were made. Received: {origin['samples']} samples, checksum "
            f"{origin['checksum']}. Remove the files to generate them again."
        )
    records = {}
    if known and {**known, **split.plan} == known:
        existing = {f"{shard}" for shard, path in enumerate(split.paths) if os.path.exists(path)}
        records = {shard: n for shard, n in _recorded(known).items() if shard in existing}
    _write(split, {**split.plan, **origin, "records": records})


def add_counts(split: Split, counts: Mapping[int, int]) -> None:
    """Add the number of records of each new shard to the JSON file.

    Other machines may add the numbers of their shards at the same time. One machine may then
    overwrite the numbers of another machine. `check_counts` then computes
    the number of records from the number of samples, or does not check the shard.
    """
    origin = json_file.read_own(split.origin_path, KEYS) or split.plan
    records = {**_recorded(origin), **{str(shard): count for shard, count in counts.items()}}
    records = dict(sorted(records.items(), key=lambda item: int(item[0])))
    _write(split, {**origin, "records": records})


def check_counts(files: Sequence[str], counts: Sequence[int], is_one_each: bool) -> None:
    """Check that the files of a split hold as many records as were written to them.

    Files without an origin, such as the files that T2T writes, are not checked.

    Args:
        files: list of str, all files of the split, in their order.
        counts: list of int, the number of records of each file.
        is_one_each: bool. Whether each sample became one record. Origins of earlier versions lack
            the numbers of records. If `is_one_each` is True, these numbers are then computed from
            the number of samples.

    Raises:
        DataError: if a file holds more or fewer records, or if the origin lists another number of
            files.
    """
    filename, split = tfrecords.parse_path(files[0])
    path = origin_path(os.path.dirname(files[0]), filename, split)
    origin = json_file.read_own(path, KEYS)
    if origin is None:
        return
    advice = (
        f"Remove the files of this split and {path} and generate the data again; if the files were "
        "changed on purpose, remove the latter only"
    )
    if origin["shards"] != len(files):
        raise DataError(
            f"{filename}-{split} must have {origin['shards']} files, as {path} says. "
            f"Received: {len(files)}. {advice}."
        )
    recorded = _recorded(origin)
    found: Any = origin.get("samples")
    samples = found if is_one_each and isinstance(found, int) else None
    for shard, (file, count) in enumerate(zip(files, counts, strict=True)):
        expected = []
        if str(shard) in recorded:
            expected = [recorded[str(shard)]]
        elif samples is not None:
            expected = _possible_counts(samples, len(files))
        if expected and count not in expected:
            raise DataError(
                f"{file} must hold {' or '.join(f'{number:,}' for number in expected)} records, as "
                f"{path} says. Received: {count:,}. {advice}."
            )
    if samples is not None and sum(counts) != samples:
        raise DataError(
            f"{filename}-{split} must hold {samples:,} records, as {path} says. "
            f"Received: {sum(counts):,}. {advice}."
        )


def _possible_counts(samples, num_shards):
    """Return the possible numbers of samples in a shard.

    Every shard has one sample of each group of `num_shards` successive samples.
    """
    share = samples // num_shards
    return [share, share + 1] if samples % num_shards else [share]


def side_file_digests(data_dir: str, names: Iterable[str]) -> dict[str, str]:
    """Return {name: digest} for the side files that exist.

    Line ends (LF or CRLF) do not affect a digest.
    """
    return {name: digests[0] for name, digests in _accepted_digests(data_dir, names).items()}


def _accepted_digests(data_dir, names):
    """Return {name: digests} for the side files that exist.

    The first digest of a side file is the digest of its content. The other digests belong to the
    content without and with a line end after the last line, because text editors add or remove it.
    """
    accepted = {}
    for name in names:
        path = os.path.join(data_dir, name)
        if os.path.isfile(path):
            with file_error.named(path), open(path, "rb") as file:
                content = file.read().replace(b"\r\n", b"\n")
            contents = (content, content.removesuffix(b"\n"), content + b"\n")
            accepted[name] = [hashlib.sha256(each).hexdigest() for each in contents]
    return accepted


def check_side_files(
    data_dir: str, filename: str, splits: Iterable[str], names: Iterable[str]
) -> None:
    """Check that the side files are those with which the data files were made.

    With another vocabulary, the ids in the data files stand for other texts. Data files without an
    origin, such as the files that T2T writes, are not checked.

    Args:
        data_dir, filename: the same as for `plan`.
        splits: iterable of str, the names of the splits to check.
        names: iterable of str, the names of the side files in data_dir, such as the vocabulary.

    Raises:
        DataError: if a side file differs.
    """
    accepted = _accepted_digests(data_dir, names)
    for split in splits:
        path = origin_path(data_dir, filename, split)
        expected = (json_file.read_own(path, KEYS) or {}).get("side_files")
        if not isinstance(expected, dict) or not tfrecords.exist(data_dir, filename, split):
            continue
        for name, digests in accepted.items():
            if expected.get(name, digests[0]) not in digests:
                raise DataError(
                    f"{name} in {data_dir!r} must be the file with which {filename}-{split}-* were "
                    f"made, sha256 {str(expected[name])[:8]}…. Received: another file, sha256 "
                    f"{digests[0][:8]}…. Restore the former file, or remove {filename}-{split}-* "
                    f"to generate them again. If the file was changed on purpose, remove {path}."
                )


def found_data_notes(
    data_dir: str,
    filename: str,
    max_cases: int | None,
    user_files: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """Return notes on existing data files that differ from those that were requested.

    Args:
        data_dir, filename: the same as for `plan`.
        max_cases: int. The requested maximum number of samples. None means all samples.
        user_files: dict from the name of each split to the fingerprints of its files, see
            `user_file_fingerprints`.
    """
    outdated: dict[tuple[str, ...], list[str]] = {}  # the user's changed files -> data files
    limited: dict[int, list[str]] = {}  # number of samples -> data files with this limit
    for split, present in user_files.items():
        origin = json_file.read_own(origin_path(data_dir, filename, split), KEYS) or {}
        files, limit = f"{filename}-{split}-*", origin.get("max_cases")
        if isinstance(limit, int) and (max_cases is None or max_cases > limit):
            limited.setdefault(limit, []).append(files)
        if changed := _changed_user_files(origin.get("user_files"), present):
            outdated.setdefault(tuple(changed), []).append(files)
    notes = [
        f"{' and '.join(files)} have only the first {limit:,} samples, as max_cases requested. "
        "Remove these files, and a vocabulary that was built with them, to generate more samples."
        for limit, files in limited.items()
    ]
    for names, all_files in outdated.items():
        paths = " and ".join(os.path.join(data_dir, files) for files in all_files)
        notes.append(
            f"{' and '.join(all_files)} were not made from the present files; these have changed: "
            f"{', '.join(names)}. To generate them again, remove {paths}, and the vocabulary if it "
            "must fit the new text."
        )
    return notes


def _changed_user_files(former, present):
    """Return the names of the user's files that changed after the data generation.

    Args:
        former: dict from name to fingerprint, from the origin. It is None in older origins.
        present: the present fingerprints, see `user_file_fingerprints`.
    """
    if not isinstance(former, dict):
        return []
    # A file that was added to tmp_dir later may belong to another problem, so it is not compared. A
    # missing file is compared, because the split also depends on the fact that the file is missing.
    present = {name: value for name, value in present.items() if name in former or not value}
    if not present:
        return []
    changed = [name for name in present if former.get(name) != present[name]]
    # A file that is no longer read counts as changed. For example, there is a dev.tsv now, so
    # train.tsv is no longer read for the dev split.
    return changed or [name for name in former if name not in present]


def side_file_notes(
    data_dir: str, filename: str, max_cases: int | None, names: Iterable[str]
) -> list[str]:
    """Return a note if existing side files may have been built from fewer samples.

    Args:
        data_dir, filename: the same as for `plan`.
        max_cases: int. The requested maximum number of samples. None means all samples.
        names: iterable of str, the names of the side files that are built from samples.
    """
    origin = json_file.read_own(origin_path(data_dir, filename, "train"), KEYS) or {}
    limit, former = origin.get("max_cases"), origin.get("side_files")
    is_more = isinstance(limit, int) and (max_cases is None or max_cases > limit)
    if not is_more or not isinstance(former, dict):
        return []
    kept = [
        n for n, digests in _accepted_digests(data_dir, names).items() if former.get(n) in digests
    ]
    if not kept:
        return []
    return [
        f"{', '.join(kept)} may be built from the first {limit:,} samples only, as max_cases "
        "requested. Remove all data files and this file to build it from more samples."
    ]


def new_side_file_notes(
    data_dir: str, filename: str, splits: Iterable[str], names: Iterable[str]
) -> list[str]:
    """Return a note for each new side file that older data files may not fit.

    An example is the vocabulary of a folder that was copied without it. If the raw files have
    changed since then, the new vocabulary has other ids than the data files.

    Args:
        data_dir, filename: the same as for `plan`.
        splits: iterable of str, the names of the splits that were complete before.
        names: iterable of str, the names of the side files that have been built now.
    """
    notes = []
    for name in names:
        unknown = []
        for split in splits:
            origin = json_file.read_own(origin_path(data_dir, filename, split), KEYS) or {}
            recorded = origin.get("side_files")
            # `check_side_files` compares the file with a recorded digest.
            if not isinstance(recorded, dict) or name not in recorded:
                unknown.append(f"{filename}-{split}-*")
        if unknown:
            files = ", ".join(unknown)
            notes.append(
                f"{name} was missing and has been built from the raw files, but {files} existed "
                f"before. If they were made with another {name}, their ids stand for other texts. "
                f"Then restore the former file, or remove {files} to generate them again."
            )
    return notes


def user_file_fingerprints(paths: Iterable[str]) -> dict[str, str]:
    """Return {name: fingerprint} for some files, see `tfrecords.fingerprint`.

    The fingerprint of a file that does not exist is "". If no file exists, for example because the
    user has removed the raw files, the dict is empty.
    """
    prints = {
        os.path.basename(path): tfrecords.fingerprint([path]) if os.path.isfile(path) else ""
        for path in paths
    }
    return prints if any(prints.values()) else {}


def _recorded(origin):
    """Return {shard: number of records} for each shard whose number is in the origin."""
    records = origin.get("records")
    items = records.items() if isinstance(records, dict) else ()
    return {shard: n for shard, n in items if shard.isdigit() and isinstance(n, int)}


def _write(split, origin):
    name = own_files.origin_name(split.filename, split.name)
    own_files.write(split.data_dir, name, origin, KEYS, indent=2)
