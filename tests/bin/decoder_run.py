"""A run of a small model with long outputs, for the tests of ut-decoder."""

import numpy as np

from tests.bin import small_run
from ut_keras import problems
from ut_keras.bin import decoder
from ut_keras.text.text_encoder import cut_at_eos

PROBLEM = small_run.PROBLEM
ENCODER = problems.get(PROBLEM).feature_encoders()["inputs"]


class Run:
    """A run with its model, folder and data."""

    def __init__(self, folder, data_dir, **options):
        self.model = small_run.write(folder, data_dir, **options)
        self.folder = folder
        self.data_dir = data_dir

    def argv(self, *more):
        return [f"--output_dir={self.folder}", f"--data_dir={self.data_dir}", *more]

    def decode(self, *more):
        assert decoder.main(self.argv(*more)) == 0


def write_source(path, shortest):
    """Write 36 lines of `shortest` to 9 tokens and 4 empty lines, and return (path, lines)."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(shortest, 10, size=40)
    lines = [" ".join(map(str, rng.integers(2, size=length))) for length in lengths]
    lines[3] = lines[4] = lines[20] = lines[39] = ""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path, lines


def search(model, line, **options):
    """Return [(text, score)] of all beams for a single line."""
    ids = ENCODER.encode(line) + [1]
    found = model.generate({"inputs": [ids]}, **options)
    texts = [ENCODER.decode(cut_at_eos(row)) for row in found.ids[0].numpy()]
    return list(zip(texts, found.scores[0].numpy().tolist(), strict=True))


def lines_of(path):
    """Return the lines of a file, which must end with a line break."""
    content = path.read_text()
    assert content.endswith("\n")
    return content.split("\n")[:-1]
