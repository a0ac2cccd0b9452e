"""Your own text, for a language model: one sentence or paragraph a line.

    Two dogs play in the snow.

Put `train.txt` into tmp_dir and, if you have them, `dev.txt` and `test.txt`; see own_text.py. A
record, with about 8,192 subwords of the captions of Multi30k (`vocab.text2self_txt.8192.subwords`):

    targets   "Two dogs play in the snow."       [16, 116, 130, 5, 6, 100, 3, 1]       1 = EOS

Training drops lines of more than `max_length` subwords (256 in most hparams sets).
"""

from collections.abc import Iterator

from problems import own_text, problem, text_problems


@problem.register("text2self_txt")
class Text2SelfTxt(own_text.OwnText, text_problems.Text2SelfProblem):
    """Lines of text files."""

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterator[dict[str, str]]:
        for (text,) in self.lines(split, tmp_dir):
            yield {"targets": text}
