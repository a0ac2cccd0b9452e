"""Classification of film reviews (IMDb) and shop reviews (Yelp).

The problems have T2T's names.

    sentiment_imdb     aclImdb/train/pos/0_9.txt    Bromwell High is a cartoon comedy. It ran at …
    sentiment_yelp_*   "5","dr. goldberg offers everything i look for in a general practitioner. …"

`inputs` are ids of about 8,192 subwords and EOS. For IMDb, `targets` are 0 (neg) and 1 (pos). For
Yelp, `targets` are the number in the file: stars 1 to 5, or 1 (negative) and 2 (positive). Class 0
therefore does not occur for Yelp, as in T2T's files. T2T's model does not count class 0. It has one
class too few and cannot predict the class with the largest number. ut_keras' model has all classes.
As in T2T, the escapes in Yelp's text (backslashes and doubled quotation marks) are kept.

                  train      dev (the test set, as in T2T)
    imdb         25,000   25,000    Maas et al. 2011
    full        650,000   50,000    Zhang et al. 2015
    polarity    560,000   38,000
"""

from ut_keras.data import contract
from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import text_lines


class _Reviews(raw_text.FromArchive, text_problems.Text2ClassProblem):
    parts = {"train": "train", "dev": "test"}
    num_train_shards = 10
    approx_vocab_size = 2**13
    class_labels: tuple[str, ...]


@problem.register("sentiment_imdb")
class SentimentIMDB(_Reviews):
    """Film reviews with 8k subwords."""

    archive = download.at(
        "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        licence="none stated; cite Maas et al. 2011",
        members=("aclImdb/train/neg/*.txt", "aclImdb/train/pos/*.txt")
        + ("aclImdb/test/neg/*.txt", "aclImdb/test/pos/*.txt"),
    )
    class_labels = ("neg", "pos")

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for label in reversed(self.class_labels):
            files = f"aclImdb/{self.parts[split]}/{label}/*"
            for path in raw_text.find_all(tmp_dir, self.archive, files):
                lines = raw_text.with_text(text_lines.lines(path), path)
                yield {"inputs": "\n".join(lines).strip(), "targets": label}


problem.declare("sentiment_imdb_characters", SentimentIMDB, vocab_type="characters")


class _Yelp(_Reviews):
    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = self.path(split, tmp_dir)
        for number, line in enumerate(raw_text.read_lines(path), start=1):
            label, text = line[1:2], line[5:-1].strip()
            is_row = line.startswith(f'"{label}","') and line[5:].endswith('"')
            if label not in self.class_labels[1:] or not is_row:
                raise contract.line_error('A line must be "NUMBER","TEXT".', path, number, line)
            yield {"inputs": text, "targets": label}


for _kind, _num_classes, _sha256 in (
    ("full", 5, None),  # the classes are numbers of stars
    ("polarity", 2, "528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35"),
):
    _folder = f"yelp_review_{_kind}_csv"
    _made = problem.declare(
        f"sentiment_yelp_{_kind}",
        _Yelp,
        archive=download.at(
            f"https://s3.amazonaws.com/fast-ai-nlp/{_folder}.tgz",
            _sha256,
            licence="Yelp's dataset licence: academic use",
            members=(f"{_folder}/*.csv",),
            most_bytes=5 * 10**9,
        ),
        members=(f"{_folder}/{{}}.csv",),
        class_labels=tuple(map(str, range(_num_classes + 1))),
    )
    problem.declare(f"sentiment_yelp_{_kind}_characters", _made, vocab_type="characters")
