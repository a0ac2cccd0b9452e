"""Checks of records that other versions of T2T wrote in another form.

These functions read only the first record of a split, because all records of a split have the same
form.
"""

from collections.abc import Iterable, Sequence

from ut_keras.data import tfrecords
from ut_keras.errors import DataError
from ut_keras.text.printed_notes import print_once
from ut_keras.text.text_encoder import EOS

_MAX_IDS_SHOWN = 10


def check_end(problem_name: str, features: Iterable[str], files: Sequence[str]) -> None:
    """Check that the features of the first record end with EOS and contain no other EOS.

    In T2T 1.0, the symbols of algorithmic problems have other ids, or inputs have no EOS. In
    `tiny_algo`, this is so in all versions of T2T.

    Args:
        problem_name: str. The name of the problem, for the error.
        features: iterable of str. The features to check. Missing features are skipped.
        files: list of str, the files of the split.

    Raises:
        DataError: if a feature has another form.
    """
    path, record = _first_record(files)
    for name in features:
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
    """Print a note if the inputs of the first record contain EOS before their end."""
    path, record = _first_record(files)
    if EOS in record.get("inputs", [])[:-1]:
        print_once(
            f"note: {problem_name}: in {path}, EOS ends each text of an example, as in T2T before "
            "1.11. In newer data, EOS ends only the last text. Use a model only with data of the "
            "form on which it was trained."
        )


def _first_record(files):
    """Return (file, record) of the first record of some files, or ("", {}) without records."""
    for path in files:
        for record in tfrecords.read(path):
            return path, record
    return "", {}
