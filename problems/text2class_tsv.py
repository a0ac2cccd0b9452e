"""Your own text to classify: text TAB label.

    I have never seen a better film.<TAB>good

Put `train.tsv` into tmp_dir and, if you have them, `dev.tsv` and `test.tsv`; see own_text.py. A
record, with the labels bad and good:

    inputs    "I have never seen a better film."    ids of about 8,192 subwords, EOS
    targets   "good"                                [1]

Labels are those of the train split, sorted; they are kept in `labels.text2class_tsv.txt`.
"""

from collections.abc import Iterator

from problems import own_text, problem, text_problems
from ut_keras.errors import DataError


@problem.register("text2class_tsv")
class Text2ClassTsv(own_text.OwnText, text_problems.Text2ClassProblem):
    """Texts with labels from tab-separated files."""

    extension = "tsv"
    fields = ("text", "label")

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        super().prepare(data_dir, tmp_dir)
        encoder = self.feature_encoders(data_dir)["targets"]
        known = {encoder.decode([i]) for i in range(encoder.vocab_size)}
        for split in self.splits_to_generate(tmp_dir):
            unknown = {label for _, label in self.lines(split, tmp_dir)} - known
            if unknown:
                raise DataError(
                    f"The labels of the {split} split must be in {self.labels_filename}, those of "
                    f"the train split. Received: {', '.join(sorted(unknown)[:5])}."
                )

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterator[dict[str, str]]:
        for text, label in self.lines(split, tmp_dir):
            yield {"inputs": text, "targets": label}
