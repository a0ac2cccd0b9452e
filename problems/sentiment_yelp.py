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


class _Yelp(raw_text.OfArchive, text_problems.Text2ClassProblem):
    parts = {"train": "train", "dev": "test"}
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


for _kind, _num_classes, _sha256 in (
    ("full", 5, None),  # stars
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
