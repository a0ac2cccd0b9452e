"""Sums, column by column: as deep as a carry travels. Nothing to download.

    inputs    "0+0 2+6 4+5 7+8"   two numbers of three digits, 247 and 658, written below each other
    targets   "0 9 0 5"           the digits of their sum

A column that makes nine passes on the carry that comes from its right: here 7+8 makes one, and 4+5
hands it to 2+6. How many do so is drawn for each example, from none to all, so that carries travel
all distances; of digits that are drawn at random one column in ten would. Training has numbers of 1
to 10 digits, validation of 2 to 10, uniform; the test has 20. The task, its lengths and how it is
drawn are ours; `algorithmic_addition_decimal40` is the one of Dehghani et al. 2019.
"""

import numpy as np

from ut_keras.problems import generated_classes, problem
from ut_keras.problems.problem import Encoders
from ut_keras.text import text_encoder


@problem.register("addition10")
class Addition10(generated_classes.Generated):
    """Each column has its answer, as a symbol in its place."""

    eval_metrics = ("accuracy_per_sequence", "accuracy", "neg_log_perplexity")
    lengths = {"train": (1, 10), "dev": (2, 10), "test": (20, 20)}

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        columns = [f"{a}+{b}" for a in range(10) for b in range(10)]
        return {
            "inputs": text_encoder.TokenTextEncoder(tokens=columns),
            "targets": text_encoder.TokenTextEncoder(tokens=[str(digit) for digit in range(10)]),
        }

    def sample(self, rng: np.random.Generator, split: str) -> dict[str, str]:
        length = int(rng.integers(*self.lengths[split], endpoint=True))
        while True:
            first, second = draw_numbers(rng, length)
            inputs = " ".join(f"{a}+{b}" for a, b in zip(f"0{first}", f"0{second}", strict=True))
            # There are few sums of single digits: all of them are trained on.
            is_trained = length == 1 or not generated_classes.is_held_out(inputs)
            if is_trained == (split == "train"):
                total = str(int(first) + int(second)).zfill(length + 1)
                return {"inputs": inputs, "targets": " ".join(total)}


def draw_numbers(rng: np.random.Generator, length: int) -> tuple[str, str]:
    """Draws two numbers of so many digits, as text; zeros may come first."""
    share = rng.random()
    first, second = rng.integers(10, size=(2, length))
    second = np.where(rng.random(length) < share, 9 - first, second)
    return "".join(map(str, first)), "".join(map(str, second))
