r"""Train, evaluate and decode a model on a problem, with the flags of t2t-trainer.

    ut-trainer --generate_data --problem=algorithmic_reverse_binary40 \
      --model=universal_transformer --hparams_set=adaptive_universal_transformer_quick \
      --data_dir=data --output_dir=run --train_steps=2000

To resume a stopped run, give the same command again.
"""

# The folder of a run contains files that describe the run. `hparams.json` has the final hparams.
# `run.json` has the problem, the model and the random seed. `features.json` and the vocabularies
# define the text for each id.

import contextlib
import dataclasses
import functools
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from ut_keras import models
from ut_keras.bin import command, flags, trainer_setup, training_conditions, xla_choice
from ut_keras.bin.trainer_setup import Setup
from ut_keras.checkpoints import checkpoint_files
from ut_keras.errors import ENCODER_LENGTHS, DataError, UsageError
from ut_keras.hparam_schema import HParamError
from ut_keras.hparam_schema import changes as hparam_changes
from ut_keras.inference import decode_hparams, feature_record, run_directory, run_json
from ut_keras.text import text_encoder_base
from ut_keras.training import output_folder, rendezvous

# A Python program that runs this command as a trial of a search, even if ut_keras is not installed.
_TRIAL = (
    f"import sys; sys.path.append({str(pathlib.Path(__file__).parents[2])!r}); "
    "from ut_keras.bin import trainer; sys.exit(trainer.main())"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-trainer and return the exit code."""
    return command.run_with_flags(_main, flags.TRAINER, "ut-trainer", __doc__, argv)


def _main(args: command.Args) -> None:
    if args.hparams_range:
        from ut_keras.bin import tune

        tune.run(args, _TRIAL)
        return
    setup = trainer_setup.check(args)
    with output_folder.lock(args.output_dir) if setup.writes else contextlib.nullcontext():
        command.load_tensorflow("TensorFlow", args)
        if args.generate_data:
            setup.problem.generate_data(args.data_dir, args.tmp_dir)
        from ut_keras.training import distribution

        try:
            trainer, make_epoch, make_eval_dataset = make_trainer(setup)
            schedule = getattr(trainer, setup.schedule)
            schedule(make_epoch, make_eval_dataset)
        except distribution.LOST_WORKER_ERRORS as error:
            if setup.cluster is None:
                raise
            raise distribution.WorkerLost(
                "Lost the connection to another worker. Run the same command on all workers."
            ) from error


def make_trainer(setup: Setup) -> tuple[Any, Any, Any]:
    """Build the trainer and the functions that return its datasets.

    This function imports TensorFlow.

    Returns:
        (trainer, make_epoch, make_eval_dataset). `trainer` is a `Trainer`. Its schedules take the
        two functions as arguments.
    """
    import keras

    from ut_keras.training import distribution

    strategy = _strategy(setup)
    # Without --random_seed, each worker has sampled a seed. All workers use the chief's seed.
    setup = dataclasses.replace(setup, seed=distribution.from_chief(strategy, setup.seed))
    keras.utils.set_random_seed(setup.seed % 2**32)
    compilation = xla_choice.choose(setup)
    datasets = _datasets(setup, strategy, compilation)
    _check_data(setup, compilation, *datasets)
    return _trainer(setup, strategy, compilation), *datasets


def _strategy(setup):
    """Return the `tf.distribute.Strategy`, and check that the workers' settings agree."""
    import tensorflow as tf

    from ut_keras.training import distribution

    args = setup.args
    on_cpus = not tf.config.list_physical_devices("GPU")
    if args.xla_compile is True and setup.cluster and (args.worker_gpu > 1 or on_cpus):
        raise UsageError(
            "--xla_compile with several workers requires one GPU per worker. Received: "
            f"--worker_gpu={args.worker_gpu}{', workers on CPUs' if on_cpus else ''}."
        )
    tpu = args.cloud_tpu_name if args.use_tpu else None
    if setup.cluster is not None:
        fingerprint = training_conditions.worker_fingerprint(setup)
        fingerprints = rendezvous.exchange(setup.cluster, args.worker_wait_secs, fingerprint)
        rendezvous.check(fingerprints, setup.cluster.index)
    return distribution.get_strategy(args.worker_gpu, cluster=setup.cluster, tpu=tpu)


def _datasets(setup, strategy, compilation):
    """Return (make_epoch, make_eval_dataset), two functions that return datasets.

    The results of both functions are cached, because tracing a dataset takes longer than reading a
    small dataset.
    """
    is_global = setup.args.global_batch_size is not None
    num_replicas = 1 if is_global else strategy.num_replicas_in_sync

    problem = setup.problem
    reading = {"num_replicas": num_replicas, "static_shapes": compilation.static_shapes}
    training, evaluation = dict(reading), dict(reading)
    if compilation.most_shapes:
        training["most_shapes"] = compilation.most_shapes
        evaluation["static_shapes"] = False  # XLA does not compile the evaluation

    def seed_of_epoch(number):
        return (setup.seed * 1000003 + number) % 2**31

    @functools.lru_cache(maxsize=1)
    def make_epoch(number):
        where = setup.args.data_dir, setup.hp
        if problem.has_own_dataset:
            return problem.dataset("train", *where, seed=seed_of_epoch(number), **reading)
        return problem.training_batches(
            *where, lambda passed: seed_of_epoch(number + passed), **training
        )

    @functools.lru_cache(maxsize=1)
    def make_eval_dataset():
        return problem.dataset(setup.eval_split, setup.args.data_dir, setup.hp, **evaluation)

    return make_epoch, make_eval_dataset


def _check_data(setup, compilation, make_epoch, make_eval_dataset):
    """Check the data before the model is built.

    Raises:
        DataError: if the data cannot be read, or if their vocabulary differs from the vocabulary of
            the run.
    """
    if setup.trains:
        from ut_keras.training import curriculum

        epoch = make_epoch(0)
        if compilation.most_shapes:
            print(f"XLA compiles {epoch.merged}.", flush=True)
        if settings := _curriculum(setup.hp):
            curriculum.check(settings, epoch)
        _check_encoder_lengths(setup)
    if setup.schedule != "train":
        make_eval_dataset()
    _check_features(setup)


def _check_encoder_lengths(setup):
    """Check the lengths of ten training batches, for an encoder without a decoder.

    Such a model predicts one id for each input position. The graph of the update makes the same
    check, but only after its compilation.

    Raises:
        DataError: if the targets have another length than the inputs.
    """
    from ut_keras.models.transformer import TransformerEncoder

    problem, data_dir = setup.problem, setup.args.data_dir
    model_class = models.registered_class(setup.args.model)
    is_class = problem.feature_specs(data_dir)["targets"].modality == "class_label"
    if is_class or model_class.match_lengths is not TransformerEncoder.match_lengths:
        return
    for features, targets, *_ in problem.dataset("train", data_dir, setup.hp).take(10):
        if targets.shape[1] != features["inputs"].shape[1]:
            raise DataError(f"--model={setup.args.model} does not fit the data. {ENCODER_LENGTHS}")


def _check_features(setup):
    """Compare the data's features with those for which the weights were trained."""
    args = setup.args
    resumes = checkpoint_files.exists(args.output_dir)
    if not resumes and not (setup.trains and args.warm_start_from):
        return
    features = feature_record.from_problem(setup.problem, args.data_dir)
    if resumes:
        feature_record.check_same_features(args.output_dir, features)
        return
    path = os.path.expanduser(args.warm_start_from)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    _note_other_features(folder, features)
    _note_other_hparams(folder, setup.hp)


def _note_other_hparams(folder, hp):
    """Print a note if the first weights were trained with other hparams of the model.

    Weights of the same shape are copied, although the model may use them in another way. For
    example, the shapes do not depend on the number of heads.
    """
    try:
        before = run_directory.read_hparams(folder, run_json.read(folder))[1]
    except HParamError as error:
        print(f"note: the hparams of --warm_start_from cannot be compared: {error}", flush=True)
        return
    names = hparam_changes.differing_names(before, hp, inference_only=True) if before else []
    if names:
        values = ", ".join(
            f"{name}={getattr(before, name)!r}, not {getattr(hp, name)!r}" for name in names
        )
        print(f"note: --warm_start_from has weights that were trained with {values}", flush=True)


def _note_other_features(folder, features):
    """Print a note if the first weights were trained with other features.

    An embedding table of the same shape is copied, although its rows may belong to other entries of
    the vocabulary.
    """
    try:
        feature_record.check_same_features(folder, features)
    except DataError as error:
        print(f"note: --warm_start_from has weights for other features: {error}", flush=True)


def _trainer(setup, strategy, compilation):
    """Build the model, the optimizer and the `Trainer`."""
    from ut_keras import optimizers
    from ut_keras.optimizers import learning_rate
    from ut_keras.training import evaluation
    from ut_keras.training import trainer as trainer_lib

    args, problem, data_dir = setup.args, setup.problem, setup.args.data_dir
    with strategy.scope():
        if setup.trains:
            model = models.get(args.model, setup.hp, problem, data_dir)
        else:  # `models.get` would log notes that help to choose a model for training
            specs = problem.feature_specs(data_dir)
            model = models.from_specs(args.model, setup.hp, specs, problem.target_space_id)
        decode_hparams.check_depth(setup.decode, model)
        optimizer = None
        if setup.trains:
            # `optimizers.get(hp, train_steps)` would repeat the note on the warm-up.
            rate = learning_rate.from_hparams(setup.hp, args.train_steps)
            optimizer = optimizers.get(setup.hp, learning_rate=rate)
    num_replicas = strategy.num_replicas_in_sync
    evaluator = evaluation.Evaluator(
        model,
        strategy,
        metric_functions(problem),
        problem.feature_metrics(data_dir),
        problem.summarize,
    )
    return trainer_lib.Trainer(
        model,
        optimizer,
        strategy,
        args.output_dir,
        _train_settings(setup, compilation),
        evaluator,
        _free_decoder(setup, model, num_replicas),
        problem_name=problem.name,
        write_records=functools.partial(_write_records, setup, num_replicas),
        make_decode_dataset=_make_decode_dataset(setup),
    )


def _train_settings(setup, compilation):
    from ut_keras.training import train_settings

    args = setup.args
    return train_settings.TrainSettings(
        train_steps=args.train_steps,
        eval_steps=args.eval_steps,
        eval_every_steps=args.local_eval_frequency,
        eval_throttle_seconds=args.eval_throttle_seconds,
        save_every_seconds=args.save_checkpoints_secs,
        keep_checkpoints=args.keep_checkpoint_max,
        log_every_steps=args.log_step_count_steps,
        jit_compile=compilation.jit_compile,
        jit_fallback=compilation.jit_fallback,
        static_shapes=compilation.static_shapes,
        eval_split=setup.eval_split,
        early_stopping=setup.early_stopping,
        moving_average_decay=args.moving_average_decay,
        warm_start_from=args.warm_start_from,
        curriculum=_curriculum(setup.hp),
        profile_steps=setup.profile_steps,
    )


def _free_decoder(setup, model, num_replicas):
    from ut_keras.inference import free_decoding

    problem, data_dir = setup.problem, setup.args.data_dir
    encoders, specs = problem.feature_encoders(data_dir), problem.feature_specs(data_dir)

    def to_text(name, ids):
        is_class = specs[name].modality == "class_label"
        return text_encoder_base.to_text(encoders[name], ids, is_class)

    return free_decoding.FreeDecoder(
        model,
        setup.decode,
        to_text=to_text,
        score=problem.score_decoded,
        jit_compile=xla_choice.of_search(setup.args, num_replicas),
    )


def _make_decode_dataset(setup):
    """Return a function that makes the dataset for free decoding.

    As in T2T and in ut-decoder, `num_samples` selects the first examples of the files. An
    evaluation sorts the examples by length, so its first examples are not the first of the files.
    The return value is None if free decoding can use the dataset of the evaluation.
    """
    problem = setup.problem.for_decoding()
    has_num_samples = setup.decode["num_samples"] >= 0
    decodes_evaluated = problem is setup.problem and not has_num_samples
    if problem.has_own_dataset or decodes_evaluated:
        return None
    from ut_keras.inference import free_decoding

    @functools.lru_cache(maxsize=1)
    def make():
        hp = free_decoding.in_file_order(setup.hp) if has_num_samples else setup.hp
        return problem.dataset(setup.eval_split, setup.args.data_dir, hp)

    return make


def _curriculum(hp):
    """Return the `CurriculumSettings` from hparams, or None if there are none."""
    from ut_keras.training import curriculum

    if not hp.curriculum_start_length:
        return None
    mode = getattr(hp, "prepend_mode", "none")
    if mode != "none":
        raise UsageError(
            "curriculum_start_length must be 0 if prepend_mode joins inputs and targets. "
            f"Received: {hp.curriculum_start_length}, prepend_mode={mode}."
        )
    return curriculum.CurriculumSettings(
        hp.curriculum_start_length,
        hp.curriculum_length_step,
        hp.curriculum_accuracy,
        hp.curriculum_updates,
    )


def metric_functions(problem: Any) -> dict[str, Any]:
    """Return the problem's metrics that ut_keras supports, by name."""
    from ut_keras import metrics

    known = set(metrics.names())
    missing = [name for name in problem.eval_metrics if name not in known]
    if missing:
        print(f"note: skipping unsupported metrics: {', '.join(missing)}", flush=True)
    return {name: metrics.get(name) for name in problem.eval_metrics if name in known}


def _write_records(setup, num_replicas):
    """Write the files that describe the run, and print the conditions that changed."""
    conditions = training_conditions.describe(setup, num_replicas)
    before = run_json.read(setup.args.output_dir)
    if checkpoint_files.exists(setup.args.output_dir):
        for line in training_conditions.changes(before, conditions, setup):
            print(line, flush=True)
    # The hparams come from hparams.json unless --hparams_set names another set. If they come from
    # hparams.json, the new record keeps the set's name and the overrides of the old record.
    is_of_run = setup.args.hparams_set in (None, before.get("hparams_set"))
    named = before if is_of_run else vars(setup.args)
    directories = [setup.args.output_dir]
    # If the folder of the best weights has these records, it can be used as a run.
    if setup.schedule != "train":
        directories.append(os.path.join(setup.args.output_dir, output_folder.BEST))
    features = feature_record.from_problem(setup.problem, setup.args.data_dir)
    for directory in directories:
        os.makedirs(directory, exist_ok=True)
        output_folder.write_records(
            directory,
            setup.hp,
            features,
            problem=setup.problem.name,
            model=setup.args.model,
            hparams_set=named.get("hparams_set"),
            hparams=setup.args.hparams or named.get("hparams", ""),
            random_seed=setup.seed,
            trained_with=conditions,
        )


if __name__ == "__main__":
    sys.exit(main())
