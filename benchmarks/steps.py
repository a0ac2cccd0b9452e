"""Evaluate a trained run with several numbers of recurrence steps.

    python benchmarks/steps.py --output_dir=run --data_dir=data --steps=1,2,4,8,16,32,64

For each number of steps, the command prints:

- the metrics of the split
- ponder_time, the mean number of steps per position, if the model has a halting rule
- the seconds of one pass over the data, measured after a warm-up batch

The command writes the same values to run/steps/metrics.jsonl, or to the folder --visualize_dir. In
this file, "step" is the number of steps. A model with learned step signals cannot take more steps
than in training. With step_timing_signal_type=sinusoid, any number of steps is possible.
"""

import json
import os
import re
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ut_keras.bin import command, command_line, decoder_setup, flags, trainer, trainer_setup
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.files import metrics_file, whole_file
from ut_keras.hparam_schema import limits

RUN_FLAGS = (
    *(flag for flag in flags.VISUALIZE if flag.name not in ("input", "steps")),
    *(flag for flag in flags.DECODER_OWN if flag.name == "eval_use_test_set"),
)
FLAGS = (
    *RUN_FLAGS,
    command_line.Flag("steps", "1,2,4,8", "Numbers of steps, separated by commas."),
    command_line.Flag("eval_steps", -1, "Number of batches to evaluate; with 0 or less, all."),
)


def main(argv=None):
    """Run the command and return the exit code."""
    return command.run(_run, argv)


def _run(argv):
    args = command_line.parse(FLAGS, argv, "benchmarks/steps.py", __doc__)
    command.import_user_package(args.t2t_usr_dir)
    steps = numbers(args.steps)
    run = decoder_setup.check_run(args)
    if not run.data_dir:
        raise UsageError(
            "--data_dir must be the folder with the data of the split. Received: none."
        )
    split = trainer_setup.eval_split(args, run.problem)
    directory = os.path.expanduser(args.visualize_dir or os.path.join(run.run_dir, "steps"))
    if checkpoint_files.exists(directory):
        raise UsageError(
            f"--visualize_dir must not be the folder of a run. Received: {directory!r}."
        )
    whole_file.check_writable(directory)
    # This call raises an error if metrics.jsonl is a file of the user.
    metrics_file.filter_records(directory, lambda record: True)
    command.load_tensorflow(run.run_dir)
    model, checkpoint = run.load_model()
    print(f"Weights: {checkpoint}", flush=True)
    results = by_steps(run, model, steps, split, args.eval_steps)
    os.makedirs(directory, exist_ok=True)
    path = metrics_file.path(directory)
    with whole_file.writing(path) as file:
        for number, values in results.items():
            file.write(json.dumps({"step": number, "split": split, **values}) + "\n")
    print(f"Wrote {path}")


def by_steps(run, model, numbers, split, eval_steps=-1):
    """Evaluate the model with each number of steps, and print the results.

    Returns:
        dict {number of steps: {metric: value}}.

    Raises:
        UsageError: if the model does not support a number of steps. All numbers are checked before
            the first evaluation.
    """
    try:
        views = {number: model.with_steps(number) for number in numbers}
    except ValueError as error:
        raise UsageError(f"--steps: {error}") from error
    dataset, results = run.problem.dataset(split, run.data_dir, run.hp), {}
    for number, view in views.items():
        evaluate = evaluator(run, view)
        evaluate(dataset, 1)
        started = time.perf_counter()
        values = evaluate(dataset, eval_steps)
        values = {name: value for name, value in values.items() if "/" not in name}
        results[number] = {**values, "seconds": time.perf_counter() - started}
        line = "  ".join(f"{name} {value:.4f}" for name, value in results[number].items())
        print(f"{number:4} steps  {line}", flush=True)
    return results


def evaluator(run, model):
    """Return the `Evaluator` of a run's problem."""
    import tensorflow as tf

    from ut_keras.training import evaluation

    return evaluation.Evaluator(
        model,
        tf.distribute.get_strategy(),
        trainer.metric_functions(run.problem),
        run.problem.feature_metrics(run.data_dir),
        run.problem.summarize,
    )


def numbers(text):
    """Return the sorted numbers of the flag --steps.

    Raises:
        UsageError: if the flag is not a list of valid numbers.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,4}", p) and 1 <= int(p) <= limits.MOST_STEPS for p in parts):
        raise UsageError(
            f"--steps must be numbers from 1 to {limits.MOST_STEPS}, separated by commas. "
            f"Received: {text!r}."
        )
    return sorted(set(map(int, parts)))


if __name__ == "__main__":
    sys.exit(main())
