"""Evaluates the loss and the metrics of a split with teacher forcing.

Losses and metrics are summed over all batches. Each sum is then divided by the number of summed
values.

evaluate = Evaluator(model, strategy, metrics={"accuracy": metrics.get("accuracy")})
evaluate(dataset, steps=100)  ->  {"loss": 0.31, "losses/training": 0.3, "accuracy": 0.9, …}
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ut_keras.data.reading import readable
from ut_keras.errors import UserError
from ut_keras.process import live_line
from ut_keras.training import distribution, ponder


class EmptyDatasetError(UserError):
    """A dataset has no batches."""


@dataclasses.dataclass(eq=False)
class Evaluator:
    """Evaluates a model on datasets.

    The evaluation step is compiled once and used for all datasets with the same element spec.
    """

    model: keras.Model  # a model with `forward` and `loss_terms`
    strategy: tf.distribute.Strategy
    # Dict from the name of a metric to its function. The function maps (logits, targets) to
    # (sum, count). If the data have weights, it maps (logits, targets, weights) to
    # (sum, sum of weights).
    metrics: Mapping[str, Callable[..., Any]]
    # Dict from the name of a metric to its `FeatureMetric`. These metrics do not use the weights of
    # the data.
    feature_metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    # Function that takes the results and returns a dict of additional results.
    summarize: Callable[[dict[str, float]], Mapping[str, float]] = lambda results: {}

    def __post_init__(self) -> None:
        self._step: Any = None
        self._element_spec: Any = None

    @property
    def names(self) -> list[str]:
        """The names that every result contains.

        The results of some models also contain other names.
        """
        return ["loss", *self.metrics, *self.feature_metrics]

    def __call__(
        self,
        dataset: tf.data.Dataset,
        steps: int = -1,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, float] | None:
        """Evaluate the model.

        Args:
            dataset: `tf.data.Dataset` of global batches (features, targets) or (features, targets,
                weights), one pass over the data. The format of the weights is described in
                `losses`: float [B], [B, 1] or [B, T].
            steps: int. Number of batches to evaluate. If it is 0 or less, all batches are
                evaluated.
            should_stop: function that is called after each batch. If it returns True, the
                evaluation ends without a result.

        Returns:
            dict from name to float: "loss", "losses/NAME" for every loss, the metrics, and
            "ponder_time" if the model has adaptive depth. A feature metric is omitted if its count
            is 0. The return value is None if the evaluation ended early.

        Raises:
            EmptyDatasetError: if the dataset has no batches.
        """
        if steps > 0:
            dataset = dataset.take(steps)
        totals = None
        batches = distribution.distribute(self.strategy, dataset)
        self._compile(batches.element_spec)
        total = steps if steps > 0 else None
        with live_line.ProgressLine("evaluation, batches", total) as line:
            for batch in readable.batches(batches):
                # The sums are float64 on the host, because float32 cannot count many tokens
                # exactly.
                pairs = tf.nest.map_structure(lambda x: np.float64(x.numpy()), self._step(batch))
                totals = pairs if totals is None else tf.nest.map_structure(np.add, totals, pairs)
                line.add(1)
                if should_stop():
                    return None
        if totals is None:
            raise EmptyDatasetError(
                "The evaluation data must have at least one batch. Received: no batch."
            )
        results = _results(*totals)
        for name, metric in self.feature_metrics.items():
            value = results.pop(name)
            if totals[1][name][1]:
                results[name] = metric.finish(value)
        return {**results, **self.summarize(results)}

    def _compile(self, element_spec):
        """Trace the evaluation step once for all batches of this element spec."""
        if self._element_spec != element_spec:
            self._element_spec = element_spec
            self._step = tf.function(
                self._distributed_step, input_signature=[element_spec], autograph=False
            )

    def _distributed_step(self, batch):
        sums = self.strategy.run(self._replica_step, args=batch)
        return tf.nest.map_structure(
            lambda x: self.strategy.reduce(tf.distribute.ReduceOp.SUM, x, axis=None), sums
        )

    def _replica_step(self, features, targets, *weights):
        output = self.model.forward(features, training=False)
        terms = self.model.loss_terms(output, targets, False, *weights)
        logits, targets, *matched = match_lengths(self.model, output.logits, targets, *weights)
        losses = {
            name: [(term.numerator, term.denominator) for term in terms[name]] for name in terms
        }
        values = {name: fn(logits, targets, *matched) for name, fn in self.metrics.items()}
        for name, metric in self.feature_metrics.items():
            values[name] = metric.function(logits, targets, features)
        pondered = ponder.times_and_masks(output, features, targets)
        if pondered:
            values["ponder_time"] = ponder.sum_and_count(pondered)
        return losses, values


def match_lengths(model: Any, logits: Any, targets: Any, *weights: Any) -> tuple:
    """Return logits, targets and weights with one length, if the model supports this.

    Only a model with the method `match_lengths` supports this (see `CompiledModel`). Any other
    model must predict exactly as many tokens as there are targets.
    """
    if not hasattr(model, "match_lengths"):
        return (logits, targets, *weights)
    return model.match_lengths(logits, targets, *weights)


def _results(losses, values):
    results = {
        f"losses/{name}": float(sum(total / count if count else 0.0 for total, count in terms))
        for name, terms in losses.items()
    }
    results = {"loss": sum(results.values()), **results}
    for name, (total, count) in values.items():
        results[name] = float(total / count) if count else 0.0
    return results
