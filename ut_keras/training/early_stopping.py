"""Early stopping: decides whether a metric no longer improves.

    stopping = EarlyStopping("decode/bleu", patience_steps=20000, delta=0.1)
    stopping.read(output_dir, last_step=5000, split="dev")
    stopping.add(6000, {"loss": 1.2, "decode/bleu": 24.5})
    stopping.should_stop, stopping.best_step

The results of earlier evaluations are stored only in `metrics.jsonl`. A resumed run reads the
results up to its checkpoint from this file. Therefore it makes the same decisions as an
uninterrupted run.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ut_keras.errors import UserError
from ut_keras.files import metrics_file


class MetricError(UserError):
    """The evaluation has no metric with the requested name."""


@dataclasses.dataclass(eq=False)
class EarlyStopping:
    """Follows one metric over the evaluations of a run.

    Args:
        metric: str. A name in `metrics.jsonl`, such as "loss" or "decode/bleu", or T2T's tag for
            the metric (see `metrics_file.metric_name`). With the name "step", the last step is
            always the best step.
        patience_steps: int. Training stops if the metric has not improved by `delta` within this
            number of steps. If it is None, training never stops early.
        delta: float. The required improvement over the last value before these steps.
        minimize: bool. Whether a lower value is better. If it is None, the name of the metric
            decides.
    """

    metric: str = "loss"
    patience_steps: int | None = None
    delta: float = 0.1
    minimize: bool | None = None

    def __post_init__(self) -> None:
        self.metric = metrics_file.metric_name(self.metric)
        less = metrics_file.is_less_better(self.metric) if self.minimize is None else self.minimize
        self._sign = -1.0 if less else 1.0
        self._values: dict[Any, float] = {}

    def read(self, output_dir: str, last_step: int, **record_filter: str) -> None:
        """Read the values of the metric that an earlier run recorded up to `last_step`.

        Only records with the entries in `record_filter`, such as `problem` and `split`, are read.
        These are the evaluations that control training.
        """
        for record in metrics_file.records(output_dir, **record_filter):
            if self.metric in record and record["step"] <= last_step:
                self._values[record["step"]] = float(record[self.metric])

    def add(self, step: int, results: Mapping[str, float]) -> bool:
        """Add an evaluation's results at `step`. Return whether they are the best so far.

        Raises:
            MetricError: if the results do not contain the metric.
        """
        self.check(results)
        self._values[step] = float({**results, "step": step}[self.metric])
        return self.best_step == step

    def check(self, names: Iterable[str]) -> None:
        """Check that an evaluation has the metric.

        `names` are the names of the evaluation's results.

        Raises:
            MetricError: if the metric is not among `names`.
        """
        if self.metric not in {*names, "step"}:
            raise MetricError(
                "eval_early_stopping_metric must be one of the results of an evaluation: "
                f"{', '.join(sorted(names))}. Received: {self.metric!r}."
            )

    @property
    def best_step(self) -> int | None:
        """The step with the best value, or None if there are no values.

        If several steps have the best value, this property is the last of these steps, because its
        model was trained longest. For example, the accuracy can reach 1 long before the loss and
        the ponder time have converged. NaN is worse than any number. For example, a correlation is
        NaN as long as a model makes the same prediction for all examples.
        """
        if not self._values:
            return None
        return max(self._values, key=lambda step: (self._goodness(step), step))

    @property
    def should_stop(self) -> bool:
        """Whether the metric has improved too little in the last `patience_steps` steps.

        The values of these steps are compared with the last value before these steps. Training
        continues only if one of the new values is better by at least `delta`. If `delta` is 0,
        training continues only if one of the new values is better. As in T2T, training also
        continues if one of the compared values is NaN.

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
        if any(map(math.isnan, (self._values[start], *since))):
            return False
        gain = max((self._sign * (value - self._values[start]) for value in since), default=0)
        return gain < self.delta or gain <= 0

    def _goodness(self, step):
        """Return a tuple that is larger for a better value.

        NaN is worse than an infinite loss.
        """
        value = self._sign * self._values[step]
        return (False, 0.0) if math.isnan(value) else (True, value)

    def reason(self) -> str:
        """Return one line that explains why training stops."""
        best = self.best_step
        return (
            f"Early stopping: {self.metric} has not improved by {self.delta:g} for "
            f"{self.patience_steps} steps. Best: {self._values[best]:.4g} at step {best}."
        )
