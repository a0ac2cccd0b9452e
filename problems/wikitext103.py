"""WikiText-103 (Merity et al. 2016), T2T's names: 103 M words of good articles of Wikipedia.

    targets  "= Robert <unk> ="                                     ids of words, EOS

A line is an example, empty ones are left out; `_l4k` and `_l16k` put lines together, up to 4,096 or
16,384 words. The vocabulary is that of the train split, the most frequent word first; `_characters`
has bytes, of the text before rare words became `<unk>`.

train 1,165,029 lines          dev 2,461          test 2,891
"""

import sys

from problems import problem, raw_text, text_problems
from problems.problem import Texts
from ut_keras.data.writing import download

_LICENCE = "CC BY-SA (Wikipedia)"


def _archive(folder):
    name = f"{folder}-v1.zip"
    return download.RawFile(
        name,
        f"https://wikitext.smerity.com/{name}",
        licence=_LICENCE,
        members=(f"{folder}/wiki.*",),
        most_bytes=2 * 10**9,
    )


def _members(name):
    parts = {"train": "train", "dev": "valid", "test": "test"}
    return {split: (name.format(part),) for split, part in parts.items()}


@problem.register("languagemodel_wikitext103")
class LanguagemodelWikitext103(raw_text.OfArchive, text_problems.Text2SelfProblem):
    """Words, of a line."""

    licence = _LICENCE
    splits = ("train", "dev", "test")
    num_train_shards = 10
    vocab_type = "tokens"
    approx_vocab_size = sys.maxsize  # all of them
    oov_token = "<unk>"
    archive = _archive("wikitext-103")
    members = _members("wikitext-103/wiki.{}.tokens")

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for line in raw_text.read_lines(self.path(split, tmp_dir)):
            if line:
                yield {"targets": " ".join(line.split())}


@problem.register("languagemodel_wikitext103_characters")
class LanguagemodelWikitext103Characters(LanguagemodelWikitext103):
    """Bytes, of a line."""

    vocab_type = "characters"
    archive = _archive("wikitext-103-raw")
    members = _members("wikitext-103-raw/wiki.{}.raw")


@problem.register("languagemodel_wikitext103_l4k")
class LanguagemodelWikitext103L4k(LanguagemodelWikitext103):
    """Up to 4,096 words."""

    max_length = 4096

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        words: list[str] = []
        for sample in super().generate_samples(split, data_dir, tmp_dir, seed):
            of_line = sample["targets"].split()
            if words and len(words) + len(of_line) >= self.max_length:
                yield {"targets": " ".join(words)}
                words = []
            words += of_line
        if words:  # T2T loses these
            yield {"targets": " ".join(words)}


@problem.register("languagemodel_wikitext103_l16k")
class LanguagemodelWikitext103L16k(LanguagemodelWikitext103L4k):
    """Up to 16,384 words."""

    max_length = 16384
