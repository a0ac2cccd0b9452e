"""The update of a model, compiled once for every batch shape.

    update = ShapeUpdate(step, fallback=lambda: step_without_xla)
    result = update((features, targets))

XLA compiles the update for each shape of a batch. A compilation takes seconds to minutes, so a line
of output shows that a compilation is running.
"""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ut_keras.ops import xla_errors
from ut_keras.process import live_line
from ut_keras.training.train_step import StepResult

Step = Callable[[Any], StepResult]


@dataclasses.dataclass(eq=False)
class ShapeUpdate:
    """An update that is compiled for every batch shape.

    Args:
        step: function from `train_step.make_train_step`, which is compiled for each shape.
        fallback: function that returns the update without XLA. It is called if XLA cannot compile
            `step`. If `fallback` is None, the error of XLA is raised.
        print_line: function that ends the progress line and then prints a line.
    """

    step: tf.types.experimental.PolymorphicFunction
    fallback: Callable[[], Step] | None = None
    print_line: Callable[[str], Any] = print

    def __post_init__(self) -> None:
        # The update for each batch shape. TensorFlow would warn about retracing if `step` itself
        # were called with many shapes.
        self._updates: dict[Any, Step] = {}
        self._is_replaced = False  # whether `step` is the fallback

    def is_compiled_for(self, batch: Any) -> bool:
        """Return whether a call with this batch needs no compilation."""
        return self._is_replaced or _shapes(batch) in self._updates

    def __call__(self, batch: Any) -> StepResult:
        if self._is_replaced:
            return self.step(batch)
        shapes = _shapes(batch)
        if shapes in self._updates:
            return self._updates[shapes](batch)
        # For the first shape, the caller prints a line about the compilation.
        with self._stopwatch(shapes) if self._updates else contextlib.nullcontext():
            return self._first_result(shapes, batch)

    def _stopwatch(self, shapes):
        largest = max(shapes, key=len)
        what = f"the update for batches of {' × '.join(map(str, largest))}"
        return live_line.Stopwatch(f"Compiling {what}…", f"Compiled {what}")

    def _first_result(self, shapes, batch):
        """Return the result of the first update for these shapes, or of the fallback."""
        if self.fallback is None:
            return self._compiled(shapes, batch)
        try:
            return self._compiled(shapes, batch)
        except xla_errors.NOT_COMPILED as error:
            self.print_line(
                "note: --xla_compile=auto: training without XLA, because XLA cannot compile the "
                f"update: {xla_errors.why_not_compiled(error)}"
            )
        self.step, self._is_replaced = self.fallback(), True
        return self.step(batch)

    def _compiled(self, shapes, batch):
        """Compile the update for these shapes, and return its first result."""
        update = self.step.get_concrete_function(batch)
        result = update(batch)
        self._updates[shapes] = update
        return result


def _shapes(batch):
    parts = tf.nest.flatten(batch, expand_composites=True)
    return tuple(tuple(part.shape) for part in parts)
