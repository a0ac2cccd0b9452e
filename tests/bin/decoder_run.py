"""What the tests of ut-decoder share: a run of a small model that writes much, and its search."""

import numpy as np

from tests.bin import small_run
from ut_keras import problems
from ut_keras.bin import decoder
from ut_keras.text.text_encoder import cut_at_eos

PROBLEM = small_run.PROBLEM
ENCODER = problems.get(PROBLEM).feature_encoders()["inputs"]


class Run:
    """A run: its model, its folder and its data."""

    def __init__(self, folder, data_dir, **options):
        self.model = small_run.write(folder, data_dir, **options)
        self.folder = folder
        self.data_dir = data_dir

    def argv(self, *more):
        return [f"--output_dir={self.folder}", f"--data_dir={self.data_dir}", *more]

    def decode(self, *more):
        assert decoder.main(self.argv(*more)) == 0


def write_source(path, shortest):
    """(path, lines) of a file of 40 lines of up to 9 symbols, four of them empty."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(shortest, 10, size=40)
    lines = [" ".join(map(str, rng.integers(2, size=length))) for length in lengths]
    lines[3] = lines[4] = lines[20] = lines[39] = ""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path, lines


def search(model, line, **options):
    """[(text, score)] of one line alone."""
    ids = ENCODER.encode(line) + [1]
    found = model.generate({"inputs": [ids]}, **options)
    texts = [ENCODER.decode(cut_at_eos(row)) for row in found.ids[0].numpy()]
    return list(zip(texts, found.scores[0].numpy().tolist(), strict=True))


def lines_of(path):
    """The lines of a file, which ends with one."""
    content = path.read_text()
    assert content.endswith("\n")
    return content.split("\n")[:-1]
