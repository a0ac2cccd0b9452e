"""The files of bAbI, read from the archive and parsed.

Looked for in tmp_dir: any *tasks_1-20_v1-2*.tar.gz that holds tasks_1-20_v1-2/en/ (1,000 questions
per task) or en-10k/ (10,000), as the official tasks_1-20_v1-2.tar.gz does. Several archives may
share the work, and the unpacked folder tasks_1-20_v1-2 comes before them.
"""

import collections
import functools
import glob
import os
import tarfile
import zlib

from ut_keras.data import tokenizer
from ut_keras.data.tfrecords import DataError

_FOLDER = "tasks_1-20_v1-2"
_URL = f"http://www.thespermwhale.com/jaseweston/babi/{_FOLDER}.tar.gz"
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
# A question with what was said before it; the story is a tuple of sentences.
Example = collections.namedtuple("Example", ["story", "question", "answer"])


def read_examples(tmp_dir, subset, tasks, mode):
    """Returns the `Example`s of some tasks, in the order of the files.

    Args:
        tmp_dir: str. Where the archive is.
        subset: "en" or "en-10k".
        tasks: sequence of int, 1..20.
        mode: "train" or "test".

    Raises:
        DataError: if a file is missing or is not bAbI's.
    """
    names = tuple(f"{_FOLDER}/{subset}/qa{task}_{TASKS[task]}_{mode}.txt" for task in tasks)
    return [example for examples in _parsed(tmp_dir, names) for example in examples]


@functools.lru_cache(maxsize=2)
def _parsed(tmp_dir, names):
    """The examples of each file; generating a problem asks for the same files several times."""
    texts = _read_files(tmp_dir, names)
    return [_parse(name, texts[name]) for name in names]


def _parse(name, text):
    examples = []
    story = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            position, line = line.strip().split(" ", 1)
            if int(position) == 1:
                story = []
            if "\t" in line:
                question, answer, _ = line.split("\t")
                answer = answer.strip().replace(",", "")
                examples.append(Example(tuple(story), _normalize(question), answer))
                continue
        except ValueError as error:
            raise DataError(
                f"{name} must hold lines of bAbI (number, text). Received: line {number}, {line!r}."
            ) from error
        story.append(_normalize(line))
    return examples


@functools.lru_cache(maxsize=100_000)
def _normalize(sentence):
    """The tokens with spaces between them: "Where is Mary?" -> "Where is Mary ?"."""
    return " ".join(" ".join(tokenizer.encode(sentence)).split())


def _read_files(tmp_dir, names):
    """{name: text} for files of bAbI, from the unpacked folder or the archives in tmp_dir."""
    texts = {}
    for name in names:
        path = os.path.join(tmp_dir or "", name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8") as file:
                texts[name] = file.read()
    archives = sorted(glob.glob(os.path.join(glob.escape(tmp_dir or ""), f"*{_FOLDER}*.tar.gz")))
    for path in archives:
        missing = set(names) - set(texts)
        if not missing:
            break
        try:
            # From front to back: looking names up would unpack it twice.
            with tarfile.open(path, "r:gz") as archive:
                for member in archive:
                    name = member.name.removeprefix("./")
                    if name in missing:
                        texts[name] = archive.extractfile(member).read().decode("utf-8")
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise DataError(f"{path} must be a whole .tar.gz file. Received: {error}.") from error
    missing = [name for name in names if name not in texts]
    if missing:
        found = f"not in {', '.join(archives)}" if archives else "no archive of it"
        raise DataError(
            f"Expected {missing[0]} in tmp_dir={tmp_dir!r}, in {_FOLDER}.tar.gz or unpacked. "
            f"Received: {found}. Download {_URL} and put it there."
        )
    return texts
