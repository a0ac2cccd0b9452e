"""Trains, evaluates and decodes a model on a problem, with the flags of t2t-trainer.

    python trainer.py --generate_data --problem=algorithmic_reverse_binary40 \\
      --model=universal_transformer --hparams_set=adaptive_universal_transformer_tiny \\
      --data_dir=data --output_dir=run --train_steps=2000

Running the same command again goes on where the last run stopped.
"""

import contextlib
import pathlib
import sys

from ut_keras.bin import command, flags

# The program of a trial of a search: this, whether it is installed or not.
_TRIAL = (
    f"import sys; sys.path.append({str(pathlib.Path(__file__).parents[2])!r}); "
    "from ut_keras.bin import trainer; sys.exit(trainer.main())"
)


@command.of(flags.TRAINER, "trainer.py", __doc__)
def main(args: command.Args) -> None:
    if args.hparams_range:
        from ut_keras.bin import tune

        tune.run(args, _TRIAL)
        return
    from ut_keras.bin import run_setup, run_trainer
    from ut_keras.training import run_folder

    setup = run_setup.check(args)
    with run_folder.lock(setup.output_dir) if setup.writes else contextlib.nullcontext():
        command.load_tensorflow("TensorFlow")
        run_trainer.configure_tensorflow(args)
        if args.generate_data:
            setup.problem.generate_data(setup.data_dir, setup.tmp_dir)
        trainer, make_epoch, make_eval_dataset = run_trainer.make_trainer(setup)
        schedule = getattr(trainer, setup.schedule)
        schedule(make_epoch, make_eval_dataset)


if __name__ == "__main__":
    sys.exit(main())
