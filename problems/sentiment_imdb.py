"""Reviews of films (Maas et al. 2011), T2T's names: for or against, 50,000.

    aclImdb/train/pos/0_9.txt    "Bromwell High is a cartoon comedy. It ran at the same time as …"

`inputs` are ids of about 8,192 subwords, EOS; `targets` 0 of neg, 1 of pos.

train 25,000          dev 25,000 (the test set, as in T2T)
"""

from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_lines


@problem.register("sentiment_imdb")
class SentimentIMDB(raw_text.OfArchive, text_problems.Text2ClassProblem):
    """8k subwords."""

    archive = download.at(
        "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        licence="none stated; cite Maas et al. 2011",
        members=("aclImdb/train/neg/*.txt", "aclImdb/train/pos/*.txt")
        + ("aclImdb/test/neg/*.txt", "aclImdb/test/pos/*.txt"),
    )
    parts = {"train": "train", "dev": "test"}
    num_train_shards = 10
    approx_vocab_size = 2**13
    class_labels = ("neg", "pos")

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for label in reversed(self.class_labels):
            files = f"aclImdb/{self.parts[split]}/{label}/*"
            for path in raw_text.find_all(tmp_dir, self.archive, files):
                yield {"inputs": "\n".join(text_lines.read(path)).strip(), "targets": label}


problem.declare("sentiment_imdb_characters", SentimentIMDB, vocab_type="characters")
