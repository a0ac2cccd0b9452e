"""When to stop because a metric gets no better, and which step was the best.

    stopping = EarlyStopping("decode/bleu", patience_steps=20000, delta=0.1)
    stopping.read(output_dir, last_step=5000, split="dev")
    stopping.add(6000, {"loss": 1.2, "decode/bleu": 24.5})
    stopping.should_stop, stopping.best_step

The memory of a run is `metrics.jsonl`: what it says of the steps up to a checkpoint is all that
there is to know, so a run that goes on decides as one that was never stopped.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ut_keras.errors import UserError
from ut_keras.files import metrics_file


class MetricError(UserError):
    """There is no metric of that name."""


@dataclasses.dataclass(eq=False)
class EarlyStopping:
    """Follows one metric."""

    # A name in `metrics.jsonl`, such as "loss" or "decode/bleu", or T2T's tag for it, as of
    # `metrics_file.name_of`. Of "step" the last is the best.
    metric: str = "loss"
    # Stop once the metric has not improved by `delta` within so many; None never stops.
    patience_steps: int | None = None
    delta: float = 0.1  # how much better than the value at their beginning it must have been
    minimize: bool | None = None  # whether less is better; None goes by the name

    def __post_init__(self) -> None:
        self.metric = metrics_file.name_of(self.metric)
        less = metrics_file.is_less_better(self.metric) if self.minimize is None else self.minimize
        self._sign = -1.0 if less else 1.0
        self._values: dict[Any, float] = {}

    def read(self, output_dir: str, last_step: int, **record_filter: str) -> None:
        """Takes over what an earlier run has recorded of the steps up to `last_step`.

        `record_filter` is what training goes by, such as the `problem` and `split` that are
        evaluated; what is of others is not read.
        """
        for record in metrics_file.records(output_dir, **record_filter):
            if self.metric in record and record["step"] <= last_step:
                self._values[record["step"]] = float(record[self.metric])

    def add(self, step: int, results: Mapping[str, float]) -> bool:
        """Takes the results of the evaluation of a step; returns whether it is the best so far.

        Raises:
            MetricError: if they lack the metric.
        """
        self.check(results)
        self._values[step] = float({**results, "step": step}[self.metric])
        return self.best_step == step

    def check(self, names: Iterable[str]) -> None:
        """Checks that the metric is among the names of the results of an evaluation.

        Raises:
            MetricError: if it is not.
        """
        if self.metric not in {*names, "step"}:
            raise MetricError(
                "eval_early_stopping_metric must be one of the results of an evaluation: "
                f"{', '.join(sorted(names))}. Received: {self.metric!r}."
            )

    @property
    def best_step(self) -> int | None:
        """The step with the best value, or None; of equal ones the last, which has learned longest.

        An accuracy of 1 is reached long before the rest (loss, ponder time) has settled.
        """
        if not self._values:
            return None
        return max(self._values, key=lambda step: (self._sign * self._values[step], step))

    @property
    def should_stop(self) -> bool:
        """Whether nothing since is better by `delta` than the value `patience_steps` ago.

        By a `delta` of 0: whether nothing is better at all.

        References: T2T `metrics_hook.has_metric_plateaued`.
        """
        if self.patience_steps is None or not self._values:
            return False
        last = max(self._values)
        before = [step for step in self._values if step <= last - self.patience_steps]
        if not before:
            return False
        start = max(before)
        since = [value for step, value in self._values.items() if step > start]
        gain = max((self._sign * (value - self._values[start]) for value in since), default=0)
        return gain < self.delta or gain <= 0

    def reason(self) -> str:
        """One line that says why to stop."""
        best = self.best_step
        return (
            f"Early stopping: {self.metric} has not improved by {self.delta:g} for "
            f"{self.patience_steps} steps. Best: {self._values[best]:.4g} at step {best}."
        )
