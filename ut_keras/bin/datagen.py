"""ut-datagen: generate the data of problems and inspect them.

    ut-datagen --problem=translate_ende_wmt32k --data_dir=data --tmp_dir=raw --inspect=3
    ut-datagen --problem='algorithmic_*,tiny_algo' --exclude_problems=nlplike --data_dir=data

A second call only writes missing files. Several machines can share the work. Each file is a task
with a number, which --only_list prints. With --task_id=7, the command writes one file. With
--task_id_start=0 --task_id_end=8, it writes the files 0 to 7.
"""

import fnmatch
import os
import sys
from collections.abc import Sequence

from ut_keras.bin import command, command_line, flags
from ut_keras.errors import UsageError
from ut_keras.files import json_file

_MAX_LENGTH = 256  # the value of the hparam max_length for T2T's Transformer


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-datagen and return the exit code."""
    return command.run_with_flags(_main, flags.DATAGEN, "ut-datagen", __doc__, argv)


def _main(args: command.Args) -> None:
    command_line.require(args, "problem", what=command_line.REGISTERED_NAME)
    from ut_keras import problems

    chosen = [problems.get(name) for name in _selected_names(args, problems.names())]
    if args.only_list:
        for problem in chosen:
            print(_task_line(problem, args.tmp_dir))
        return
    command_line.require(args, "data_dir", what="the folder to write to")
    if os.path.lexists(args.data_dir) and not os.path.isdir(args.data_dir):
        raise UsageError(f"--data_dir must be a folder. Received: {args.data_dir!r}, a file.")
    tasks = _tasks(args)
    command.load_tensorflow()
    for problem in chosen:
        how = (args.random_seed, tasks, args.num_concurrent_processes, args.max_cases or None)
        problem.generate_data(args.data_dir, args.tmp_dir, *how)
        for one in getattr(problem, "tasks", [problem]) if args.inspect else ():
            _inspect(one, args.data_dir, args.inspect)


def _selected_names(args, known):
    """Return the names that --problem and --exclude_problems select, sorted.

    Each part of --problem is a name or a pattern. As in T2T, a name is excluded if it contains any
    part of --exclude_problems. Unknown names are kept, and the caller reports them.
    """
    chosen = set()
    for part in filter(None, args.problem.split(",")):
        chosen.update(fnmatch.filter(known, part) if "*" in part else [part])
    excluded = list(filter(None, args.exclude_problems.split(",")))
    names = sorted(name for name in chosen if not any(part in name for part in excluded))
    if not names:
        raise UsageError(
            "--problem and --exclude_problems must select a problem; --registry_help lists the "
            f"names. Received: --problem={args.problem} --exclude_problems={args.exclude_problems}."
        )
    return names


def _tasks(args):
    """Return the requested task numbers, or None if all tasks are requested."""
    start, end = args.task_id_start, args.task_id_end
    if start < 0 and end < 0:
        return None if args.task_id < 0 else [args.task_id]
    if args.task_id < 0 and 0 <= start < end:
        return range(start, end)
    raise UsageError(
        "The tasks must be --task_id, or --task_id_start and a larger --task_id_end. Received: "
        f"--task_id={args.task_id} --task_id_start={start} --task_id_end={end}."
    )


def _task_line(problem, tmp_dir):
    """Return the line of --only_list for a problem: the splits and their task numbers."""
    parts, first = [], 0
    for split, number in problem.shards_to_generate(tmp_dir).items():
        last = first + number - 1
        parts.append(f"{split} ({first}-{last})" if last > first else f"{split} ({first})")
        first = last + 1
    return f"{problem.name}: {', '.join(parts)}"


def _inspect(problem, data_dir, count):
    """Print sample records and statistics of every split that has data."""
    from ut_keras.data import tfrecords
    from ut_keras.data.reading import inspection
    from ut_keras.data.writing import generation_plan

    # This command has no hparams. If a problem needs hparams to preprocess records, the records are
    # shown as they are stored.
    is_stored = problem.preprocess_needs_hparams
    if is_stored:
        print(f"note: the records are shown before preprocess_example of {problem.name}")
    for split in ("train", "dev", "test"):
        if not tfrecords.is_complete(data_dir, problem.filename, split):
            continue
        print(f"\n{problem.name}, {split}")
        encoders, specs = problem.feature_encoders(data_dir), problem.feature_specs(data_dir)
        print(
            inspection.report(
                tfrecords.find(data_dir, problem.filename, split),
                problem.record_specs(data_dir),
                {name: encoders[name] for name in encoders if name in specs},
                getattr(problem, "rearranged", None) if is_stored else problem.preprocess,
                problem.max_length or _MAX_LENGTH,
                training=split == "train",
                num_shown=count,
            )
        )
        path = generation_plan.origin_path(data_dir, problem.filename, split)
        origin = json_file.read_own(path, generation_plan.KEYS) or {}
        for reason, number in origin.get("left_out", {}).items():
            print(f"skipped {number:,} examples: {reason}")


if __name__ == "__main__":
    sys.exit(main())
