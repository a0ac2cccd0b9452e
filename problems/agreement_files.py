"""Readers of the subject-verb agreement files: Linzen's table and three test sets.

    agr_50_mostcommon_10K.tsv.gz    Linzen et al. 2016, 18 columns. In the column `sentence`, parts
                                    of speech replace all but the 10,000 most common words.
    subj_agr_filtered.text, .gold   7,489 sentences of the table with their original words
                                    (Gulordava et al. 2018):
                                    "discipline in public schools of all levels is generally …"
                                    7 TAB is TAB are TAB 2  verb index, right, wrong, attractors
    generated.tab                   410 English pairs of a right and a wrong form, by the same
                                    authors. Half of the sentences are nonsense. An example:
                                    prefix "The thing to keep in mind", form is/are, n_attr 0
    wiki-dev.txt, wiki-test.txt     Linzen-style sentences with both forms of the verb, from a
                                    course at Edinburgh. The number of attractors is missing.

The readers yield `Example`s. If a file does not contain the number of attractors or the part of
speech, the value is None.
"""

import csv
import functools
import io
import os
import random
import re
from collections.abc import Container, Iterator
from typing import NamedTuple

from ut_keras.data import contract
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import raw_text
from ut_keras.text import text_lines

TAGS = ("VBZ", "VBP")  # the tags of the third person singular and of all other persons
_IRREGULAR = {"are": "is", "have": "has", "do": "does", "'re": "'s", "'ve": "'s"}
_IRREGULAR_BACK = {"is": "are", "has": "have", "does": "do", "'s": "'re"}
_SIBILANT = re.compile(r"(s|x|z|ch|sh|[^aeiou]o)$")
_CONSONANT_AND_Y = re.compile(r"[^aeiou]y$")


def other_form(verb: str, tag: str, known: Container[str]) -> str | None:
    """Return the other form of a verb in the present tense, or None if it is unknown.

    The form is derived from the spelling. If there are several candidates, the first candidate that
    is in `known` is returned.

    Args:
        verb: str. The verb, or a tag that replaces a rare verb. For "VBZ", the other form is "VBP".
        tag: str. "VBZ" or "VBP", the tag of the verb.
        known: container of str. The known words.
    """
    if verb in TAGS:
        candidates = [TAGS[1 - TAGS.index(verb)]]
    elif tag == "VBP":
        candidates = [third_person(verb)]
    elif verb in _IRREGULAR_BACK:
        candidates = [_IRREGULAR_BACK[verb]]
    else:
        # The base of "lies" can be "lie", "li" or "ly". The first known candidate is returned.
        candidates = [verb[:-1], verb[:-2], verb[:-3] + "y"]
        candidates = [base for base in candidates if third_person(base) == verb]
    return next((word for word in candidates if word in known), None)


def third_person(base: str) -> str:
    """Return the third person singular of a verb.

    "keep" -> "keeps", "pass" -> "passes", "carry" -> "carries", "have" -> "has".
    """
    if base in _IRREGULAR:
        return _IRREGULAR[base]
    if _CONSONANT_AND_Y.search(base):
        return base[:-1] + "ies"
    return base + ("es" if _SIBILANT.search(base) else "s")


TABLE = download.at(
    "http://tallinzen.net/media/rnn_agreement/agr_50_mostcommon_10K.tsv.gz",
    licence="sentences of Wikipedia, CC BY-SA",
)
_GREEN = (
    "https://raw.githubusercontent.com/facebookresearch/colorlessgreenRNNs/"
    "dbffbf0f2ef86c50bac204d7a2292862e1c6036f/data"
)
_EDINBURGH = (
    "https://raw.githubusercontent.com/treszkai/edinburgh-nlu-cw/"
    "7312229f3b7bd6cbcc8108173b8af51487cfe23b/data"
)
_SHA256 = {
    "subj_agr_filtered.text": "618f7583d6cc3942b2127e5ffb61603e0fd8b031628d574b10b9bc2930452be4",
    "subj_agr_filtered.gold": "984be2eaf9f37812b1727ec165b2c9802fb71552684cc6a123daf96091118f5b",
    "generated.tab": "da6dd6390965f1292af8ffde649a8f18d39d67eec3c7d7a8dfc8559d35e8081b",
    "wiki-dev.txt": "e38b28be5ced0af4aaca9e02aa6543fdac2f3ab40b124805663f4e78a28df0a6",
    "wiki-test.txt": "1ff97d6ab9b9612da7ccbf9648553c0eeec2291b9bd7b698f3a85c1412f45abf",
}
_BY_NC, _NO_LICENCE = "CC BY-NC 4.0", "none stated"
OTHER_FILES = {
    name: download.at(f"{folder}/{name}", _SHA256[name], licence=licence)
    for folder, licence, names in (
        (f"{_GREEN}/linzen_testset", _BY_NC, ("subj_agr_filtered.text", "subj_agr_filtered.gold")),
        (f"{_GREEN}/agreement/English", _BY_NC, ("generated.tab",)),
        (_EDINBURGH, _NO_LICENCE, ("wiki-dev.txt", "wiki-test.txt")),
    )
    for name in names
}
_COLUMNS = ("sentence", "verb_pos", "verb_index", "n_intervening", "n_diff_intervening")
_SPLITS = ("train", "dev", "test")
_TRAIN_SHARE, _DEV_SHARE = 0.09, 0.01


class Example(NamedTuple):
    """A sentence up to its verb. A value that the file does not contain is None."""

    words: list  # list of str, the words before the verb
    verb: str  # the form that agrees
    wrong_verb: str | None  # the other form
    tag: str  # "VBZ" (singular) or "VBP" (plural)
    # Number of attractors: nouns between subject and verb whose number differs from the subject's.
    attractors: int | None


# Functions for Linzen's table.


def table_path(tmp_dir: str | None) -> str:
    """Return the path of Linzen's table (.tsv or .tsv.gz).

    If the table is missing, it is downloaded.
    """
    path = os.path.join(tmp_dir or "", TABLE.name.removesuffix(".gz"))
    return path if os.path.isfile(path) else download.fetch(tmp_dir, TABLE)


def read_sentences(tmp_dir: str | None) -> Iterator[str]:
    """Yield the complete sentences of the table."""
    for row in _read_table(table_path(tmp_dir)):
        yield row["sentence"]


def read_split(tmp_dir: str | None, split: str) -> Iterator[Example]:
    """Yield the `Example`s of T2T's "train", "dev" or "test", in the table's order."""
    path = table_path(tmp_dir)
    splits = _split_of_rows(raw_text.version(path))
    for row, number in zip(_read_table(path), splits, strict=True):
        if number == _SPLITS.index(split):
            words = row["sentence"].split()
            verb_index = int(row["verb_index"]) - 1  # the table counts words from 1
            attractors = int(row["n_diff_intervening"])
            yield Example(words[:verb_index], words[verb_index], None, row["verb_pos"], attractors)


@functools.lru_cache(maxsize=1)
def _split_of_rows(version):
    """Return T2T's split of each row as a byte: 0 train, 1 dev, 2 test, 3 none.

    The rows are shuffled with seed 1 and Python 3's generator. The first 9 % are the train split,
    and the next 1 % are the dev split. Another row is in the test split if all nouns between
    subject and verb are attractors.
    """
    path, *_ = version
    is_test = [row["n_intervening"] == row["n_diff_intervening"] for row in _read_table(path)]
    order = list(range(len(is_test)))
    random.Random(1).shuffle(order)
    num_train = int(len(order) * _TRAIN_SHARE)
    num_dev = int(len(order) * _DEV_SHARE)
    splits = bytearray(2 if test else 3 for test in is_test)
    for row in order[:num_train]:
        splits[row] = 0
    for row in order[num_train : num_train + num_dev]:
        splits[row] = 1
    return bytes(splits)


def _read_table(path):
    try:
        with text_lines.opened(path) as file:
            reader = csv.DictReader(
                io.TextIOWrapper(file, encoding="utf-8", newline=""), delimiter="\t"
            )
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise DataError(
                    f"{path} must have the columns {', '.join(_COLUMNS)} in its first line. "
                    f"Received: none named {missing[0]}."
                )
            for row in reader:
                if not _is_good(row):
                    expected = (
                        "A row must have a sentence, verb_pos VBZ or VBP, an index and counts."
                    )
                    raise contract.line_error(expected, path, reader.line_num, [*row.values()])
                yield row
    except csv.Error as error:
        raise DataError(f"{path} must be a complete table in UTF-8. Received: {error}.") from error


def _is_good(row):
    numbers = [row[name] or "" for name in ("verb_index", "n_intervening", "n_diff_intervening")]
    # If a sentence begins with a quotation mark, the csv module reads it up to the next quotation
    # mark. The sentence then contains text of the following rows.
    return (
        not any("\n" in (row.get(name) or "") for name in ("sentence", "orig_sentence"))
        and row["verb_pos"] in TAGS
        and all(re.fullmatch("[0-9]{1,9}", number) for number in numbers)
        and 1 <= int(row["verb_index"]) <= len(row["sentence"].split())
    )


# Functions for the other test sets.


def read_linzen_testset(tmp_dir: str | None, split: str) -> Iterator[Example]:
    """Yield the `Example`s of subj_agr_filtered.text and .gold."""
    texts = _read_lines(tmp_dir, "subj_agr_filtered.text")
    golds = _read_lines(tmp_dir, "subj_agr_filtered.gold")
    if len(texts) != len(golds):
        raise DataError(
            f"subj_agr_filtered.text and .gold in {tmp_dir!r} must have the same number of lines. "
            f"Received: {len(texts)} and {len(golds)}."
        )
    for text, (number, gold) in zip(texts, enumerate(golds, start=1), strict=True):
        verb_index, right, wrong, attractors = _fields(gold, 4, "subj_agr_filtered.gold", number)
        tag = "VBP" if third_person(right) == wrong else "VBZ"
        yield Example(text.split()[: int(verb_index)], right, wrong, tag, int(attractors))


def read_gulordava(tmp_dir: str | None, split: str) -> Iterator[Example]:
    """Yield the `Example`s of generated.tab, which has two lines per example."""
    rows = list(csv.DictReader(_read_lines(tmp_dir, "generated.tab"), delimiter="\t"))
    for right, wrong in zip(rows[::2], rows[1::2], strict=False):
        if (right.get("class"), wrong.get("class")) != ("correct", "wrong"):
            raise DataError(
                f"generated.tab in {tmp_dir!r} must have pairs of lines with the classes correct "
                f"and wrong. Received: {right.get('class')!r} and {wrong.get('class')!r}."
            )
        tag = "VBZ" if right["correct_number"] == "sing" else "VBP"
        words = right["prefix"].split()
        yield Example(words, right["form"], wrong["form"], tag, int(right["n_attr"]))


def read_edinburgh_nlu(tmp_dir: str | None, split: str) -> Iterator[Example]:
    """Yield the `Example`s of wiki-dev.txt or wiki-test.txt."""
    name = f"wiki-{split}.txt"
    for number, line in enumerate(_read_lines(tmp_dir, name)[1:], start=2):
        sentence, _, verb_index, tag, _, other = _fields(line, 6, name, number)
        words = sentence.split()
        verb = words[int(verb_index)]
        # If the verb is rare, the sentence contains the part of speech instead. Then the other form
        # is also a part of speech.
        wrong = other_form(verb, tag, TAGS) or other
        yield Example(words[: int(verb_index)], verb, wrong, tag, None)


def _read_lines(tmp_dir, name):
    path = download.fetch(tmp_dir, OTHER_FILES[name])
    return list(raw_text.with_text(text_lines.lines(path), path))


def _fields(line, count, name, number):
    fields = line.split("\t")
    if len(fields) != count:
        raise contract.line_error(f"A line must have {count} fields.", name, number, line)
    return fields
