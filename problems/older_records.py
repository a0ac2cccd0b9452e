"""Checks of records that other versions of T2T wrote in another form.

These functions read only the first records of a split, because all records of a split have the same
form.
"""

import itertools
from collections.abc import Iterable, Sequence

from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.text.printed_notes import print_once
from ut_keras.text.text_encoder import EOS

_NUM_CHECKED = 10  # one record may have the right form by chance
_MAX_IDS_SHOWN = 10


def check_end(problem_name: str, features: Iterable[str], files: Sequence[str]) -> None:
    """Check that EOS occurs once in each feature of a record, at the end.

    In T2T 1.0, the inputs of algorithmic problems have no EOS. Before 1.0.3, the targets also have
    no EOS, and the ids begin at 1. In all versions of T2T, `tiny_algo` has no EOS.

    Args:
        problem_name: str. The name of the problem, for the error.
        features: iterable of str. The features to check. Missing features are skipped.
        files: list of str, the files of the split.

    Raises:
        DataError: if EOS is missing at the end of a feature or occurs before the end.
    """
    for (path, record), name in itertools.product(_first_records(files), features):
        ids = record.get(name, [EOS])
        if ids.count(EOS) != 1 or ids[-1] != EOS:
            more = ", …" if len(ids) > _MAX_IDS_SHOWN else ""
            shown = ", ".join(map(str, ids[:_MAX_IDS_SHOWN]))
            raise DataError(
                f"{name!r} of {problem_name} must end with its only id {EOS}, EOS. Received: "
                f"[{shown}{more}] in {path}, which another version of T2T may have written. "
                "Generate the data again."
            )


def note_eos_between_texts(problem_name: str, files: Sequence[str]) -> None:
    """Print a note if the inputs of a record contain EOS before their end."""
    for path, record in _first_records(files):
        if EOS in record.get("inputs", [])[:-1]:
            print_once(
                f"note: {problem_name}: in {path}, EOS ends each text of an example, as in T2T "
                "before 1.11. In newer data, EOS ends only the last text. Use a model only with "
                "data of the form on which it was trained."
            )
            return


def _first_records(files):
    """Return pairs (file, record) of the first records of some files."""
    pairs = ((path, record) for path in files for record in tfrecords.read(path))
    return itertools.islice(pairs, _NUM_CHECKED)
