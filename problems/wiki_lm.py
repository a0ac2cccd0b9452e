"""Wikipedia articles in four languages. The problems' names are T2T's.

An example consists of several lines with about 512 subwords in total:

    targets  "Anarchism is a political philosophy that advocates … The word is composed from …"

`languagemodel_en_wiki32k` has about 32,000 subwords, built from the first 128,000 examples. In
other names, `de`, `fr` or `ro` replaces `en`, and `64k` means 64,000 subwords. Problems with
`de_en_fr_ro` alternate between the languages. Other T2T problems use these vocabularies, such as
`vocab.languagemodel_en_wiki32k.32000.subwords`.

T2T's files are on Google Drive, which does not allow programs to download files of this size. Put
`enwiki_train.txt.gz`, `enwiki_eval.txt.gz` and `enwiki_test.txt.gz` into tmp_dir. You can also use
your own text under these names. The files may also be uncompressed, without `.gz`.
"""

import copy
import os
from collections.abc import Iterator

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts

_LICENCE = "CC BY-SA (Wikipedia)"
_PARTS = {"train": "train", "dev": "eval", "test": "test"}
_SHORTEST = 10  # minimum number of characters of an example


class LanguagemodelWiki(text_problems.Text2SelfProblem):
    """A language model problem of articles in one or several languages."""

    splits = tuple(_PARTS)
    languages: tuple[str, ...]
    most_characters = 512 * 8  # an example is shorter than this

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:  # type: ignore[override]
        return tuple(_file(name, part) for part in _PARTS.values() for name in self.languages)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        readers = [self._examples(_file(name, _PARTS[split]), tmp_dir) for name in self.languages]
        while readers:
            for reader in list(readers):
                text = next(reader, None)
                if text is None:
                    readers.remove(reader)
                else:
                    yield {"targets": text}

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        # `languagemodel_en_wiki64k_shorter` shares the vocabulary of `languagemodel_en_wiki64k`,
        # which is built from longer examples.
        of_vocabulary = copy.copy(self)
        of_vocabulary.most_characters = LanguagemodelWiki.most_characters
        return super(LanguagemodelWiki, of_vocabulary).texts_for_vocab(data_dir, tmp_dir)

    def _examples(self, file, tmp_dir):
        unpacked = os.path.join(tmp_dir or "", file.name.removesuffix(".gz"))
        path = unpacked if os.path.exists(unpacked) else download.fetch(tmp_dir, file)
        text = ""
        for line in raw_text.read_lines(path):
            if len(text) + len(line) + 1 >= self.most_characters:
                if _SHORTEST < len(text) < self.most_characters:
                    yield text
                elif text:
                    self.left_out["too short or too long"] += 1
                text = ""
            text = f"{text} {line}" if text else line
        if text:
            self.left_out["at the end of a file"] += 1


def _file(language, part):
    return download.RawFile(f"{language}wiki_{part}.txt.gz", "", licence=_LICENCE)


for _name, _languages, _size in (
    *((code, (code,), size) for code in ("en", "de", "fr", "ro") for size in (32, 64)),
    ("de_en_fr_ro", ("de", "fr", "en", "ro"), 64),
):
    problem.declare(
        f"languagemodel_{_name}_wiki{_size}k",
        LanguagemodelWiki,
        languages=_languages,
        approx_vocab_size=_size * 1000,
        max_samples_for_vocab=128_000 if len(_languages) == 1 else 256_000,
    )
problem.declare(
    "languagemodel_en_wiki64k_shorter",
    LanguagemodelWiki,
    languages=("en",),
    approx_vocab_size=64_000,
    max_samples_for_vocab=128_000,
    vocab_name="languagemodel_en_wiki64k",
    most_characters=384 * 8,
)
