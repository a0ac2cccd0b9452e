"""ut-import-t2t: convert a Tensor2Tensor run into a ut_keras run.

    ut-import-t2t --t2t_output_dir=t2t_run --data_dir=t2t_data --output_dir=run

The command reads hparams.json and the newest checkpoint in --t2t_output_dir. It converts the
weights, the step and the optimizer statistics. The names of the problem and the model come from
T2T's flags_t2t.txt, unless --problem and --model are given. Afterwards, `ut-trainer
--output_dir=run` with the same problem and model can evaluate the run or resume its training.
"""

import os
import secrets
import shlex
import sys
from collections.abc import Sequence

from ut_keras import hparam_schema, models
from ut_keras.bin import command, command_line, flags, trainer_setup
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import UsageError
from ut_keras.files import file_error, json_file
from ut_keras.hparam_schema import changes as hparam_changes
from ut_keras.hparam_schema import older_universal
from ut_keras.inference import feature_record
from ut_keras.training import output_folder


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-import-t2t and return the exit code."""
    return command.run_with_flags(_main, flags.IMPORT_T2T, "ut-import-t2t", __doc__, argv)


def _main(args: command.Args) -> None:
    from ut_keras import problems

    trainer_setup.check_names(args)
    source, output_dir, data_dir = args.t2t_output_dir, args.output_dir, args.data_dir
    _check_folders(args)
    t2t_flags = read_t2t_flags(source)
    problem = problems.get(_name("problem", args, t2t_flags))
    model_name = older_universal.current_model_name(_name("model", args, t2t_flags))
    models.check_name(model_name)
    # hparams.json is checked before TensorFlow is loaded, so that errors appear early.
    _check_hparams(os.path.join(source, "hparams.json"), model_name)
    specs = problem.feature_specs(data_dir)
    noted = t2t_flags.get("random_seed", "")
    seed = int(noted) if noted.isdecimal() else secrets.randbelow(2**31)

    with output_folder.lock(output_dir):
        # The folder is checked again, because no other process can write to it now.
        _check_is_free(output_dir)
        output_folder.check(output_dir)
        model, optimizer, step = _load(source, model_name, problem.target_space_id, seed)
        _check_vocabulary(specs, model, problem.name, data_dir)
        # The checkpoint is written before the JSON files. If the JSON files were written first and
        # this process was then killed, ut-trainer would start from new weights.
        path = _write(model, optimizer, output_dir)
        output_folder.write_records(
            output_dir,
            model.hparams,
            feature_record.from_problem(problem, data_dir),
            problem=problem.name,
            model=model_name,
            hparams_set=t2t_flags.get("hparams_set"),
            hparams=t2t_flags.get("hparams", ""),
            random_seed=seed,
            trained_with={"hparams": hparam_changes.non_defaults(model.hparams)},
        )
    print(f"Wrote {path} (step {step}), hparams.json and run.json. To resume training:")
    names = {"problem": problem.name, "model": model_name, "t2t_usr_dir": args.t2t_usr_dir}
    names |= {"data_dir": data_dir, "output_dir": output_dir}
    words = shlex.join(f"--{name}={value}" for name, value in names.items() if value)
    print(f"  ut-trainer {words} --train_steps=…")


def read_t2t_flags(directory: str) -> dict[str, str]:
    """Return the flags in flags.txt and flags_t2t.txt as a dict from name to text.

    T2T writes these files.
    """
    values = {}
    for filename in ("flags.txt", "flags_t2t.txt"):
        path = os.path.join(directory, filename)
        if not os.path.exists(path):
            continue
        file_error.check_is_file(path)
        with (
            file_error.named(path),
            open(path, encoding="utf-8", errors="replace", newline="\n") as file,
        ):
            for line in file:
                name, equals, value = line.strip().removeprefix("--").partition("=")
                if equals and value != "None":
                    values[name] = value
    return values


def _check_folders(args):
    command_line.require(args, "t2t_output_dir", "data_dir", "output_dir", what="a folder")
    source, output_dir = args.t2t_output_dir, args.output_dir
    for name in ("t2t_output_dir", "data_dir"):
        if not os.path.isdir(folder := getattr(args, name)):
            raise UsageError(
                f"--{name} must be a folder. Received: {folder!r}, which is not a folder."
            )
    for filename in ("hparams.json", "checkpoint"):
        if not os.path.exists(os.path.join(source, filename)):
            listing = ", ".join(sorted(os.listdir(source))[:5]) or "nothing"
            raise UsageError(
                "--t2t_output_dir must contain the files that t2t-trainer writes: hparams.json, "
                f"checkpoint and model.ckpt-*. Received: {source!r} without {filename} (it "
                f"contains {listing})."
            )
    _check_is_free(output_dir)


def _check_hparams(path, model_name):
    values = json_file.read(path, hparam_schema.HParamError)
    try:
        hparam_schema.from_dict(hparam_schema.for_t2t_model(model_name, values))
    except hparam_schema.HParamError as error:
        raise hparam_schema.HParamError(f"{path}: {error}") from error


def _check_is_free(output_dir):
    if checkpoint_files.exists(output_dir):
        raise UsageError(
            "--output_dir must be a folder without a run. "
            f"Received: {output_dir!r}, which has a checkpoint."
        )
    output_folder.check_location(output_dir)


def _name(flag, args, t2t_flags):
    name = getattr(args, flag) or t2t_flags.get(flag)
    if not name:
        raise UsageError(
            f"--{flag} is required because --t2t_output_dir contains no flags_t2t.txt with this "
            "flag. --registry_help lists the names."
        )
    return name


def _load(source, model_name, target_space_id, seed):
    """Load the newest checkpoint and return (model, optimizer, step)."""
    command.load_tensorflow("TensorFlow")
    import keras
    import tensorflow as tf

    from ut_keras import optimizers, t2t_import
    from ut_keras.optimizers import learning_rate
    from ut_keras.t2t import slots

    checkpoint_files.state(source)
    keras.utils.set_random_seed(seed)
    try:
        path = t2t_import.newest_checkpoint(source)
        if path is None:
            raise ValueError("the file checkpoint must name a checkpoint in this folder.")
        names = [name for name, _ in tf.train.list_variables(path)]
        if "global_step" not in names:
            raise ValueError(
                "the newest checkpoint must contain global_step, the number of updates."
            )
        model = t2t_import.load_checkpoint(source, model_name, target_space_id)
        # The checkpoint will contain the optimizer's statistics but not the learning rate, so any
        # schedule can be used here. The schedule below does not need train_steps, which is unknown.
        rate = learning_rate.endless(model.hparams)
        optimizer = optimizers.get(model.hparams, learning_rate=rate)
        step = slots.load_optimizer(source, model, optimizer)
    # For a damaged checkpoint file, TensorFlow raises OpError, IndexError or RuntimeError.
    except (ValueError, tf.errors.OpError, IndexError, RuntimeError) as error:
        message = str(getattr(error, "message", error))
        raise UsageError(f"The run in {source} cannot be imported: {message}") from error
    statistics = sum(name.startswith("training/") for name in names)
    print(
        f"Read {model_name} at step {step}: {model.count_params():,} weights; "
        + (
            f"{statistics} statistics of the optimizer {model.hparams.optimizer}."
            if statistics
            else "no optimizer statistics, so the optimizer starts with zero statistics."
        )
    )
    return model, optimizer, step


def _check_vocabulary(specs, model, problem_name, data_dir):
    there = {name: spec.vocab_size for name, spec in model.specs.items()}
    here = {name: spec.vocab_size for name, spec in specs.items()}
    if there != here:
        raise UsageError(
            f"The features of {problem_name} in {data_dir}, with their vocabulary sizes, must be "
            f"the same as in the checkpoint: {there}. Received: {here}."
        )


def _write(model, optimizer, output_dir):
    import tensorflow as tf

    from ut_keras.checkpoints import checkpoint

    # T2T does not store how much of an epoch was used, so training starts with a new epoch.
    position = {name: tf.Variable(0, dtype=tf.int64) for name in ("epoch", "batch")}
    return checkpoint.Checkpoints(output_dir, model, optimizer, position).save()


if __name__ == "__main__":
    sys.exit(main())
