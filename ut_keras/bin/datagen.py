"""ut-datagen: writes the data of a problem.

ut-datagen --problem=algorithmic_reverse_binary40 --data_dir=data --tmp_dir=raw
"""

import os
import sys

from ut_keras.bin import command, flags


def main(argv=None):
    """Runs the command; returns the exit code."""
    return command.run(_run, argv)


def _run(argv):
    args = flags.parse(flags.DATAGEN, argv, "ut-datagen", __doc__)
    command.import_user_package(args.t2t_usr_dir)
    if args.registry_help:
        print(command.registry_help())
        return
    if not args.problem:
        raise flags.UsageError("--problem must be given. --registry_help lists the names.")
    import problems

    problem = problems.get(args.problem)
    if args.only_list:
        print(f"{problem.name}: {', '.join(problem.splits)}")
        return
    if not args.data_dir:
        raise flags.UsageError("--data_dir must be given: the folder to write to.")
    problem.generate_data(
        os.path.expanduser(args.data_dir), os.path.expanduser(args.tmp_dir), args.random_seed
    )


if __name__ == "__main__":
    sys.exit(main())
