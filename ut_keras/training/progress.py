"""Computes the progress line of training, and the averages for TensorBoard.

    step 1200/5000  loss 0.412  seq accuracy 0.87  ponder 2.61  51 ms/step  03:12 left
    15,300 tokens/s  41% of peak  input wait 2%  [####......]

On a terminal, the line is overwritten. If the terminal is too narrow, the parts in the second row
above are omitted first, beginning with the bar. The step, the loss and the accuracy are always
shown. In a log, a new line without the bar is written every few seconds. "of peak" is shown only if
the largest rate of the GPU is known (see `card_rate`).

Results stay on the device until the next line is due. Reading them after every step would make the
device wait. All results are read in one transfer, and a thread can read them: see `Progress.read`.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ut_keras.process.live_line import LiveLine, clock_time, fit
from ut_keras.training.train_step import StepResult

_WINDOW = 100  # number of recent steps that each average in the line includes
_BAR_WIDTH = 20
_MAX_TRANSFER = 1000  # the number of values that are read from the device at once
_ALWAYS = 6  # the importance of the parts that every line contains


class ReadResults(NamedTuple):
    """The results of some updates, after they were read from the device."""

    steps: list[tuple[int, dict[str, float]]]  # (step, dict from name to value), in order
    time: float  # the time when the device had finished the last of these updates
    input_wait_seconds: float  # the time that training waited for the batches of these updates
    flops: float = 0.0  # the number of operations of these updates, if it is known


class _Interval(NamedTuple):
    """The work between two fetches."""

    start: float  # the time of the earlier fetch
    num_steps: int  # the number of updates
    tokens: float
    flops: float
    input_wait_seconds: float


@dataclasses.dataclass(eq=False)
class Progress:
    """Collects the results of updates and shows them."""

    total_steps: int  # the last step
    # The object that writes the line to the terminal or to the log.
    live: LiveLine = dataclasses.field(default_factory=LiveLine)
    # The largest number of operations per second of the GPUs; None means that it is unknown.
    peak: float | None = None

    def __post_init__(self) -> None:
        self._shown_step: int | None = None
        self._pending: list[Any] = []
        self._recent: collections.deque = collections.deque(maxlen=_WINDOW)
        self.restart_clock()

    def restart_clock(self) -> None:
        """Exclude the time before this call from the computed speed.

        Call this method when training resumes after a pause.
        """
        self._intervals: collections.deque[_Interval] = collections.deque(maxlen=_WINDOW)
        self._last_fetch_time: float | None = None
        self._input_wait_seconds = 0.0

    @contextlib.contextmanager
    def waiting_for_input(self) -> Iterator[None]:
        """Return a context that measures how long the train loop waits for the next batch."""
        started = self.live.clock()
        yield
        self._input_wait_seconds += self.live.clock() - started

    def add(self, step: int, result: StepResult, flops: Any = None) -> None:
        """Add the `StepResult` of `step` without reading it from the device.

        Args:
            step: int, the number of the update.
            result: `StepResult`.
            flops: `models.flops.Flops`, the operations of the update. Required if `peak` is known.
        """
        self._pending.append((step, result._replace(ponder={}), flops))

    @property
    def is_due(self) -> bool:
        """Whether it is time to `fetch` and `show`."""
        return self.live.is_due

    def fetch(self) -> list[tuple[int, dict[str, float]]]:
        """Read all results that were not read before, and add them to the averages.

        Returns:
            list of (step, values). `values` is a dict from name to float.
        """
        return self.receive(self.read(*self.take()))

    def take(self) -> tuple[list[Any], float]:
        """Return the arguments of `read` for all updates that were not taken before."""
        taken = (self._pending, self._input_wait_seconds)
        self._pending, self._input_wait_seconds = [], 0.0
        return taken

    def read(self, results: list[Any], input_wait_seconds: float) -> ReadResults:
        """Wait until the device has finished some updates, and read their results.

        A thread may call this method while training continues, because the method does not change
        this object.
        """
        values = _to_floats([result for _, result, _ in results])
        flops = 0.0
        for step_values, (_, _, update_flops) in zip(values, results, strict=True):
            if update_flops is not None:
                ponder_steps = step_values["ponder_sum"] / max(step_values["ponder_count"], 1.0)
                flops += update_flops.total(ponder_steps)
        steps = list(zip((step for step, _, _ in results), values, strict=True))
        return ReadResults(steps, self.live.clock(), input_wait_seconds, flops)

    def receive(self, found: ReadResults) -> list[tuple[int, dict[str, float]]]:
        """Add the results that `read` returned to the averages, and return them."""
        if not found.steps:
            self._input_wait_seconds += found.input_wait_seconds
            return []
        for _, values in found.steps:
            self._recent.append(values)
        # The first interval is ignored, because it includes the compilation.
        if self._last_fetch_time is not None:
            tokens = sum(values["tokens"] for _, values in found.steps)
            self._intervals.append(
                _Interval(
                    start=self._last_fetch_time,
                    num_steps=len(found.steps),
                    tokens=tokens,
                    flops=found.flops,
                    input_wait_seconds=found.input_wait_seconds,
                )
            )
        self._last_fetch_time = found.time
        return found.steps

    def averages(self) -> dict[str, float]:
        """Return the averages over the recent updates, as a dict from name to float."""
        recent = self._recent
        if not recent:
            return {}

        def ratio(total, count):
            counted = sum(values[count] for values in recent)
            return sum(values[total] for values in recent) / counted if counted else None

        names = [name for name in recent[-1] if name == "loss" or name.startswith("losses/")]
        averages = {name: float(np.mean([values[name] for values in recent])) for name in names}
        averages["accuracy_per_sequence"] = ratio("correct", "sequences")
        averages["accuracy"] = ratio("correct_tokens", "target_tokens")
        averages["ponder_time"] = ratio("ponder_sum", "ponder_count")
        averages.update(self._speed())
        return {name: value for name, value in averages.items() if value is not None}

    def show(self, step: int) -> None:
        """Write the line for `step`.

        On a terminal, the line replaces the previous line. In a log, there is at most one line per
        step.
        """
        if self.live.is_live or step != self._shown_step:
            self.live.write(fit(self._parts(step), self.live.width))
        self._shown_step = step

    def end_line(self) -> None:
        """End the current line, so that other text can follow."""
        self.live.end()

    def print_line(self, text: str) -> None:
        """Print other text on a separate line."""
        self.live.end()
        print(text, flush=True)

    def _speed(self):
        intervals = self._intervals
        if not intervals or self._last_fetch_time is None:
            return {}
        seconds = max(self._last_fetch_time - intervals[0].start, 1e-9)
        flops = sum(interval.flops for interval in intervals)
        return {
            "steps_per_second": sum(interval.num_steps for interval in intervals) / seconds,
            "tokens_per_second": sum(interval.tokens for interval in intervals) / seconds,
            "share_of_peak": flops / seconds / self.peak if self.peak else None,
            "input_wait": sum(interval.input_wait_seconds for interval in intervals) / seconds,
        }

    def _bar(self, step):
        filled = _BAR_WIDTH * min(step, self.total_steps) // max(1, self.total_steps)
        return f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}]"

    def _parts(self, step):
        """Return the parts of the line as (importance, text)."""
        averages = self.averages()
        parts = [(_ALWAYS, f"step {step}/{self.total_steps}")]
        # Only a language model has the value "accuracy". A complete sequence of a language model is
        # never correct, so its accuracy per sequence is not shown.
        if "accuracy" in averages:
            averages.pop("accuracy_per_sequence", None)
        if averages.get("steps_per_second"):
            averages["milliseconds"] = 1000.0 / averages["steps_per_second"]
        for name, importance, text in (
            ("loss", _ALWAYS, "loss {:.3f}"),
            ("accuracy", _ALWAYS, "accuracy {:.2f}"),
            ("accuracy_per_sequence", _ALWAYS, "seq accuracy {:.2f}"),
            ("ponder_time", 4, "ponder {:.2f}"),
            ("milliseconds", 3, "{:,.0f} ms/step"),
        ):
            if name in averages:
                parts.append((importance, text.format(averages[name])))
        if averages.get("steps_per_second"):
            left = (self.total_steps - step) / averages["steps_per_second"]
            parts.append((5, f"{clock_time(left)} left"))
            parts.append((2, f"{averages['tokens_per_second']:,.0f} tokens/s"))
            if "share_of_peak" in averages:
                parts.append((1, f"{averages['share_of_peak']:.0%} of peak"))
            parts.append((1, f"input wait {averages['input_wait']:.0%}"))
        if self.live.is_live:
            parts.append((0, self._bar(step)))
        return parts


def _to_floats(results):
    """Return a dict from name to float for each `StepResult`.

    The values are combined on the device, so that there are a few transfers instead of a transfer
    for each value.
    """
    named = [_named_scalars(result) for result in results]
    scalars = [value for values in named for value in values.values()]
    parts = [scalars[i : i + _MAX_TRANSFER] for i in range(0, len(scalars), _MAX_TRANSFER)]
    numbers = iter([float(number) for part in parts for number in _to_host(part)])
    return [{name: next(numbers) for name in values} for values in named]


def _to_host(scalars):
    if "TPU" in scalars[0].device:  # a TPU would compile `tf.stack` for each number of values
        return scalars
    if len({scalar.dtype for scalar in scalars}) > 1:  # the user's model may have another dtype
        scalars = [tf.cast(scalar, tf.float64) for scalar in scalars]
    return tf.stack(scalars).numpy()


def _named_scalars(result):
    scalars = result._asdict()
    del scalars["losses"], scalars["ponder"]
    return {**{f"losses/{name}": loss for name, loss in result.losses.items()}, **scalars}


# The number of the update after which halting is checked. In later updates, a small number of
# ponder steps may be a result of training.
HALTING_CHECK_STEP = 100
_FEW_PONDER_STEPS = 2.5


def halting_warning(averages: Mapping[str, float]) -> str | None:
    """Return a warning if positions take very few steps early in training.

    Otherwise the return value is None.

    Args:
        averages: dict from name to the average over the updates up to `HALTING_CHECK_STEP`.
    """
    ponder = averages.get("ponder_time")
    if ponder is None or ponder >= _FEW_PONDER_STEPS:
        return None
    return (
        f"Warning: positions start with {ponder:.2f} steps on average, so most of the depth may "
        "never be used. Start with a lower halting probability: use "
        "--hparams=act_halting_bias_init=-3.0, or a set whose name ends in _deepstart. With T2T's "
        "bias of 1, positions halt after about 2 steps."
    )
