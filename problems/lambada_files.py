"""The files of LAMBADA: passages, vocabulary and novels, from the archive or as they lie there.

    tmp_dir/lambada-dataset.tar.gz                      holds all of the following
    tmp_dir/lambada_development_plain_text.txt          4,869 passages, one a line
    tmp_dir/lambada_test_plain_text.txt                 5,153
    tmp_dir/lambada_control_test_data_plain_text.txt    5,000, of the same novels, not filtered
    tmp_dir/lambada-vocab-2.txt                         word TAB count, by count
    tmp_dir/train-novels/GENRE/*.txt                    2,662 novels, one sentence a line
    tmp_dir/lambada-train-valid.tar.gz                  passages for reading comprehension

Files may be gzipped. If one of them lies in tmp_dir, nothing is downloaded.
"""

import glob
import os
from collections.abc import Iterable, Iterator

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.files import unpacking
from ut_keras.text import text_lines

DATASET = download.RawFile(
    "lambada-dataset.tar.gz",
    "https://zenodo.org/record/2630551/files/lambada-dataset.tar.gz",
    licence="CC BY 4.0; the novels are under copyright",
    members=("*lambada_*_plain_text.txt", "*lambada-vocab-2.txt", "*train-novels*"),
    most_bytes=10 * 10**9,
)
# Chu et al. 2017: passages of the novels whose last word stands in the context; optional.
COMPREHENSION = download.RawFile(
    "lambada-train-valid.tar.gz",
    "http://ttic.uchicago.edu/~kgimpel/data/lambada-train-valid.tar.gz",
    members=("*train.txt",),
    most_bytes=10 * 10**9,
)
DEV, TEST, CONTROL, VOCAB = (
    "lambada_development_plain_text.txt",
    "lambada_test_plain_text.txt",
    "lambada_control_test_data_plain_text.txt",
    "lambada-vocab-2.txt",
)
_FOLDER = "lambada-dataset"
_LEAST_CONTEXT = 50  # words; LAMBADA's passages have as many before the last sentence.


def fetch(tmp_dir: str | None) -> None:
    """Sees to it that there is something to read; downloads the archive where nothing is.

    Raises:
        DataError: if it cannot be had.
    """
    if not is_there(tmp_dir):
        path = download.fetch(tmp_dir, DATASET)
        folder = os.path.join(tmp_dir or "", _FOLDER)
        unpacking.unpack(path, folder, DATASET.members, DATASET.most_bytes)
    for folder in _folders(tmp_dir):
        archive = os.path.join(folder, "train-novels.tar")
        if os.path.exists(archive):
            novels = os.path.join(folder, "train-novels")
            unpacking.unpack(archive, novels, ("*.txt",), DATASET.most_bytes)


def is_there(tmp_dir: str | None) -> bool:
    """Whether one of the files lies in tmp_dir, unpacked."""
    return any(_find(tmp_dir, name) for name in (DEV, TEST, CONTROL, VOCAB))


def novels(tmp_dir: str | None) -> list[str]:
    """Returns the paths of the novels, sorted."""
    patterns = [
        os.path.join(glob.escape(folder), "train-novels", "**", "*.txt")
        for folder in _folders(tmp_dir)
    ]
    return sorted(path for pattern in patterns for path in glob.glob(pattern, recursive=True))


def has_comprehension(tmp_dir: str | None) -> bool:
    """Whether the passages of Chu et al. lie in tmp_dir."""
    return os.path.exists(os.path.join(tmp_dir or "", COMPREHENSION.name))


def read(tmp_dir: str | None, name: str) -> Iterator[str]:
    """Yields the lines of `DEV`, `TEST`, `CONTROL` or `VOCAB`."""
    path = _find(tmp_dir, name)
    if not path:
        raise DataError(
            f"Expected {name} in tmp_dir, or {DATASET.name} from {DATASET.url} and nothing else of "
            f"it. Received: tmp_dir={tmp_dir!r} without them."
        )
    yield from _read_lines(path)


def read_novels(tmp_dir: str | None) -> Iterator[str]:
    """Yields the sentences of all novels."""
    for path in novels(tmp_dir):
        yield from _read_lines(path)


def read_comprehension(tmp_dir: str | None) -> Iterator[str]:
    """Yields passages for training whose last word, the answer, stands in the context.

    Those of Chu et al. where their archive is there. Else they are made in the same way of the
    novels: sentences with at least 50 words, then one more up to its last word.
    """
    if has_comprehension(tmp_dir):
        path = os.path.join(tmp_dir or "", COMPREHENSION.name)
        folder = path.removesuffix(".tar.gz")
        unpacking.unpack(path, folder, COMPREHENSION.members, COMPREHENSION.most_bytes)
        found = glob.glob(os.path.join(glob.escape(folder), "**", "train.txt"), recursive=True)
        if not found:
            raise DataError(f"{path} must hold a file train.txt. Received: none in it.")
        yield from _read_lines(found[0])
        return
    for path in novels(tmp_dir):
        yield from passages(_read_lines(path))


def passages(sentences: Iterable[str]) -> Iterator[str]:
    """Yields passages made of the sentences of a novel, each of them used once."""
    context: list[str] = []
    for sentence in sentences:
        words = sentence.split()
        if len(context) < _LEAST_CONTEXT:
            context += words
            continue
        while words and not any(character.isalnum() for character in words[-1]):
            words.pop()
        if len(words) > 1 and words[-1] in context:
            yield " ".join(context + words)
        context = []


def _folders(tmp_dir):
    tmp_dir = tmp_dir or ""
    return (tmp_dir, os.path.join(tmp_dir, _FOLDER))


def _find(tmp_dir, name):
    paths = (os.path.join(folder, name) for folder in _folders(tmp_dir))
    return next(
        (path + end for path in paths for end in ("", ".gz") if os.path.isfile(path + end)), None
    )


def _read_lines(path):
    """Yields the lines that are not empty, with single spaces."""
    for line in text_lines.lines(path):
        if text := " ".join(line.split()):
            yield text
