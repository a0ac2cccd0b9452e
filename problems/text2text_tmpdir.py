"""T2T's way to bring your own text: parallel files in tmp_dir.

    inputs.train.txt    inputs.eval.txt     one source a line
    targets.train.txt   targets.eval.txt    line n is the target of line n

    inputs    "Zwei Hunde spielen im Schnee."    ids, EOS
    targets   "Two dogs play in the snow."       ids, EOS

`text2text_tmpdir` has about 32,768 subwords, `text2text_tmpdir_tokens` the words of `vocab.txt`,
one a line, and `<UNK>` for all others.
"""

import os
from collections.abc import Iterable, Iterator

from problems import parallel_text, problem, raw_text, text_problems
from problems.problem import Texts
from ut_keras.errors import DataError
from ut_keras.text import text_encoder

_PARTS = {"train": "train", "dev": "eval"}


@problem.register("text2text_tmpdir")
class Text2textTmpdir(text_problems.Text2TextProblem):
    """Subwords."""

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        for split in self.splits:
            _paths(split, tmp_dir)
        super().prepare(data_dir, tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for source, target in parallel_text.read_pairs(_paths(split, tmp_dir)):
            yield {"inputs": source, "targets": target}


@problem.register("text2text_tmpdir_tokens")
class Text2textTmpdirTokens(Text2textTmpdir):
    """Words of a given vocabulary."""

    vocab_type = "tokens"
    oov_token = "<UNK>"

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        yield from raw_text.read_lines(_path(tmp_dir, "vocab.txt"))

    def build_vocab(
        self, texts: Iterable[str]
    ) -> text_encoder.SubwordTextEncoder | text_encoder.TokenTextEncoder:
        return text_encoder.TokenTextEncoder(tokens=[self.oov_token, *texts])


def _paths(split, tmp_dir):
    return [_path(tmp_dir, f"{side}.{_PARTS[split]}.txt") for side in ("inputs", "targets")]


def _path(tmp_dir, name):
    path = os.path.join(tmp_dir or "", name)
    if not os.path.isfile(path):
        raise DataError(f"Expected {name} in tmp_dir={tmp_dir!r}. Received: no such file.")
    return path
