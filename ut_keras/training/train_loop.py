"""The train loop, which updates the weights in a run and saves checkpoints.

    with TrainLoop(model, optimizer, strategy, output_dir, settings, make_epoch, …) as loop:
        loop.begin()
        loop.train_to(1000)
        loop.end()

Each batch is processed by these modules, in this order: `epochs` (the stream of batches),
`train_step` (the update), `reports` (the progress line and the training curves) and `saving`
(checkpoints). Training resumes from the newest checkpoint. Signals such as Ctrl-C are handled
between two updates (see `interruption`).
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable
from typing import Any, Self

import keras
import tensorflow as tf

from ut_keras.checkpoints import checkpoint, checkpoint_files
from ut_keras.process import interruption, live_line
from ut_keras.training import (
    card_rate,
    curriculum,
    distribution,
    progress,
    reports,
    saving,
    shape_update,
    train_step,
)
from ut_keras.training import epochs as epochs_lib
from ut_keras.training.train_settings import TrainSettings
from ut_keras.training.train_step import StepResult


@dataclasses.dataclass(eq=False)
class TrainLoop:
    """Trains a model, starting from the newest checkpoint.

    When a `TrainLoop` is made, it builds the optimizer and restores the checkpoint. The caller can
    then evaluate the model before `begin`. The fields without a comment are described in `Trainer`.

    Attributes:
        step: int, number of batches so far. Each batch has one update, or one for each segment.
        seconds: float, training time in this process.
        stop: `CoordinatedStop`.

    Raises:
        CheckpointError: if training cannot resume from the checkpoint in the output folder.
    """

    model: keras.Model
    optimizer: Any
    strategy: tf.distribute.Strategy
    output_dir: str
    settings: TrainSettings
    make_epoch: Callable[[int], Any]  # the argument of `Epochs`
    average: Any  # `MovingAverage` of the weights, or None
    summaries: Any  # `Summaries`
    write_records: Callable[[], Any]

    def __post_init__(self) -> None:
        self._is_chief = distribution.is_chief(self.strategy)
        self.step = 0
        self.seconds = 0.0
        # Before the first update, there is nothing to save, so a signal stops a single worker at
        # once. Several workers must always stop together.
        is_single_worker = distribution.num_workers(self.strategy) == 1
        self.stop = distribution.CoordinatedStop(self.strategy, waits=not is_single_worker)

        self._epochs = epochs_lib.Epochs(self.make_epoch, self.strategy)
        self._curriculum = self._make_curriculum()
        if self._curriculum:
            self._epochs.limit_length(self._curriculum.length)
        with self.strategy.scope():
            self.optimizer.build(self.model.trainable_variables)
        self._checkpoints = self._make_checkpoints()
        rate = card_rate.find(self.model, self.strategy)
        peak = None if rate is None else rate.peak
        self._progress = progress.Progress(self.settings.train_steps, peak=peak)
        self._reports = self._make_reports(rate)
        self._folder_status = os.stat(self.output_dir) if self._is_chief else None
        self._saver = self._make_saver()
        self._profiler = StepProfiler(self.output_dir, self.settings.profile_steps)
        self._compiled_update: Any = None  # the first update compiles it
        self._restore()

    def _make_curriculum(self):
        """Return the `Curriculum` that the settings select, or None."""
        if not self.settings.curriculum:
            return None
        return curriculum.Curriculum(self.settings.curriculum, self.make_epoch(0), self.strategy)

    def _make_checkpoints(self):
        position = dict(self._epochs.position)
        if self._curriculum:
            position.update(self._curriculum.position)
        return checkpoint.Checkpoints(
            self.output_dir,
            self.model,
            self.optimizer,
            position,
            keep=self.settings.keep_checkpoints,
            moving_average=self.average.variables if self.average else None,
        )

    def _make_reports(self, rate):
        return reports.Reports(
            self._progress,
            self.summaries,
            log_every_steps=self.settings.log_every_steps,
            reads_in_background=distribution.has_accelerator(self.strategy),
            check=self._check_finite,
            optimizer=self.optimizer,
            curriculum=self._curriculum,
            card_rate=rate,
        )

    def _make_saver(self):
        return saving.Saver(
            self._checkpoints,
            self._is_chief,
            self._before_save,
            self._progress.print_line,
            self.settings.eval_every_steps,
            self.settings.save_every_seconds,
        )

    # The train loop.

    def train_to(self, last_step: int) -> None:
        """Train until `step` is `last_step`, and save a checkpoint.

        Raises:
            Interrupted: if a signal stops training. The state is saved first.
        """
        if self.step >= last_step:
            return
        self._progress.restart_clock()
        self._saver.restart_clock()
        started = time.monotonic()
        while self.step < last_step:
            with self._progress.waiting_for_input():
                batch = next(self._epochs)
            self._profiler.before_update(self.step + 1)
            result = self._run_update(batch)
            self.step += 1
            self.stop.waits = True  # from now on, the run saves its state before it stops
            self._profiler.after_update(self.step, result)
            self._reports.add(self.step, result, batch)
            self._advance_curriculum(result)
            self._saver.save_if_due(self.step)
            if self.stop.is_due(self.step):
                self._saver.save(self.step)
                self._saver.finish()
                raise self.interrupted()
        self._saver.save(self.step)
        self._reports.finish()
        self._progress.show(self.step)
        self._progress.end_line()
        self.seconds += time.monotonic() - started

    def _run_update(self, batch):
        """Perform one update, and first compile the update if necessary.

        Without static shapes, only the first call compiles the update. With static shapes, the
        first call with each batch shape compiles the update for this shape.
        """
        if self._compiled_update is None:
            with live_line.Stopwatch("Compiling the first step…", "Compiled the first step"):
                self._compiled_update = self._make_update()
                return self._compiled_update(batch)
        if not self.settings.static_shapes or self._compiled_update.is_compiled_for(batch):
            return self._compiled_update(batch)
        self._reports.finish()
        self._progress.end_line()
        result = self._compiled_update(batch)
        self._progress.restart_clock()  # the reported speed must not include the compilation
        return result

    def _make_update(self):
        settings = self.settings

        def make(element_spec, jit_compile):
            return train_step.make_train_step(
                self.model,
                self.optimizer,
                self.strategy,
                element_spec,
                jit_compile,
                self.average,
                self._curriculum,
            )

        element_spec = self._epochs.element_spec
        if not settings.static_shapes:
            return make(element_spec, settings.jit_compile)
        return shape_update.ShapeUpdate(
            make(None, settings.jit_compile),
            (lambda: make(element_spec, False)) if settings.jit_fallback else None,
            self._progress.print_line,
        )

    def _advance_curriculum(self, result):
        if self._curriculum and (message := self._curriculum.add(result)):
            self._progress.print_line(f"{message} Step {self.step}.")
            self._epochs.limit_length(self._curriculum.length)

    def _check_finite(self, results):
        """Raise `NonFiniteError` if a loss is not finite. See `Reports.check`."""
        for step, values in results:
            if not math.isfinite(values["loss"]):
                raise self._non_finite(f"loss={values['loss']} at step {step}")

    def _before_save(self, step):
        """Check the state of `step`, and write the position in the data.

        `Saver` calls this method before it copies the state.
        """
        self._reports.check_remaining()
        if path := saving.non_finite_weight(self.model):
            raise self._non_finite(f"{path} at step {step}")
        self._check_folder(step)
        self._epochs.write_position()
        if self._curriculum:
            self._curriculum.write()

    def _check_folder(self, step):
        if self._folder_status is not None:
            saving.check_folder(self.output_dir, self._folder_status, step)

    def _non_finite(self, received):
        """Wait for the current checkpoint, and return the error to raise."""
        self._saver.finish()
        return saving.NonFiniteError(
            f"The loss and the weights must be finite. Received: {received}. Try a lower "
            "learning_rate_constant (or learning_rate), more learning_rate_warmup_steps or "
            "clip_grad_norm=1.0. The weights that are not finite were not saved; "
            f"{self._saver.newest()}."
        )

    # The beginning and the end of a run.

    def _restore(self):
        """Restore the newest checkpoint, if there is one.

        Otherwise the run starts with new weights, or with the weights of `warm_start_from`.
        """
        if self._checkpoints.restore_newest():
            self.step = self._checkpoints.step
            self._saver.saved_step = self.step
            if self._curriculum:
                self._curriculum.read()
                self._epochs.limit_length(self._curriculum.length)
            last = self.settings.train_steps
            done = f" (nothing left to train up to --train_steps={last})"
            done = done if self.step >= last else ""
            print(f"Resuming from step {self.step} in {self.output_dir}{done}", flush=True)
            unused = "note: --warm_start_from has no effect, because the run has a checkpoint"
            changes = (
                unused if self.settings.warm_start_from else None,
                checkpoint_files.note_on_later_steps(self.output_dir, self.step),
                self._epochs.read_position(),
                self._checkpoints.moving_average_note(),
            )
            for change in filter(None, changes):
                print(change, flush=True)
        elif self.settings.warm_start_from:
            print(warm_start(self.model, self.settings.warm_start_from), flush=True)
        if self.average and not self._checkpoints.has_moving_average:
            self.average.reset()
        check_same_step(self.strategy, self.output_dir, self.step)

    def begin(self) -> None:
        """Write the first files of the run.

        The caller must perform all checks before this call.
        """
        if self._is_chief:
            checkpoint_files.remove_incomplete(self.output_dir)
            self.write_records()
        if self.step >= self.settings.train_steps:
            # A run without updates has no checkpoint yet, so this call saves one. In a resumed run,
            # the checkpoint of this step exists, and the call does nothing.
            self._saver.save(self.step)

    def wait_for_checkpoint(self) -> None:
        """Wait until the current checkpoint is saved.

        The results of a step are recorded only after its checkpoint was saved. Otherwise a resumed
        run would have to remove these results.

        Raises:
            FolderLost: if the output folder was moved or removed.
        """
        self._saver.finish()
        self._check_folder(self.step)

    def end(self) -> None:
        """Wait for the last checkpoint.

        Raises:
            SaveError: if the checkpoint cannot be saved.
            FolderLost: if the output folder was moved or removed.
        """
        self._check_folder(self.step)
        self._saver.finish_or_raise()

    def __enter__(self) -> Self:
        self.stop.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.stop.__exit__(kind, error, traceback)
        self._epochs.close()
        self._saver.finish()
        self.summaries.close()
        self._progress.end_line()
        self._profiler.end()
        self._reports.close()
        is_alone = distribution.num_workers(self.strategy) == 1
        if isinstance(error, distribution.LOST_WORKER_ERRORS) and not is_alone:
            raise distribution.WorkerLost(
                f"Lost the connection with another worker at step {self.step}. To resume from "
                "the newest checkpoint, run the same command on all workers. Newest checkpoint: "
                f"{checkpoint_files.newest(self.output_dir) or 'none'}."
            ) from error

    def interrupted(self) -> interruption.Interrupted:
        """Return the `Interrupted` error to raise after the state is saved."""
        if self.stop.requested and self.step == self._saver.failed_step:
            return self.stop.stopped(
                f"stopped at step {self.step}, which could not be saved; "
                f"{self._saver.newest()}. Run the same command again to resume."
            )
        if self.stop.requested:
            return self.stop.stopped(
                f"stopped at step {self.step} and saved a checkpoint. Run the same command again "
                "to resume."
            )
        return interruption.Interrupted(
            f"Another worker received a stop signal: stopped at step {self.step} and saved a "
            "checkpoint. Run the same command again on all workers to resume.",
            exit_code=143,
        )


class StepProfiler:
    """Writes TensorBoard's profile of a range of updates.

    Args:
        output_dir: str. The profile is written to the subfolder plugins/profile of this folder,
            where TensorBoard finds the profile.
        steps: (first, last), ints, the range of updates. None means that there is no profile.
    """

    def __init__(self, output_dir: str, steps: Any) -> None:
        self._output_dir = output_dir
        first, last = steps or (0, -1)
        self._steps = range(first, last + 1)
        self._is_on = False

    def before_update(self, step: int) -> None:
        if step in self._steps and not self._is_on:
            tf.profiler.experimental.start(self._output_dir)
            self._is_on = True

    def after_update(self, step: int, result: StepResult) -> None:
        if self._is_on and step + 1 not in self._steps:
            result.loss.numpy()  # this call waits until the devices have finished the update
            self.end()

    def end(self) -> None:
        """Write the current profile, if there is one.

        This method may be called several times, and also after an error.
        """
        if not self._is_on:
            return
        self._is_on = False
        tf.profiler.experimental.stop()
        print(f"Saved the profile. To show it: tensorboard --logdir={self._output_dir}", flush=True)


def check_same_step(strategy: tf.distribute.Strategy, output_dir: str, step: int) -> None:
    """Check that all workers have read a checkpoint of the same step.

    All workers must call this function.

    Raises:
        CheckpointError: if two workers have read checkpoints of different steps.
    """
    if not distribution.is_same_on_all_workers(strategy, step):
        raise checkpoint.CheckpointError(
            f"All workers must find the same checkpoints in --output_dir, on a shared disk. "
            f"Received: step {step} in {output_dir} on this worker, another step on another worker."
        )


def warm_start(model: keras.Model, path: str) -> str:
    """Initialize a new model with the variables of another run.

    Variables that have the same name and shape in both runs are copied. All other variables keep
    their initial values.

    Args:
        model: a built model.
        path: str, path of a checkpoint or of the folder of a run. For a folder, the newest
            checkpoint in the folder is used.

    Returns:
        str, a line that names the checkpoint and the variables that were not copied. It also says
        whether the checkpoint has moving averages, which are not copied.

    Raises:
        CheckpointError: if `path` has no checkpoint of ut_keras, or if no variable matches.
    """
    path = os.path.expanduser(path)
    found = checkpoint_files.newest(path) if os.path.isdir(path) else path
    if found is None:
        raise checkpoint.CheckpointError(
            "warm_start_from must be a checkpoint or a folder that contains one. "
            f"Received: {path!r}."
        )
    weights = checkpoint.read_weights(found)
    skipped, count = [], 0
    for name, variable in checkpoint.model_variables(model).items():
        value = weights.get(name)
        if value is None or value.shape != tuple(variable.shape):
            stored_shape = "missing" if value is None else f"{value.shape} in the checkpoint"
            skipped.append(f"{name} {tuple(variable.shape)} ({stored_shape})")
            continue
        variable.assign(value)
        count += 1
    if not count:
        raise checkpoint.CheckpointError(
            "warm_start_from must contain variables with the names and shapes of this model. "
            f"Received: {found} without any, such as {skipped[0]}."
        )
    note = f"; newly initialized: {', '.join(skipped)}" if skipped else ""
    if checkpoint.contains_moving_average(found):
        note += "; the averaged weights of the checkpoint were not copied, see best/"
    return f"Warm start: {count} of {count + len(skipped)} variables from {found}{note}"
