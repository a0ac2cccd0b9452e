"""Mikolov's version of the Penn Treebank, for language models.

The problems have T2T's names.

    ptb.train.txt       mr. <unk> is chairman of <unk> n.v. the dutch publishing group
    ptb.char.train.txt  m r . _ < u n k > _ i s _ c h a i r m a n _ o f _ …

    languagemodel_ptb10k          targets  "mr. <unk> is chairman of …"     ids of words, EOS
    languagemodel_ptb_characters  targets  "mr. <unk> is chairman of …"     bytes, EOS

The text has 10,000 different words in lower case, and `N` for numbers. The splits have 42,068 lines
(train), 3,370 (dev) and 3,761 (test, not in T2T). The vocabulary `vocab.lmptb.10000` begins with
the most frequent word. As in published numbers, `per_word_perplexity` counts one EOS per line.

Differences from T2T:

- In T2T, padding and EOS have the same ids as the two most frequent words, `the` and `<unk>`. A
  line ends with a word `<EOS>` and then id 1. Here ids 0 and 1 are reserved, and EOS ends a line.
  T2T's data can be used for training, but `per_word_perplexity` is then not available.
- The characters are those of the text. In T2T, they are those of the file, in which a space follows
  each character.
"""

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Metrics, Texts
from ut_keras.text import text_encoder


@problem.register("languagemodel_ptb10k")
class LanguagemodelPtb10k(raw_text.FromArchive, text_problems.Text2SelfProblem):
    """Lines of words."""

    archive = download.at(
        "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
        licence="the Penn Treebank's (LDC); the raw file is offered for research",
        members=("simple-examples/data/ptb.*",),
    )
    members = ("simple-examples/data/ptb.{}.txt",)
    parts = {"train": "train", "dev": "valid", "test": "test"}
    num_train_shards = 10
    vocab_type = "tokens"
    vocab_filename = "vocab.lmptb.10000"
    approx_vocab_size = 10_000
    oov_token = "<unk>"
    other_results = text_problems.Text2SelfProblem.other_results

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for line in raw_text.read_lines(self.path(split, tmp_dir)):
            yield {"targets": " ".join(line.split())}

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        first = self.text_encoder(data_dir).decode(range(text_encoder.NUM_RESERVED_IDS))
        if self.vocab_type == "tokens" and first != " ".join(text_encoder.RESERVED_TOKENS):
            print(
                f"{self.vocab_filename} is T2T's: its id 0, the padding, is the word "
                f"{first.split()[0]!r}. Skipping per_word_perplexity.",
                flush=True,
            )
            return {}
        return super().feature_metrics(data_dir)


@problem.register("languagemodel_ptb_characters")
class LanguagemodelPtbCharacters(LanguagemodelPtb10k):
    """Lines of bytes."""

    vocab_type = "characters"
    members = ("simple-examples/data/ptb.char.{}.txt",)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for sample in super().generate_samples(split, data_dir, tmp_dir, seed):
            yield {"targets": sample["targets"].replace(" ", "").replace("_", " ")}
