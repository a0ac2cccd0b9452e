"""Compare the evaluation time of trained runs of one problem, such as halting rules.

    python benchmarks/halting_rules.py --data_dir=data --eval_use_test_set \\
        fixed/best act/best act/best:act_halted_state=copy

A run is given by its folder, optionally followed by a colon and hparams to change. All runs
evaluate the same split, in turn and in random order. "share" is the CPU time of a run divided by
the CPU time of the first run. It is the median over the rounds. The other values are the metrics of
the evaluation.

`ponder_time` is the mean number of steps of a position. With T2T's `act_halted_state=transform`,
all positions are computed until the last position has halted. With `copy`, only the positions that
have not halted are computed.
"""

import random
import statistics
import sys
import time

import steps
import train_step

from ut_keras.bin import command, command_line, decoder_setup, trainer_setup
from ut_keras.errors import UsageError

FLAGS = (
    *steps.RUN_FLAGS,
    command_line.Flag("eval_steps", -1, "Number of batches to evaluate; with 0 or less, all."),
    command_line.Flag("rounds", 5, "Number of rounds; each run is evaluated once per round."),
)


def main(argv=None):
    """Run the command and return the exit code."""
    return command.run(_run, argv)


def _run(argv):
    argv = sys.argv[1:] if argv is None else argv
    flags = [word for word in argv if word.startswith("-")]
    names = [word for word in argv if not word.startswith("-")]
    if len(names) < 2:
        raise UsageError(
            f"At least two runs, FOLDER or FOLDER:HPARAMS, must be given. Received: {names}."
        )
    runs = [_parse_run(name, flags) for name in names]
    for run, args in runs:
        if run.problem.name != runs[0][0].problem.name:
            raise UsageError(
                f"All runs must have the same problem. Received: {runs[0][0].problem.name} and "
                f"{run.problem.name} in {args.output_dir}."
            )
    run, args = runs[0]
    split = trainer_setup.eval_split(args, run.problem)
    command.load_tensorflow()
    data = run.problem.dataset(split, run.data_dir, run.hp)
    data = (data.take(args.eval_steps) if args.eval_steps > 0 else data).cache()
    evaluators = [steps.evaluator(run, run.load_model()[0]) for run, _ in runs]
    seconds, results = [[] for _ in names], [None] * len(names)
    for round_number in range(args.rounds + 1):
        for index in random.sample(range(len(names)), len(names)):
            started = time.process_time()
            results[index] = evaluators[index](data)
            if round_number:  # round 0 includes compilation and is not measured
                seconds[index].append(time.process_time() - started)
    print(f"machine: {train_step.cpu_name()}")
    for name, values, times in zip(names, results, seconds, strict=True):
        share = statistics.median(a / b for a, b in zip(times, seconds[0], strict=True))
        shown = "  ".join(
            f"{metric} {value:.3f}" for metric, value in values.items() if "/" not in metric
        )
        print(f"share {share:.2f}  CPU seconds {statistics.median(times):.3f}  {shown}  {name}")


def _parse_run(name, flags):
    folder, _, hparams = name.partition(":")
    args = command_line.parse(
        FLAGS, [*flags, f"--output_dir={folder}", f"--hparams={hparams}"], sys.argv[0], __doc__
    )
    command.import_user_package(args.t2t_usr_dir)
    run = decoder_setup.check_run(args)
    if not run.data_dir:
        raise UsageError(
            "--data_dir must be the folder with the data of the split. Received: none."
        )
    if args.rounds < 1:
        raise UsageError(f"--rounds must be at least 1. Received: {args.rounds}.")
    return run, args


if __name__ == "__main__":
    sys.exit(main())
