"""Your own text: one pair a line, source TAB target.

    Zwei Hunde spielen im Schnee.<TAB>Two dogs play in the snow.

Put `train.tsv` into tmp_dir and, if you have them, `dev.tsv` and `test.tsv`. Without `dev.tsv`
every 20th line of `train.tsv` is held out for it. Files are UTF-8; empty lines are left out.

A record, with the vocabulary that Multi30k gives; both features share one of about 8,192 subwords,
less if the text is small:

    inputs    "Zwei Hunde spielen im Schnee."    [34, 265, 116, 37, 269, 2, 1]
    targets   "Two dogs play in the snow."       [36, 236, 251, 4, 10, 198, 2, 1]       1 = EOS

The vocabulary is built from the train split and kept in data_dir as
`vocab.text2text_tsv.8192.subwords`; one that is there already is used.
"""

import os

from problems import problem
from ut_keras.data import text_encoder
from ut_keras.data.tfrecords import DataError

_HELD_OUT_EVERY = 20
_VOCAB_SIZE = 2**13
_MAX_SUBTOKEN_LENGTH = 200  # T2T's; bounds the time that a very long token takes.


@problem.register("text2text_tsv")
class Text2TextTsv(problem.Problem):
    """Pairs of texts from tab-separated files."""

    eval_metrics = (
        *problem.Problem.eval_metrics,
        "approx_bleu_score",
        "rouge_2_fscore",
        "rouge_L_fscore",
    )

    @property
    def vocab_filename(self):
        return f"vocab.{self.filename}.{_VOCAB_SIZE}.subwords"

    def side_files(self):
        return (self.vocab_filename,)

    def splits_to_generate(self, tmp_dir):
        return (*self.splits, "test") if _has(tmp_dir, "test") else self.splits

    def feature_encoders(self, data_dir):
        encoder = text_encoder.SubwordTextEncoder(os.path.join(data_dir, self.vocab_filename))
        return {"inputs": encoder, "targets": encoder}

    def prepare(self, data_dir, tmp_dir):
        if not _has(tmp_dir, "train"):
            raise DataError(
                "Expected a file train.tsv with lines source<TAB>target in tmp_dir, and dev.tsv, "
                f"test.tsv if you have them. Received: tmp_dir={tmp_dir!r}, which has none."
            )
        if not _has(tmp_dir, "dev"):
            print(
                f"{self.name}: no dev.tsv, holding out every {_HELD_OUT_EVERY}th line of train.tsv"
            )
        # All files are read to their end before anything is written.
        for split in self.splits_to_generate(tmp_dir):
            if not sum(1 for _ in _pairs(tmp_dir, split)):
                raise DataError(
                    f"Expected lines for the {split} split. Received: none in tmp_dir={tmp_dir!r} "
                    f"(without dev.tsv, train.tsv needs at least {_HELD_OUT_EVERY})."
                )
        path = os.path.join(data_dir, self.vocab_filename)
        if not os.path.exists(path):
            texts = (text for pair in _pairs(tmp_dir, "train") for text in pair)
            encoder = text_encoder.SubwordTextEncoder.build_from_generator(
                texts, _VOCAB_SIZE, max_subtoken_length=_MAX_SUBTOKEN_LENGTH
            )
            encoder.store_to_file(path)

    def generate_samples(self, split, data_dir, tmp_dir, seed):
        for source, target in _pairs(tmp_dir, split):
            yield {"inputs": source, "targets": target}


def _has(tmp_dir, split):
    return os.path.isfile(os.path.join(tmp_dir or "", f"{split}.tsv"))


def _pairs(tmp_dir, split):
    """The (source, target) pairs of a split."""
    if split == "test" or _has(tmp_dir, "dev"):
        yield from _read(os.path.join(tmp_dir, f"{split}.tsv"))
        return
    for count, pair in enumerate(_read(os.path.join(tmp_dir, "train.tsv")), start=1):
        if (count % _HELD_OUT_EVERY == 0) == (split == "dev"):
            yield pair


def _read(path):
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"Text must be UTF-8. Received: {path}, line {number}: {error}."
                ) from error
            if not text.strip():
                continue
            parts = [part.strip() for part in text.split("\t")]
            if len(parts) != 2 or not all(parts):
                shown = text if len(text) <= 80 else text[:77] + "..."
                raise DataError(
                    "Every line must be source<TAB>target, neither of them empty. "
                    f"Received: {path}, line {number}: {shown!r}."
                )
            yield tuple(parts)
