"""Base classes of tasks whose examples are generated at random.

Most of these tasks classify sequences of words. Each split samples its own examples. A checksum of
the inputs determines whether an example belongs to training. One in twenty examples belongs to
validation and test instead. Therefore no example of training is in the other splits.
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
    """Return whether a text belongs to validation and test instead of training."""
    return zlib.crc32(text.encode()) % _HELD_OUT_EVERY == 0


class Generated(problem.Problem):
    """A problem of random texts, encoded as characters. A subclass defines `sample`.

    Attributes:
        sizes: dict from split to the number of its examples.
        make_rng: function from a seed to a random number generator.
    """

    splits: tuple[str, ...] = ("train", "dev", "test")
    licence = "generated"
    sizes = {"train": 100_000, "dev": 2_000, "test": 2_000}
    make_rng: Callable[[int], Any] = np.random.default_rng

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        return dict.fromkeys(("inputs", "targets"), text_encoder.ByteTextEncoder())

    def sample(self, rng: Any, split: str) -> dict[str, str]:
        """Sample {"inputs": str, "targets": str} of "train", "dev" or "test"."""
        raise NotImplementedError

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        rng = type(self).make_rng(seed)
        for _ in range(self.sizes[split]):
            yield self.sample(rng, split)


class GeneratedClasses(Generated):
    """A classification problem of random words. A subclass defines `sample_words`.

    Attributes:
        words: tuple of str. The vocabulary. Words must not contain spaces.
        labels: tuple of str. Names of the classes.
    """

    class_label_features: tuple[str, ...] = ("targets",)
    eval_metrics: tuple[str, ...] = ("accuracy", "neg_log_perplexity")
    words: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def sample_words(self, rng: np.random.Generator, split: str) -> tuple[list[str], str]:
        """Sample (list of words, label)."""
        raise NotImplementedError

    def feature_encoders(self, data_dir: str | None = None) -> Encoders:
        return {
            "inputs": text_encoder.TokenTextEncoder(tokens=list(self.words)),
            "targets": text_encoder.ClassLabelEncoder(self.labels),
        }

    def sample(self, rng: np.random.Generator, split: str) -> dict[str, str]:
        while True:
            words, label = self.sample_words(rng, split)
            inputs = " ".join(words)
            is_trained = not is_held_out(inputs) or self.is_all_trained(words)
            if is_trained == (split == "train"):
                return {"inputs": inputs, "targets": label}

    def is_all_trained(self, words: list[str]) -> bool:
        """Return whether all examples of the kind of `words` belong to training.

        A subclass overrides this method if only a few examples of a kind exist.
        """
        return False
