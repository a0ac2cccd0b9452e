"""Decodes a split freely: the model reads its own outputs instead of the targets.

    decoder = FreeDecoder(model, decode_hparams.parse("beam_size=1"), to_text, score)
    results, samples = decoder(dataset)      results = {"decode/accuracy_per_sequence": 0.97, …}

For class labels, the prediction is the class that has the largest logit.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ut_keras.data.reading import packing, readable
from ut_keras.decoding import batch_plan
from ut_keras.decoding.options import AUTO
from ut_keras.inference import decode_hparams
from ut_keras.inference.predictor import Predictor
from ut_keras.process import live_line
from ut_keras.text.text_encoder_base import cut_at_eos

_BATCH_SIZE = 128  # number of examples read at once
_UNPACKED_BATCH_SIZE = 64  # number of examples in a batch after unpacking


class Sample(NamedTuple):
    """One example, as numpy arrays of ids without padding and EOS."""

    inputs: np.ndarray
    target: np.ndarray
    decoded: np.ndarray

    @property
    def is_correct(self) -> bool:
        return np.array_equal(self.target, self.decoded)


@dataclasses.dataclass(eq=False)
class FreeDecoder:
    """Decodes datasets and measures the accuracy."""

    model: keras.Model  # a model that `Predictor` supports
    settings: Mapping[str, Any]  # decode hparams, from `decode_hparams.parse`
    to_text: Callable[[str, Any], str]  # function (feature name, ids) -> str
    # Function (sources, references, hypotheses) -> dict from name to float. The arguments are lists
    # of str.
    score: Callable[..., dict[str, float]]
    jit_compile: bool | str = AUTO  # whether XLA compiles the search, as in `Options`

    def __post_init__(self) -> None:
        self._predictor = Predictor(self.model)

    def __call__(
        self,
        dataset: tf.data.Dataset,
        num_shown: int = 3,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> tuple[dict[str, float], list[Sample]] | None:
        """Decode a dataset.

        Args:
            dataset: finite dataset of (features, targets). Sample weights are ignored.
            num_shown: int. Number of samples to return.
            should_stop: function without arguments, called after each batch. If it returns True,
                decoding stops.

        Returns:
            (results, samples): dict from name to float, and list of `Sample`. The return value is
            None if decoding stopped.
        """
        counts = np.zeros(4)
        shown: list[Sample] = []
        texts: list[list[str]] = []
        total = max(0, self.settings["num_samples"])  # 0 means that the number is unknown
        options = decode_hparams.to_options(self.settings, jit_compile=self.jit_compile)
        with live_line.ProgressLine("free decoding, examples", total) as line:
            for features, targets, *_ in readable.batches(self._batches(dataset)):
                inputs = features["inputs"].numpy()
                # The number of a batch is the number of examples before the batch. So no two
                # batches have the same seed, even if the predictor splits a batch.
                search = options.of_batch(len(texts))
                found = self._predictor.outputs(batch_plan.trim(inputs), search)
                decoded = [beams.ids[0] for beams in found]
                for sample in map(self._sample, inputs, targets.numpy(), decoded):
                    counts += _count(sample)
                    named = zip(("inputs", "targets", "targets"), sample, strict=True)
                    texts.append([self.to_text(name, ids) for name, ids in named])
                    if len(shown) < num_shown:
                        shown.append(sample)
                line.add(len(decoded))
                if should_stop():
                    return None
        return self._results(counts, texts), shown

    def shown(self, sample: Sample) -> str:
        """Return the lines that show a `Sample`."""
        verdict = "right" if sample.is_correct else "wrong"
        decoded = self.to_text("targets", sample.decoded)
        return (
            f"  inputs:    {self.to_text('inputs', sample.inputs)}\n"
            f"  reference: {self.to_text('targets', sample.target)}\n"
            f"  decoded:   {decoded or '(empty)'}  ({verdict})"
        )

    def can_decode(self, dataset: tf.data.Dataset) -> bool:
        """Return whether a dataset has inputs. The dataset of a language model has none."""
        return "inputs" in dataset.element_spec[0]

    def _batches(self, dataset):
        dataset = packing.unpacked(dataset, _UNPACKED_BATCH_SIZE)
        if self.settings["num_samples"] >= 0 or self.settings["batch_size"]:
            dataset = dataset.unbatch().take(self.settings["num_samples"])
            dataset = dataset.padded_batch(self.settings["batch_size"] or 64)
        return dataset

    def _sample(self, inputs, target, decoded):
        if not self._predictor.classifies:
            target, decoded = (np.array(cut_at_eos(ids), np.int32) for ids in (target, decoded))
        return Sample(inputs, target, decoded)

    def _results(self, counts, texts):
        """Return the results by name.

        `counts` is the sum of `_count` over the samples, and `texts` are the texts of each example.
        """
        right, rows, right_ids, ids = counts
        if not ids:  # all targets are empty: use the accuracy per sequence
            right_ids, ids = right, rows
        results: dict[str, Any] = {
            "decode/accuracy_per_sequence": right / max(1, rows),
            "decode/accuracy": right_ids / max(1, ids),
            "decode/num_samples": rows,
        }
        if texts:
            scores = self.score(*(list(column) for column in zip(*texts, strict=True)))
            results.update({f"decode/{name}": value for name, value in scores.items()})
        return {name: float(value) for name, value in results.items()}


def _count(sample):
    """Return the counts of one example, as an array of four numbers.

    The numbers are: correct examples (1 or 0), examples (always 1), correct ids, and target ids.
    Their sums over all examples give the scores of Dehghani et al. 2019: seq-acc is the first sum
    divided by the second, and char-acc is the third divided by the fourth. If the output is longer
    than the target, the example is not correct, but the number of correct ids does not change.
    """
    overlap = min(len(sample.target), len(sample.decoded))
    right_ids = np.sum(sample.target[:overlap] == sample.decoded[:overlap])
    return np.array([sample.is_correct, 1, right_ids, len(sample.target)])


def in_file_order(hp: Any) -> Any:
    """Return hparams with which the dataset of a split has the order of its files.

    With a fixed number of examples per batch, examples are not sorted by length.
    """
    # Without max_length, the batch size of the run limits the lengths.
    longest = hp.max_length or hp.batch_size
    fixed = {"use_fixed_batch_size": True, "batch_size": _BATCH_SIZE, "max_length": longest}
    return dataclasses.replace(hp, **fixed)


def read_rows(run: Any, split: str, most: int = -1) -> tuple[list[Any], list[Any]]:
    """Read the examples of a split in the order of its files.

    Args:
        run: an object with problem, data_dir, hp and specs, such as `decoder_setup.SelectedRun`.
        split: str.
        most: int. Maximum number of examples. A negative number means all examples.

    Returns:
        (inputs, targets), lists of int arrays.
    """
    problem = run.problem.for_decoding()
    dataset = problem.dataset(split, run.data_dir, in_file_order(run.hp))
    dataset = packing.unpacked(dataset, _BATCH_SIZE)
    rows: list[Any] = []
    for features, targets, *_ in readable.batches(dataset):
        rows += zip(features["inputs"].numpy(), targets.numpy(), strict=True)
        if 0 <= most <= len(rows):
            rows = rows[:most]
            break
    trimmed = run.specs["inputs"].modality == "symbol"
    inputs = [np.trim_zeros(row, "b") if trimmed else row for row, _ in rows]
    return inputs, [target for _, target in rows]
