"""The One Billion Word benchmark (Chelba et al. 2013): shuffled sentences of news.

    targets  "The U.S. Centers for Disease Control and Prevention initially advised school systems
              to close if outbreaks occurred , then reversed itself …"                    ids, EOS

The names are T2T's. Words outside the published vocabulary become "UNK", so that perplexities can
be compared. `languagemodel_lm1b32k` and `languagemodel_lm1b8k` have about 32,768 and 8,192
subwords, built from the first 63,000 sentences. The variant `characters` has bytes. The variants
`_packed` have records of 256 subwords or 1,024 bytes.

The train split has 30,301,028 sentences (99 files). The dev split has the 6,075 sentences of the
first of 50 held-out files. Papers call this file the test set. `per_word_perplexity` can be
compared with papers.
"""

import functools
import os

from ut_keras.data.writing import download
from ut_keras.problems import packed, problem, raw_text, text_problems
from ut_keras.problems.problem import Texts

_NAME = "1-billion-word-language-modeling-benchmark-r13output"
_CORPUS = download.at(
    f"http://www.statmt.org/lm-benchmark/{_NAME}.tar.gz",
    "01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e",
    licence="text of WMT 2011 News Crawl; research use",
    members=(f"{_NAME}/training-*/news.en-*", f"{_NAME}/heldout-*/news.en.heldout-00000-*"),
    most_bytes=20 * 10**9,
)
_WORDS = download.at("http://download.tensorflow.org/models/LM_LSTM_CNN/vocab-2016-09-10.txt")
_FILES = {
    "train": [
        f"{_NAME}/training-monolingual.tokenized.shuffled/news.en-{i:05d}-of-00100"
        for i in range(1, 100)
    ],
    "dev": [f"{_NAME}/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"],
}


@problem.register("languagemodel_lm1b32k")
class LanguagemodelLm1b32k(text_problems.Text2SelfProblem):
    """Sentences with 32k subwords."""

    raw_files = (_CORPUS, _WORDS)
    max_samples_for_vocab = 63_000

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = os.path.join(tmp_dir or "", f"{_WORDS.name}.en")  # the name of the file in T2T
        if not os.path.exists(path):
            path = download.fetch(tmp_dir, _WORDS)
        words = _words(raw_text.version(path))
        for name in _FILES[split]:
            for line in raw_text.read_lines(raw_text.find(tmp_dir, _CORPUS, name)):
                text = " ".join(word if word in words else "UNK" for word in line.split())
                yield {"targets": text}


@functools.lru_cache(maxsize=1)
def _words(version):
    """Return the published vocabulary."""
    path, *_ = version
    return frozenset(raw_text.read_lines(path))


for _size, _attributes, _packed_attributes in (
    ("32k", {}, {"vocab_name": "languagemodel_lm1b32k"}),
    ("8k", {"approx_vocab_size": 2**13}, {"vocab_name": "languagemodel_lm1b8k"}),
    ("_characters", {"vocab_type": "characters"}, {"packed_length": 1024}),
):
    _name = f"languagemodel_lm1b{_size}"
    _base: type = LanguagemodelLm1b32k
    if _attributes:
        _base = problem.declare(_name, _base, **_attributes)
    problem.declare(f"{_name}_packed", packed.Packed, _base, **_packed_attributes)
