"""Bases of tasks that are drawn at random, most of them from words to a class.

Training, validation and test draw for themselves, so nothing is held back by hand: an example whose
words are validation's to have (one in twenty) is never trained on, and the other way round.
"""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ut_keras.problems import problem
from ut_keras.problems.problem import Encoders, Texts
from ut_keras.text import text_encoder

_HELD_OUT_EVERY = 20


def is_held_out(text: str) -> bool:
    """Whether validation and test may have this, and training not."""
    return zlib.crc32(text.encode()) % _HELD_OUT_EVERY == 0


class Generated(problem.Problem):
    """By characters; a subclass says how to draw a `sample` of a split.

    Attributes:
        sizes: dict from split to the number of its examples.
        make_rng: function from a seed to what draws random numbers.
    """

    splits: tuple[str, ...] = ("train", "dev", "test")
    licence = "generated"
    sizes = {"train": 100_000, "dev": 2_000, "test": 2_000}
    make_rng: Callable[[int], Any] = np.random.default_rng

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        return dict.fromkeys(("inputs", "targets"), text_encoder.ByteTextEncoder())

    def sample(self, rng: Any, split: str) -> dict[str, str]:
        """Draws {"inputs", "targets"} of "train", "dev" or "test"."""
        raise NotImplementedError

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        rng = type(self).make_rng(seed)
        for _ in range(self.sizes[split]):
            yield self.sample(rng, split)


class GeneratedClasses(Generated):
    """A subclass says its `words` and `labels`, and how to `draw` an example of a split."""

    class_label_features: tuple[str, ...] = ("targets",)
    eval_metrics: tuple[str, ...] = ("accuracy", "neg_log_perplexity")
    words: tuple[str, ...] = ()  # without spaces
    labels: tuple[str, ...] = ()

    def draw(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        """Draws (list of words, label)."""
        raise NotImplementedError

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        return {
            "inputs": text_encoder.TokenTextEncoder(tokens=list(self.words)),
            "targets": text_encoder.ClassLabelEncoder(self.labels),
        }

    def sample(self, rng: np.random.Generator, split: str) -> dict[str, str]:
        while True:
            words, label = self.draw(rng, split)
            inputs = " ".join(words)
            is_trained = not is_held_out(inputs) or self.is_all_trained(words)
            if is_trained == (split == "train"):
                return {"inputs": inputs, "targets": label}

    def is_all_trained(self, words: list[str]) -> bool:
        """Whether there are so few such examples that all are trained on, and none is held out."""
        return False
