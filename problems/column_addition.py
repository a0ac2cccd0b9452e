"""Generated sums, written by column.

The depth of a sum is the number of columns that a carry crosses.

    inputs    "0+0 2+6 4+5 7+8"   two numbers of three digits, 247 and 658, written below each other
    targets   "0 9 0 5"           the digits of their sum

A column whose digits sum to nine passes a carry on: the carry comes from the column to its right
and goes to the column to its left. In the example, 7+8 produces a carry, and 4+5 passes it on to
2+6. The share of such columns is sampled for each example, from none to all, so that all distances
occur. With uniform digits, only one column in ten would pass on a carry. The number of digits is
uniform: 1 to 10 in training, 2 to 10 in validation, 20 in the test. The task, its lengths and its
sampling are not published elsewhere; Dehghani et al. 2019 use `algorithmic_addition_decimal40`.
"""

import numpy as np

from ut_keras.problems import generated_classes, problem
from ut_keras.problems.problem import Encoders
from ut_keras.text import text_encoder


@problem.register("addition10")
class Addition10(generated_classes.Generated):
    """A task that writes one digit of the sum for each column."""

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
            # There are only a few sums of single digits, so all of them belong to training.
            is_trained = length == 1 or not generated_classes.is_held_out(inputs)
            if is_trained == (split == "train"):
                total = str(int(first) + int(second)).zfill(length + 1)
                return {"inputs": inputs, "targets": " ".join(total)}


def draw_numbers(rng: np.random.Generator, length: int) -> tuple[str, str]:
    """Sample two numbers as texts of `length` digits each. The first digit may be 0."""
    share = rng.random()
    first, second = rng.integers(10, size=(2, length))
    second = np.where(rng.random(length) < share, 9 - first, second)
    return "".join(map(str, first)), "".join(map(str, second))
