"""Your own text: one pair a line, source TAB target.

    Zwei Hunde spielen im Schnee.<TAB>Two dogs play in the snow.

Put `train.tsv` into tmp_dir and, if you have them, `dev.tsv` and `test.tsv`; see own_text.py.

A record, with the vocabulary that Multi30k gives; both features share one of about 8,192 subwords,
less if the text is small:

    inputs    "Zwei Hunde spielen im Schnee."    [34, 265, 116, 37, 269, 2, 1]
    targets   "Two dogs play in the snow."       [36, 236, 251, 4, 10, 198, 2, 1]       1 = EOS

The vocabulary is built from the train split and kept in data_dir as
`vocab.text2text_tsv.8192.subwords`; one that is there already is used.
"""

from collections.abc import Iterator

from problems import own_text, problem, text_problems


@problem.register("text2text_tsv")
class Text2TextTsv(own_text.OwnText, text_problems.Text2TextProblem):
    """Pairs of texts from tab-separated files."""

    extension = "tsv"
    fields = ("source", "target")

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterator[dict[str, str]]:
        for source, target in self.lines(split, tmp_dir):
            yield {"inputs": source, "targets": target}
