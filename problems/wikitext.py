"""WikiText (Merity et al. 2016): selected Wikipedia articles, 2 M and 103 M words.

     = Robert <unk> =
    (an empty line)
     Robert <unk> is an English film , television and theatre actor . He had a guest @-@ …

    languagemodel_wikitext2     targets  "<EOS> = Robert <unk> = <EOS> <EOS> Robert …"    256 words
    languagemodel_wikitext103   targets  "= Robert <unk> ="                               words, EOS

`wikitext2` (not in T2T) is one stream of words. Every line ends with EOS, including empty lines.
The stream is cut into windows of 256 words. `per_word_perplexity` therefore counts the same 217,646
(dev) and 245,569 (test) words as published numbers, but the model cannot use the words before a
window. The raw data are `wikitext-2-v1.zip`, or `train.txt`, `valid.txt` and `test.txt` in tmp_dir.

`wikitext103` has T2T's names. Each line is an example, and empty lines are skipped. The variants
`_l4k` and `_l16k` join lines to examples of up to 4,096 or 16,384 words. The variant `_characters`
has the bytes of the original text, in which rare words are not replaced by `<unk>`. The splits have
1,165,029 (train), 2,461 (dev) and 2,891 (test) lines.

The vocabulary, such as `vocab.languagemodel_wikitext2.tokens` (33,277 words), has the words of the
train split, the most frequent first.
"""

import itertools
import os
import sys

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Records, Samples, Texts
from ut_keras.text import text_encoder

_WINDOW = 256  # number of words in a window


def _archive(folder):
    return download.at(
        f"https://wikitext.smerity.com/{folder}-v1.zip",
        licence="CC BY-SA (Wikipedia)",
        members=(f"{folder}/wiki.*",),
        most_bytes=2 * 10**9,
    )


@problem.register("languagemodel_wikitext103")
class LanguagemodelWikitext103(raw_text.FromArchive, text_problems.Text2SelfProblem):
    """A language model problem in which each line is an example."""

    archive = _archive("wikitext-103")
    members: tuple[str, ...] = ("wikitext-103/wiki.{}.tokens",)
    parts = {"train": "train", "dev": "valid", "test": "test"}
    num_train_shards = 10
    vocab_type = "tokens"
    approx_vocab_size = sys.maxsize  # this value means that there is no limit
    oov_token = "<unk>"

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for line in raw_text.read_lines(self.path(split, tmp_dir)):
            if line:
                yield {"targets": " ".join(line.split())}


@problem.register("languagemodel_wikitext2")
class LanguagemodelWikitext2(LanguagemodelWikitext103):
    """A language model problem in which each window of words is an example."""

    archive = _archive("wikitext-2")
    members = ("wikitext-2/wiki.{}.tokens",)
    max_length = _WINDOW

    def path(self, split: str, tmp_dir: str | None) -> str:
        own = {part: os.path.join(tmp_dir or "", f"{part}.txt") for part in self.parts.values()}
        if all(map(os.path.isfile, own.values())):  # train.txt alone may belong to another dataset
            return own[self.parts[split]]
        return super().path(split, tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        end = text_encoder.RESERVED_TOKENS[text_encoder.EOS]
        lines = raw_text.read_lines(self.path(split, tmp_dir))
        words = itertools.chain.from_iterable([*line.split(), end] for line in lines)
        while window := list(itertools.islice(words, _WINDOW)):
            yield {"targets": " ".join(window)}

    def encode_samples(self, samples: Samples, data_dir: str) -> Records:
        encoder = self.text_encoder(data_dir)
        for sample in samples:
            yield {"targets": encoder.encode(sample["targets"])}  # the text already contains EOS


class _Joined(LanguagemodelWikitext103):
    """Lines that are joined to examples of up to `max_length` words."""

    max_length: int

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        words: list[str] = []
        for sample in super().generate_samples(split, data_dir, tmp_dir, seed):
            of_line = sample["targets"].split()
            if words and len(words) + len(of_line) >= self.max_length:
                yield {"targets": " ".join(words)}
                words = []
            words += of_line
        if words:  # these are the last words of a file, which T2T drops
            yield {"targets": " ".join(words)}


problem.declare("languagemodel_wikitext103_l4k", _Joined, max_length=4096)
problem.declare("languagemodel_wikitext103_l16k", _Joined, max_length=16384)
problem.declare(
    "languagemodel_wikitext103_characters",
    LanguagemodelWikitext103,
    vocab_type="characters",
    archive=_archive("wikitext-103-raw"),
    members=("wikitext-103-raw/wiki.{}.raw",),
)
