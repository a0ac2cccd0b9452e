"""An index of TFRecord files: locations of records and lengths of features.

    index = record_index.get(files, lengths_of, key)
    index.lengths                 int32 [n, features]
    index.read([7, 3])            reads records 7 and 3, and no other records

To build the index, `get` reads all files once, at 150,000 examples per second on two cores. So it
also finds damaged records before training starts. An index of at least 200,000 records is saved for
later runs (see `own_files`). An index takes 8 bytes per record and 4 bytes per feature of a record.
For the 4.5 million records of WMT14 English-German, this is 72 MB.

During training, records are read one by one in random order. This is fast only if the operating
system can cache the files in memory. Every read verifies the checksums of the record again, because
a file may be damaged after the index was built.
"""

import collections
import hashlib
import io
import itertools
import os
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ut_keras import process
from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.files import file_error, own_files, whole_file
from ut_keras.ops import autotuning
from ut_keras.process.live_line import counted
from ut_keras.text.printed_notes import print_once

_SCAN_BATCH = 128
_READ_BUFFER = 1 << 20
# A record is stored as its size (8 bytes), the checksum of the size (4 bytes), the record itself,
# and the checksum of the record (4 bytes).
_FRAME = (12, 4)
_SIZE_BYTES = 8
_RECORDS_WORTH_KEEPING = 200_000  # reading this number of records takes one to several seconds
_DIGEST_BYTES = 32
_FORMAT = 4  # version of the format of a saved index
# If the files of a split have at least this mean number of records, an empty file is an error.
_MIN_MEAN_RECORDS = 10
# A note appears if a file of such a split has more than this many times the records of another.
_MAX_RATIO = 2

# A process usually trains on one set of files and evaluates on a few other sets. A process that
# runs tests may use many sets of files, so only the newest indexes are kept.
_MAX_INDEXES = 4

# Dict {(folder, hash of files and key): index}. The newest index is the last entry.
_indexes: dict[tuple[str, str], "RecordIndex"] = {}


class RecordIndex:
    """The consecutively numbered records of some files.

    Args:
        files: list of str, the TFRecord files.
        sizes: int array [n], the size of every record in bytes.
        lengths: int32 array [n, ...], the lengths of the features of the examples.
        path: str, the path for the saved index. The file need not exist.

    Attributes:
        counts: int array [files], the number of records of each file.
    """

    def __init__(
        self, files: Sequence[str], sizes: np.ndarray, lengths: np.ndarray, path: str
    ) -> None:
        self.files = list(files)
        self.lengths = lengths
        self.path = path
        # Byte offsets in the concatenation of all files.
        self._offsets = np.concatenate([[0], np.cumsum(sizes.astype(np.int64) + sum(_FRAME))])
        self._file_starts = np.concatenate([[0], np.cumsum([os.stat(f).st_size for f in files])])
        if self._offsets[-1] != self._file_starts[-1]:
            # For a short text file, TensorFlow raises no error and reads no records.
            for file in files:
                tfrecords.check_format(file)
            raise DataError(
                f"TFRecord files must be uncompressed and must not change while they are read. "
                f"Received: {counted(len(files), 'file')} of {self._file_starts[-1]} bytes "
                f"with records of {self._offsets[-1]} bytes, such as {files[0]}."
            )
        self.counts = np.diff(np.searchsorted(self._offsets, self._file_starts))
        process.allow_open_files(_MAX_INDEXES * len(files))  # each index keeps its files open
        self._descriptors = [os.open(file, os.O_RDONLY) for file in files]
        for descriptor in self._descriptors:
            weakref.finalize(self, os.close, descriptor)

    def __len__(self) -> int:
        return len(self.lengths)

    def check_shares(self) -> None:
        """Check that no file of a split with many records is empty.

        Data generation distributes the examples evenly over the files, so an empty file is damaged.
        The method prints a note if a file has far fewer records than another file. It also prints a
        note if two files of a problem have the same records, even in different splits.

        Raises:
            DataError: if a file is empty. The message names the file.
        """
        splits = np.array([file.rpartition("-of-")[0].rpartition("-")[0] for file in self.files])
        for split in np.unique(splits):
            files = np.flatnonzero(splits == split)
            counts = self.counts[files]
            if counts.sum() >= _MIN_MEAN_RECORDS * len(files) and not counts.all():
                raise DataError(
                    f"Each TFRecord file must contain some of the {counts.sum():,} records of the "
                    f"{len(files)} files. Received: {self.files[files[counts.argmin()]]}, which is "
                    "empty. Remove it and generate the data again."
                )
            if counts.sum() >= _MIN_MEAN_RECORDS * len(files):
                self._note_uneven_files(files)
                self._note_equal_files(files)

    def _note_uneven_files(self, files):
        """Print a note if one of the files of a split seems to be incomplete."""
        counts = self.counts[files]
        if counts.max() > _MAX_RATIO * counts.min():
            print_once(
                f"note: {self.files[files[counts.argmin()]]} has "
                f"{counted(counts.min(), 'record')}, and {self.files[files[counts.argmax()]]} has "
                f"{counts.max():,}. Data generation distributes the examples evenly, so a file may "
                "be incomplete or belong to other data."
            )

    def _note_equal_files(self, files):
        """Print a note if a file has the same records as another file of the problem."""
        by_size = collections.defaultdict(list)
        for file, size in zip(files, np.diff(self._file_starts)[files].tolist(), strict=True):
            by_size[size].append(self.files[file])
        for path in tfrecords.of_other_splits(self.files[files[0]]):
            if (size := os.path.getsize(path)) in by_size:
                by_size[size].append(path)
        first: dict[str, str] = {}  # maps the content of a file to its path
        # All splits have the same note about two files, so it is printed only once.
        several = (sorted(paths) for paths in by_size.values() if len(paths) > 1)
        for path in itertools.chain(*several):
            other = first.setdefault(tfrecords.fingerprint([path]), path)
            if other != path:
                print_once(
                    f"note: {other} and {path} have the same records. If one file has replaced the "
                    "other, the records of the replaced file are missing."
                )
                return

    def read(self, numbers: np.ndarray) -> tuple[np.ndarray, list[bytes]]:
        """Read records by their numbers.

        Args:
            numbers: int array [k], the numbers of the records.

        Returns:
            (files, records). `files` is an int array [k] with the index in `self.files` for each
                record. `records` is a list of k bytes objects.

        Raises:
            DataError: if a record cannot be read or has a wrong checksum. The message names the
                file.
        """
        numbers = np.asarray(numbers)
        starts, stops = self._offsets[numbers], self._offsets[numbers + 1]
        files = np.searchsorted(self._file_starts, starts, side="right") - 1
        sizes = stops - starts
        offsets = starts - self._file_starts[files]
        descriptors = [self._descriptors[file] for file in files.tolist()]
        # `pread` is used instead of a memory map. If reading fails, `pread` raises an error, but
        # access to a mapped page would end the process. Other threads can run during `pread`.
        try:
            frames = list(map(os.pread, descriptors, sizes.tolist(), offsets.tolist()))
        except OSError as error:
            raise DataError(
                f"A TFRecord file must be readable. Received: {error.strerror}, for one of "
                f"{', '.join(sorted({self.files[file] for file in files}))}."
            ) from error
        before, after = _FRAME
        records = [frame[before:-after] for frame in frames]
        damaged = np.flatnonzero(~_are_intact(frames, records, sizes))
        if len(damaged):
            raise DataError(
                "A TFRecord file must be undamaged. Received: a record with a wrong checksum, at "
                f"byte {offsets[damaged[0]]} of {self.files[files[damaged[0]]]}. Remove the file "
                "and generate the data again."
            )
        return files, records


def _are_intact(frames, records, sizes):
    """Return bool [k]: whether each frame is complete and its checksums match."""
    before, after = _FRAME
    found = np.array([len(frame) for frame in frames])
    if not np.array_equal(found, sizes):  # the file was truncated after it was indexed
        return found == sizes
    expected = np.empty(len(frames), [("size", "<u8"), ("size_crc", "<u4"), ("crc", "<u4")])
    expected["size"] = sizes - (before + after)
    expected["size_crc"] = tfrecords.masked_crcs(frame[:_SIZE_BYTES] for frame in frames)
    expected["crc"] = tfrecords.masked_crcs(records)
    around = b"".join(frame[:before] + frame[-after:] for frame in frames)
    return np.frombuffer(around, expected.dtype) == expected


def get(files: Sequence[str], lengths_of: Callable[..., Any], key: str) -> RecordIndex:
    """Return the index of files. Build the index if it is neither in memory nor saved.

    Args:
        files: list of str, the TFRecord files.
        lengths_of: function that takes the file names and the records, two string tensors [k], and
            returns the lengths of the features of each example, int32 [k, ...].
        key: str that identifies all settings, apart from the files, that affect the lengths.
    """
    # The names are relative to the folder, because the folder's path may change or be written in
    # several ways.
    folder = os.path.realpath(os.path.dirname(files[0]))
    states = [
        (_name_from(folder, file), stat.st_size, stat.st_mtime_ns)
        for file, stat in zip(files, map(os.stat, files), strict=True)
    ]
    digest = hashlib.sha256(repr((_FORMAT, states, key)).encode()).hexdigest()[:16]
    index = _indexes.pop((folder, digest), None)
    _indexes[folder, digest] = _load_or_build(files, lengths_of, digest) if index is None else index
    for oldest in list(_indexes)[:-_MAX_INDEXES]:
        del _indexes[oldest]
    return _indexes[folder, digest]


def _name_from(folder, file):
    """Return the path of a file relative to a folder.

    The path of the folder may have any spelling.
    """
    own_folder, name = os.path.split(file)
    return os.path.relpath(os.path.join(os.path.realpath(own_folder), name), folder)


def _load_or_build(files, lengths_of, digest):
    folder, name = os.path.dirname(files[0]), f"record_index-{digest}.npz"
    path, existing = own_files.path(folder, name), own_files.find(folder, name)
    kept = _load(existing)
    if kept is not None:
        sizes, lengths = kept
        return RecordIndex(files, sizes, lengths, existing)
    sizes, lengths, seconds = _scan(files, lengths_of)
    index = RecordIndex(files, sizes, lengths, path)
    if len(lengths) >= _RECORDS_WORTH_KEEPING:
        is_kept = _save(path, sizes, lengths)
        print(
            f"Indexed {counted(len(lengths), 'record')} of {counted(len(files), 'file')} in "
            f"{seconds:,.0f} s{f'; saved the index as {path}' if is_kept else ''}",
            flush=True,
        )
    return index


@tf.autograph.experimental.do_not_convert
def _scan(files, lengths_of):
    """Read all records and return (sizes, lengths, seconds).

    `seconds` is the time for reading. It excludes the start of TensorFlow and the tracing of
    `lengths_of`. Both may take longer than reading, and a saved index would not avoid them.
    """

    def records_of(file):
        records = tf.data.TFRecordDataset(file, buffer_size=_READ_BUFFER).batch(_SCAN_BATCH)
        return records.map(lambda some: (tf.repeat(file, tf.shape(some)[0]), some))

    def measure(files, records):
        return tf.strings.length(records), lengths_of(files, records)

    dataset = tf.data.Dataset.from_tensor_slices(list(files)).flat_map(records_of)
    dataset = dataset.map(measure, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    batches = autotuning.disable(dataset).as_numpy_iterator()
    measured = list(itertools.islice(batches, 1))
    started = time.monotonic()
    measured += batches
    seconds = time.monotonic() - started
    if not measured:
        return np.zeros(0, np.int32), np.zeros(0, np.int32), seconds
    sizes, lengths = zip(*measured, strict=True)
    return np.concatenate(sizes), np.concatenate(lengths), seconds


def _load(path):
    """Return (sizes, lengths) of a saved index.

    The result is None if the file is missing or damaged.
    """
    file_error.check_is_file(path)
    try:
        with file_error.named(path), open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        print(f"{file_error.one_line(error)}; indexing the records again", flush=True)
        return None
    arrays, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(arrays).digest() != digest:
        print(f"{path} is damaged; indexing the records again", flush=True)
        return None
    with np.load(io.BytesIO(arrays)) as kept:
        return kept["sizes"], kept["lengths"]


def _save(path, sizes, lengths):
    """Write an index, followed by its SHA-256, and return whether the write succeeded."""
    arrays = io.BytesIO()
    try:
        np.savez(arrays, sizes=sizes, lengths=lengths)
        own_files.make_folder(os.path.dirname(os.path.dirname(path)))
        with whole_file.writing(path, binary=True) as file:
            file.write(arrays.getbuffer())
            file.write(hashlib.sha256(arrays.getbuffer()).digest())
    except OSError:
        return False
    return True
