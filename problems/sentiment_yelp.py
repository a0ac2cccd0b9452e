"""Reviews of shops by their stars (Zhang et al. 2015), T2T's names.

    "5","dr. goldberg offers everything i look for in a general practitioner. …"

`inputs` are ids of about 8,192 subwords, EOS; `targets` the number that stands there, 1 to 5, or 1
(against) and 2 (for). As in T2T's files class 0 does not occur; T2T has as many classes as there
are numbers, so that it never learns the last one. The text is as it stands there, as in T2T, with
backslashes and doubled quotation marks.

full: train 650,000, dev 50,000          polarity: train 560,000, dev 38,000
"""

from ut_keras.data import contract
from ut_keras.data.writing import download
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts

_LICENCE = "Yelp's dataset licence: academic use"


def _archive(kind, sha256=None):
    name = f"yelp_review_{kind}_csv"
    return download.RawFile(
        f"{name}.tgz",
        f"https://s3.amazonaws.com/fast-ai-nlp/{name}.tgz",
        sha256,
        _LICENCE,
        (f"{name}/*.csv",),
        most_bytes=5 * 10**9,
    )


class _Yelp(raw_text.OfArchive, text_problems.Text2ClassProblem):
    licence = _LICENCE
    num_train_shards = 10
    approx_vocab_size = 2**13
    class_labels: tuple[str, ...]

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        path = self.path(split, tmp_dir)
        for number, line in enumerate(raw_text.read_lines(path), start=1):
            label, text = line[1:2], line[5:-1].strip()
            if label not in self.class_labels[1:]:
                raise contract.bad_line('A line must be "NUMBER","TEXT".', path, number, line)
            yield {"inputs": text, "targets": label}


def _register(kind, num_classes, sha256=None):
    folder = f"yelp_review_{kind}_csv"
    made = problem.declare(
        __name__,
        f"sentiment_yelp_{kind}",
        _Yelp,
        archive=_archive(kind, sha256),
        members={"train": (f"{folder}/train.csv",), "dev": (f"{folder}/test.csv",)},
        class_labels=tuple(map(str, range(num_classes + 1))),
    )
    text_problems.register_characters(f"sentiment_yelp_{kind}_characters")(made)


_register("full", 5)  # stars
_register("polarity", 2, "528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35")
