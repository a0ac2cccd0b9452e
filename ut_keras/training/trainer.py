"""T2T's schedules: the order of training, evaluation and decoding in a run.

    trainer = Trainer(model, optimizer, strategy, output_dir, settings, evaluator, free_decoder)
    trainer.train_eval_and_decode(make_train_epoch, make_eval_dataset)

`train_loop` performs the updates. Between updates, the trainer calls `evaluation`, `free_decoding`
and `early_stopping`. The trainer gets a model, datasets and metrics. It does not know the problem.
"""

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

from ut_keras.checkpoints import checkpoint, checkpoint_files
from ut_keras.files import file_error
from ut_keras.training import distribution, moving_average, output_folder, train_loop
from ut_keras.training import summaries as summaries_lib
from ut_keras.training.evaluation import Evaluator
from ut_keras.training.train_settings import TrainSettings

MakeEpoch: TypeAlias = Callable[[int], Any]  # the type of the argument of `Epochs`
MakeDataset: TypeAlias = Callable[[], Any]


class _Evaluation(NamedTuple):
    """The results of an evaluation and of free decoding, by name."""

    results: dict[str, float]
    shown: dict[str, float]  # the results without those that `_COMPARE_SEQUENCES` explains


@dataclasses.dataclass(eq=False)
class Trainer:
    """A run, which trains, evaluates, decodes and saves a model.

    Training resumes from the newest checkpoint in the output folder. The caller must create the
    model and the optimizer in the scope of the strategy.
    """

    model: keras.Model  # a built model with `forward`, `loss_terms` and `generate`
    optimizer: keras.optimizers.Optimizer | None  # the value is None if the run only evaluates
    strategy: tf.distribute.Strategy
    output_dir: str  # an existing folder
    settings: TrainSettings
    evaluator: Evaluator  # evaluates `model`
    free_decoder: Any  # `FreeDecoder` of `model`
    problem_name: str = "problem"  # for TensorBoard's tags
    # Function that writes the files that describe the run. It is called after all checks, before
    # any other file is written to the output folder.
    write_records: Callable[[], Any] = lambda: None
    # Function that returns the dataset for free decoding. None means the dataset of the evaluation.
    make_decode_dataset: MakeDataset | None = None

    def __post_init__(self) -> None:
        self._is_chief = distribution.is_chief(self.strategy)
        self._summaries = summaries_lib.Summaries(
            self.output_dir,
            self.problem_name,
            self.settings.eval_split,
            self._is_chief,
            is_training_run=self.optimizer is not None,
        )
        # The object collects the values of this run. Several runs may share their settings, so each
        # run has a copy.
        self._early_stopping = dataclasses.replace(self.settings.early_stopping)
        self._average: Any = None
        if decay := self.settings.moving_average_decay:
            self._average = moving_average.MovingAverage(self.model, self.strategy, decay)

    # The schedules. Their names are T2T's.

    def train(self, make_epoch: MakeEpoch, make_eval_dataset: MakeDataset | None = None) -> None:
        """Train to the last step without evaluation."""
        with self._restored_loop(make_epoch) as loop:
            loop.begin()
            self._summaries.rewind(loop.step)
            loop.train_to(self.settings.train_steps)
            loop.end()

    def continuous_train_and_eval(
        self, make_epoch: MakeEpoch, make_eval_dataset: MakeDataset, decode: bool = False
    ) -> dict[str, float]:
        """Train, and evaluate after every `eval_every_steps` updates and at the end.

        With `decode=True`, every evaluation also decodes.
        """
        settings = self.settings
        evaluated_at = -math.inf
        with self._restored_loop(make_epoch) as loop:
            self._early_stopping.read(self.output_dir, loop.step, **self._summaries.record_filter)
            self._check_metric(make_eval_dataset, decode)
            stops = self._should_stop_early()
            check_best_folder(self.output_dir)
            loop.begin()
            # An earlier run may have saved this step but stopped before the evaluation. If early
            # stopping has ended the run, the last step is evaluated again to return its results.
            evaluates_first = stops or self._is_unevaluated(loop.step, decode)
            self._summaries.rewind(loop.step, drop_last_evaluation=evaluates_first)
            self._save_missing_best(loop.step)
            while True:
                if not evaluates_first:
                    loop.train_to(self._next_evaluation(loop.step))
                evaluates_first = False
                is_last = loop.step >= settings.train_steps
                throttled = time.monotonic() - evaluated_at < settings.eval_throttle_seconds
                if is_last or not distribution.from_chief(self.strategy, throttled):
                    evaluated_at = time.monotonic()
                    evaluation = self._evaluate_and_keep_best(loop, make_eval_dataset, decode)
                    stops = self._should_stop_early()
                if stops and self._is_chief:  # only the chief has the values of the metric
                    print(self._early_stopping.reason(), flush=True)
                if is_last or stops:
                    break
            loop.end()
        final = {**evaluation.shown, "steps": loop.step, "train_time": loop.seconds}
        print(result_line(final), flush=True)
        return evaluation.results

    train_eval_and_decode = functools.partialmethod(continuous_train_and_eval, decode=True)

    def evaluate(
        self, make_epoch: MakeEpoch, make_eval_dataset: MakeDataset, decode: bool = False
    ) -> dict[str, float]:
        """Evaluate the newest checkpoint. With `decode=True`, also decode."""
        averages = self._average.variables if self._average else None
        checkpoints = checkpoint.restored(self.output_dir, self.model, averages)
        newest: Any = checkpoints.newest
        step = checkpoint_files.step_of(newest)
        train_loop.check_same_step(self.strategy, self.output_dir, step)
        if change := checkpoints.moving_average_note():
            print(change, flush=True)
        # After a signal, a single worker stops at the end of the current batch. Several workers
        # would have to agree on this batch. Therefore, several workers stop immediately. This loses
        # nothing, because an evaluation has no state to save.
        stop = distribution.CoordinatedStop(
            self.strategy, waits=distribution.num_workers(self.strategy) == 1
        )
        with stop, self._averaged_weights():
            evaluation = self._evaluate(step, make_eval_dataset, decode, stop)
        print(result_line({**evaluation.shown, "steps": step}), flush=True)
        self._summaries.close()
        return evaluation.results

    evaluate_and_decode = functools.partialmethod(evaluate, decode=True)

    def _restored_loop(self, make_epoch):
        """Restore the newest checkpoint, and return a `TrainLoop` that continues from it."""
        return train_loop.TrainLoop(
            self.model,
            self.optimizer,
            self.strategy,
            self.output_dir,
            self.settings,
            make_epoch,
            self._average,
            self._summaries,
            self.write_records,
        )

    def _check_metric(self, make_eval_dataset, decode):
        """Check that evaluations provide the metric of early stopping.

        Most names of results are known before an evaluation. If the metric is not among these
        names, one batch is evaluated and decoded. This costs little, because the compiled functions
        are needed later in any case. All workers must call this method.

        Raises:
            MetricError: if evaluations do not have the metric.
        """
        metric, names = self._early_stopping.metric, set(self.evaluator.names)
        if metric in names:
            return
        is_decoding = decode and self._is_chief
        dataset = make_eval_dataset().take(1)
        if not metric.startswith("decode/"):
            names.update(self.evaluator(dataset) or ())
        elif not is_decoding:
            return
        if is_decoding and metric not in names and self.free_decoder.can_decode(dataset):
            names.update(self.free_decoder(dataset)[0])
        self._early_stopping.check(names)

    def _next_evaluation(self, step):
        """Return the step of the first evaluation after `step`.

        Evaluations take place at multiples of `eval_every_steps`, even if an earlier run stopped
        between two multiples, and at the last step.
        """
        every = max(1, self.settings.eval_every_steps)
        return min(self.settings.train_steps, (step // every + 1) * every)

    def _should_stop_early(self):
        return distribution.from_chief(self.strategy, self._early_stopping.should_stop)

    def _is_unevaluated(self, step, decode):
        """Return whether the restored step must be evaluated before training continues."""
        settings = self.settings
        if step >= settings.train_steps:
            return True
        is_evaluation_step = step > 0 and step % max(1, settings.eval_every_steps) == 0
        is_due = is_evaluation_step and not self._summaries.is_evaluated(step, decode)
        return distribution.from_chief(self.strategy, is_due)

    # Methods for evaluation.

    def _evaluate_and_keep_best(self, loop, make_eval_dataset, decode):
        """Evaluate the averaged weights, and save them if they are the best so far."""
        with self._averaged_weights():
            evaluation = self._evaluate(loop.step, make_eval_dataset, decode, loop.stop, loop)
            if self._is_chief and self._early_stopping.add(loop.step, evaluation.results):
                save_best(self.output_dir, self.model, loop.step)
        return evaluation

    def _save_missing_best(self, step):
        """Save the best weights if an earlier run was killed just before it saved them.

        The best step can be an earlier step whose weights do not exist. Then a note is printed.
        This is the case if the earlier run followed another metric.
        """
        best_step = self._early_stopping.best_step
        if not self._is_chief or step == 0 or best_step is None:
            return
        newest = _newest_best(self.output_dir)
        saved_step = None if newest is None else checkpoint_files.step_of(newest)
        if best_step == saved_step:
            return
        if best_step == step:
            with self._averaged_weights():
                save_best(self.output_dir, self.model, step)
            return
        contains = "no weights" if newest is None else f"the weights of step {saved_step}"
        print(
            f"note: {os.path.join(self.output_dir, output_folder.BEST)} contains {contains}, "
            f"although step {best_step} has the best value of {self._early_stopping.metric}. It "
            "changes at the next evaluation with a better value.",
            flush=True,
        )

    def _averaged_weights(self):
        return self._average.applied_to_model() if self._average else contextlib.nullcontext()

    def _evaluate(self, step, make_eval_dataset, decode, stop, loop=None):
        """Evaluate, decode if `decode` is True, and record the results.

        Returns:
            `_Evaluation`.
        """
        dataset = make_eval_dataset()
        evaluated = self.evaluator(dataset, self.settings.eval_steps, stop.stops_evaluation)
        if loop:
            loop.wait_for_checkpoint()
        if evaluated is None:
            raise _interrupted_evaluation(stop, loop)
        self._summaries.write_evaluation(step, evaluated)
        is_language_model = not self.free_decoder.can_decode(dataset)
        omitted = _COMPARE_SEQUENCES if is_language_model else ()
        shown = {name: value for name, value in evaluated.items() if name not in omitted}
        print(f"evaluation at step {step}: {result_line(shown)}", flush=True)
        decoded = self._decode(step, make_eval_dataset, stop, loop) if decode else {}
        return _Evaluation({**evaluated, **decoded}, {**shown, **decoded})

    def _decode(self, step, make_eval_dataset, stop, loop):
        """Decode, print some samples, and record and return the results.

        The result is {} for a language model and on workers other than the chief.
        """
        if not self._is_chief:
            return {}
        dataset = (self.make_decode_dataset or make_eval_dataset)()
        if not self.free_decoder.can_decode(dataset):
            print("Skipping free decoding, because a language model has no inputs.", flush=True)
            return {}
        decoded = self.free_decoder(dataset, should_stop=stop.stops_evaluation)
        if decoded is None:
            raise _interrupted_evaluation(stop, loop)
        results, samples = decoded
        self._summaries.write_evaluation(step, results, kind="decode")
        for sample in samples:
            print(self.free_decoder.shown(sample), flush=True)
        return results


def _interrupted_evaluation(stop, loop):
    """Return the `Interrupted` error to raise after an evaluation ended early."""
    if loop:
        return loop.interrupted()
    return stop.stopped("stopped during the evaluation. Run the same command again.")


# Metrics of complete sequences, which are not informative for a language model. A language model
# makes an error in every sequence, so `accuracy_per_sequence` is 0. The other metrics are always
# high, because teacher forcing gives the model the correct tokens before each prediction. The
# result line omits all of these metrics, but the files of T2T and ut_keras contain them.
_COMPARE_SEQUENCES = (
    "accuracy_per_sequence",
    "approx_bleu_score",
    "rouge_2_fscore",
    "rouge_L_fscore",
)
_FIRST_METRICS = ("accuracy_per_sequence", "accuracy")


def result_line(results: Mapping[str, float]) -> str:
    """Return results as one line: `decode/accuracy=0.97 accuracy=0.99 loss=0.05 …`.

    The names are the same as in metrics.jsonl. Results of free decoding (`decode/…`) come first,
    followed by results of teacher forcing. A name with one slash is omitted unless it begins with
    `decode/`. A name with two slashes is always omitted.

    Args:
        results: dict from name to number.
    """
    decoded = [name for name in results if name.startswith("decode/") and name.count("/") == 1]
    rest = [name for name in results if "/" not in name]
    first = [f"decode/{name}" for name in _FIRST_METRICS] + [*decoded, *_FIRST_METRICS]
    names = dict.fromkeys(name for name in (*first, *rest) if name in results)
    return " ".join(f"{name}={_number(name, results[name])}" for name in names)


def _number(name, value):
    if name == "train_time":
        return f"{value:.0f}s"
    if name == "decode/num_samples":
        return f"{value:.0f}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _newest_best(output_dir):
    with contextlib.suppress(checkpoint.CheckpointError):
        return checkpoint_files.newest(os.path.join(output_dir, output_folder.BEST))
    return None


def check_best_folder(output_dir: str) -> None:
    """Check that only `save_best` has written to the subfolder "best" of a run.

    Raises:
        CheckpointError: if the subfolder contains a checkpoint of another run.
    """
    path = _newest_best(output_dir)
    is_best = True
    # A damaged checkpoint raises no error, because it is replaced later.
    with contextlib.suppress(checkpoint.CheckpointError):
        is_best = not path or checkpoint.contains_only_weights(path)
    if not is_best:
        raise checkpoint.CheckpointError(
            "OUTPUT_DIR/best must contain only the best weights of the run. "
            f"Received: {path!r}, a checkpoint of another run. It was not changed."
        )


def save_best(output_dir: str, model: keras.Model, step: int) -> None:
    """Save the weights of the best evaluation to the subfolder "best" of a run.

    The subfolder contains a single checkpoint that has only the evaluated weights. If there is a
    moving average, these weights are the averages. The checkpoint can be used for evaluation and
    decoding, but not to resume training. The previous checkpoint is removed when the new one is
    complete. If writing fails, for example on a full disk, the function prints a message and
    training continues.
    """
    directory = os.path.join(output_dir, output_folder.BEST)
    try:
        weights = tf.train.Checkpoint(model=checkpoint.model_variables(model))
        checkpoint_files.save(weights, directory, step, keep=1)
    except (tf.errors.OpError, OSError) as error:
        print(f"The best weights could not be saved to {directory}: {file_error.one_line(error)}")
