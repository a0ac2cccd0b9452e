"""WikiText-2 (Merity et al. 2016): articles of Wikipedia as one stream of words. Not in T2T.

     = Robert <unk> =
    (an empty line)
     Robert <unk> is an English film , television and theatre actor . He had a guest @-@ …

    targets  "<EOS> = Robert <unk> = <EOS> <EOS> Robert <unk> is an English film , …"    256 words

Every line, an empty one too, ends in EOS, and the stream is cut into windows of 256 words, so that
`per_word_perplexity` is over the same 217,646 (dev) and 245,569 (test) words as published numbers;
but a window does not see the one before it. The vocabulary, `vocab.languagemodel_wikitext2.tokens`,
is that of the train split, where rare words are `<unk>` already: 33,277, the most frequent first.

Files: `wikitext-2-v1.zip`, or `train.txt`, `valid.txt`, `test.txt` in tmp_dir.
"""

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from problems import problem, raw_text, text_problems
from problems.problem import Texts
from ut_keras.data.writing import download
from ut_keras.text import text_encoder

_LICENCE = "CC BY-SA (Wikipedia)"
_ARCHIVE = download.RawFile(
    "wikitext-2-v1.zip",
    "https://wikitext.smerity.com/wikitext-2-v1.zip",
    licence=_LICENCE,
    members=("wikitext-2/wiki.*.tokens",),
)
_WINDOW = 256  # words


@problem.register("languagemodel_wikitext2")
class LanguagemodelWikitext2(raw_text.OfArchive, text_problems.Text2SelfProblem):
    """Words."""

    licence = _LICENCE
    archive = _ARCHIVE
    members = {
        split: (f"wikitext-2/wiki.{part}.tokens", f"{part}.txt")
        for split, part in (("train", "train"), ("dev", "valid"), ("test", "test"))
    }
    splits = ("train", "dev", "test")
    num_train_shards = 10
    vocab_type = "tokens"
    approx_vocab_size = sys.maxsize  # all of them
    oov_token = "<unk>"
    max_length = _WINDOW

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        end = text_encoder.RESERVED_TOKENS[text_encoder.EOS]
        lines = raw_text.read_lines(self.path(split, tmp_dir))
        words = itertools.chain.from_iterable([*line.split(), end] for line in lines)
        while window := list(itertools.islice(words, _WINDOW)):
            yield {"targets": " ".join(window)}

    def encode_samples(
        self, samples: Iterable[dict[str, Any]], data_dir: str
    ) -> Iterator[dict[str, list[int]]]:
        encoder = self.text_encoder(data_dir)
        for sample in samples:
            yield {"targets": encoder.encode(sample["targets"])}  # EOS is where a line ends
