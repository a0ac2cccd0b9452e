"""Read and parse the files of bAbI.

The files are searched in tmp_dir: first in the unpacked folder tasks_1-20_v1-2, then in all
archives *tasks_1-20_v1-2*.tar.gz. Each archive may contain some of the files. The files have the
same paths as in the official archive tasks_1-20_v1-2.tar.gz: tasks_1-20_v1-2/en/ has 1,000
questions per task, and tasks_1-20_v1-2/en-10k/ has 10,000. If tmp_dir has neither the folder nor an
archive, the official archive is downloaded.

The validation split is the official split in en-valid/ or en-valid-10k/. In these folders, about
nine tenths of the stories of each training file are for training, and one tenth is for validation.
If the archive does not contain these folders, every tenth story is used for validation.
"""

import collections
import functools
import glob
import os
from collections.abc import Sequence

from ut_keras.data import contract
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.files import unpacking
from ut_keras.problems import raw_text
from ut_keras.text import text_lines, tokenizer

_FOLDER = "tasks_1-20_v1-2"
ARCHIVE = download.at(
    f"http://www.thespermwhale.com/jaseweston/babi/{_FOLDER}.tar.gz", licence="CC BY 3.0"
)
TASKS = {
    1: "single-supporting-fact",
    2: "two-supporting-facts",
    3: "three-supporting-facts",
    4: "two-arg-relations",
    5: "three-arg-relations",
    6: "yes-no-questions",
    7: "counting",
    8: "lists-sets",
    9: "simple-negation",
    10: "indefinite-knowledge",
    11: "basic-coreference",
    12: "conjunction",
    13: "compound-coreference",
    14: "time-reasoning",
    15: "basic-deduction",
    16: "basic-induction",
    17: "positional-reasoning",
    18: "size-reasoning",
    19: "path-finding",
    20: "agents-motivations",
}
SUBSETS = {"1k": "en", "10k": "en-10k"}
_HELD_OUT_EVERY = 10  # one in this number of stories is used for validation
# A question of task 1..20 and the sentences before the question. `story` is a tuple of sentences.
# `number` is the index of the story in its file, from 1.
Example = collections.namedtuple("Example", ["task", "story", "question", "answer", "number"])


def read_examples(
    tmp_dir: str | None, subset: str, tasks: Sequence[int], mode: str
) -> list[Example]:
    """Return the `Example`s of some tasks in the order of the files.

    Args:
        tmp_dir: str. Folder of the archive.
        subset: str. "en", "en-10k", "en-valid" or "en-valid-10k". In the last two, the training
            files are divided into training and validation.
        tasks: sequence of int, 1..20.
        mode: str. "train" or "test" for the first two subsets, "train" or "valid" for the others.

    Raises:
        DataError: if a file is missing or does not have bAbI's format.
    """
    has_valid_files = "valid" in subset
    middle = {task: "" if has_valid_files else f"{name}_" for task, name in TASKS.items()}
    names = tuple(f"{_FOLDER}/{subset}/qa{task}_{middle[task]}{mode}.txt" for task in tasks)
    if has_valid_files and _read_files(tmp_dir, names).keys() != set(names):
        print(f"bAbI: no {subset}, using every {_HELD_OUT_EVERY}th story for validation")
        whole = read_examples(tmp_dir, subset.replace("-valid", ""), tasks, "train")
        return [e for e in whole if (e.number % _HELD_OUT_EVERY == 0) == (mode == "valid")]
    return [
        Example(task, story, question, answer, number)
        for task, stories in zip(tasks, _stories(tmp_dir, names), strict=True)
        for number, questions in enumerate(stories, start=1)
        for story, question, answer in questions
    ]


def _stories(tmp_dir, names):
    """Return the stories of each file."""
    paths = [*_archives(tmp_dir), *(os.path.join(tmp_dir or "", name) for name in names)]
    return _parsed(tmp_dir, names, tuple(map(raw_text.version, paths)))


@functools.lru_cache(maxsize=4)
def _parsed(tmp_dir, names, versions):
    """Return the stories of each file.

    The function is cached, because data generation repeats the call. `versions` changes if the
    files change.
    """
    texts = _read_files(tmp_dir, names)
    if not texts and not _archives(tmp_dir):
        download.fetch(tmp_dir, ARCHIVE)
        texts = _read_files(tmp_dir, names)
    if lacking := [name for name in names if name not in texts]:
        raise DataError(
            f"tmp_dir={tmp_dir!r} must contain {lacking[0]}, in {ARCHIVE.name} or unpacked. "
            f"Received: none in {', '.join(_archives(tmp_dir)) or 'the unpacked folder'}. Download "
            f"{ARCHIVE.url} to tmp_dir."
        )
    parsed = [_parse(name, texts[name]) for name in names]
    for name, stories in zip(names, parsed, strict=True):
        if not any(stories):
            raise DataError(
                f"{name} in tmp_dir={tmp_dir!r} must contain questions. "
                f"Received: none in {len(texts[name]):,} characters."
            )
    return parsed


def _parse(name, text):
    """Return a file's stories: lists of (previous sentences, question, answer)."""
    stories: list[list[tuple[tuple[str, ...], str, str]]] = []
    sentences: list[str] = []
    # As in T2T, only a line feed ends a line. `splitlines` also splits at eight other characters.
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        try:
            position, line = line.strip().split(" ", 1)
            if int(position) == 1:
                stories.append([])
                sentences = []
            if "\t" in line:
                question, answer, _ = line.split("\t")
                answer = answer.strip().replace(",", "")
                stories[-1].append((tuple(sentences), _normalize(question), answer))
                continue
        except (ValueError, IndexError) as error:
            expected = "A line of bAbI must be a number and text."
            raise contract.line_error(expected, name, number, line) from error
        sentences.append(_normalize(line))
    return stories


@functools.lru_cache(maxsize=100_000)
def _normalize(sentence):
    """Separate the tokens by spaces: "Where is Mary?" -> "Where is Mary ?"."""
    return " ".join(" ".join(tokenizer.encode(sentence)).split())


def _archives(tmp_dir):
    return sorted(glob.glob(os.path.join(glob.escape(tmp_dir or ""), f"*{_FOLDER}*.tar.gz")))


def _read_files(tmp_dir, names):
    """Return {name: text} for the files in the unpacked folder or the archives."""
    texts = {}
    for name in names:
        path = os.path.join(tmp_dir or "", name)
        if os.path.isfile(path):
            texts[name] = "\n".join(text_lines.lines_without_carriage_returns(path))
    for path in _archives(tmp_dir):
        missing = set(names) - set(texts)
        if not missing:
            break

        def take(name, file):
            lines = file.read().decode("utf-8").replace("\r\n", "\n").split("\n")
            texts[name] = "\n".join(text_lines.without_carriage_returns(lines, name))

        unpacking.read(path, sorted(missing), ARCHIVE.most_bytes, take)
    return texts
