"""Checks the flags of ut-decoder as far as possible without TensorFlow.

    setup = check(args)              checks the names, the run, the files and the decode hparams
    run = check_run(args)            checks what every command with a trained model needs
    model, path = run.load_model()   loads the weights

The run is the folder --output_dir, or the folder of --checkpoint_path. Its hparams.json and
run.json define the model.
"""

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras import hparam_schema, problems
from ut_keras.bin import command_line, trainer_setup
from ut_keras.checkpoints import checkpoint_files
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import UsageError
from ut_keras.files import file_error, whole_file
from ut_keras.hparam_schema import overrides as hparam_overrides
from ut_keras.inference import (
    decode_hparams,
    decode_job,
    feature_record,
    journal,
    run_directory,
    run_json,
)
from ut_keras.registry import UnknownNameError
from ut_keras.text import sacre_bleu

FILE, SCORE, INTERACTIVE, SPLIT = "decode_from_file", "score_file", "decode_interactive", "split"


@dataclasses.dataclass(frozen=True)
class SelectedRun(run_directory.Run):
    """The run and the checkpoint that the checked flags select."""

    args: Any  # the flags
    problem: Any  # `Problem`
    data_dir: str  # "" if the vocabulary is in the run's folder
    record: dict  # the content of run.json


@dataclasses.dataclass(frozen=True)
class Setup(SelectedRun):
    """The checked flags of ut-decoder."""

    mode: str  # `FILE`, `SCORE`, `INTERACTIVE` or `SPLIT`
    source: str | None  # the file to read
    target: str | None  # the file to write
    split: str  # the split to decode in mode `SPLIT`, otherwise ""
    values: dict  # decode hparams
    # If --keep_timestamp is given, the time of the checkpoint. The checkpoint may be deleted during
    # decoding, so its time is read early.
    timestamp: float | None


def check(args: argparse.Namespace) -> Setup:
    """Check that the flags fit each other, the run, the registries and the files.

    Raises:
        UsageError, UnknownNameError, HParamError, DataError, OSError: with a one-line message.
    """
    mode = _mode(args)
    trainer_setup.check_names(args)  # a misspelt name is reported before a missing flag
    _check_has_run(args, f"--{FILE}=FILE, --{INTERACTIVE}, or --data_dir=FOLDER of a split")
    if mode == SPLIT:
        command_line.require(args, "data_dir", what="the folder with the data of the split")
    run = check_run(args)
    values = decode_hparams.parse(args.decode_hparams, decode_hparams.DECODER)
    if args.random_seed is not None and values["sampling_temp"] and values["seed"] < 0:
        values["seed"] = args.random_seed
    _check_fits(mode, run.problem, run.specs, values)
    check_xla(args.xla_compile, run.specs, mode)
    if mode == SPLIT:
        run.problem.check_scores()
    elif args.decode_reference:
        task = values["multiproblem_task_id"]
        sacre_bleu.metric(language=target_language(run.problem, run.specs, task))
    hparams_set = args.hparams_set or run.record.get("hparams_set")
    source, target = _files(args, mode, (run.model_name, hparams_set, run.problem.name), values)
    # As in T2T, a classifier does not need a search, but the name of its output file contains the
    # number of beams in --decode_hparams.
    if run.specs["targets"].modality == "class_label":
        values = {**values, "beam_size": 1}
    return Setup(
        **vars(run),
        mode=mode,
        source=source,
        target=target,
        split=trainer_setup.eval_split(args, run.problem) if mode == SPLIT else "",
        values=values,
        timestamp=os.path.getmtime(f"{run.checkpoint}.index") if args.keep_timestamp else None,
    )


def target_language(problem: Any, specs: Mapping[str, Any], task_id: int = -1) -> str:
    """Return the target language of a problem or of its task, or "" if unknown."""
    if task_id >= 0 and hasattr(problem, "task_of"):
        problem = problem.task_of(task_id, specs["targets"].vocab_size)
    return problem.feature_languages().get("targets", "") if problem else ""


def prefix_note(
    problem: Any, name: str, texts: Sequence[str] | None = None, reader: str = "ut-decoder"
) -> str:
    """Return a note if texts lack the prefix that training adds to a feature, or "".

    Args:
        problem: `Problem`, or None for an unknown problem.
        name: str. The feature, "inputs" or "targets".
        texts: list of str. None means that the texts are not known.
        reader: str. What reads the texts, for the note.
    """
    prefix = problem.text_prefix(name) if problem else ""
    count = ""
    if texts is not None:
        texts = [text.strip() for text in texts]
        lacking = sum(bool(text) and not text.startswith(prefix) for text in texts)
        prefix = prefix if lacking else ""
        count = f"{lacking:,} {'line does' if lacking == 1 else 'lines do'} not begin with it. "
    if not prefix:
        return ""
    return (
        f"data generation of {problem.name} adds {prefix!r} to each text of the {name}. {count}"
        f"As in T2T, {reader} does not add it."
    )


def check_run(args: argparse.Namespace) -> SelectedRun:
    """Check the flags that select a run, for every command that loads a trained model.

    Raises:
        UsageError, UnknownNameError, HParamError, DataError, OSError: in the same cases as `check`.
    """
    trainer_setup.check_names(args)
    run_dir, checkpoint = _run(args)
    folders = [run_dir]
    if checkpoint and os.path.dirname(checkpoint) != run_dir:
        folders.append(os.path.dirname(checkpoint))
    records = [run_json.read(folder) for folder in folders]
    name = _name("problem", args, records, run_dir)
    problem = _problem(name, args, run_dir)
    model_name = _name("model", args, records, run_dir)
    run_directory.check_model_name(model_name)
    given = hparam_overrides.parse(args.hparams)
    hp, saved = trainer_setup.final_hparams(
        args.hparams_set, given, run_dir, records[0], trains=False
    )
    hp.check_supported(training=False)
    if saved is not None:
        hparam_schema.check_same_architecture(saved, hp)
        trainer_setup.print_hparam_changes(saved, hp, run_dir, inference_only=True)
    problem = problem.with_hparams(hp)
    data_dir = args.data_dir or ""
    features = _features(problem, data_dir, folders)
    for note in run_directory.checkpoint_notes(run_dir, checkpoint, hp, features):
        print(note, flush=True)
    run = run_directory.Run(run_dir, checkpoint, model_name, hp, *features)
    return SelectedRun(
        **vars(run), args=args, problem=problem, data_dir=data_dir, record=records[0]
    )


def _features(problem, data_dir, folders):
    """Return the `FeatureRecord` from the problem's data or from the run's folder."""
    if data_dir and not os.path.isdir(data_dir):
        raise UsageError(
            f"--data_dir must be a folder. Received: {data_dir!r}, which is not a folder."
        )
    if data_dir:
        return run_directory.problem_features(problem, data_dir, folders)
    kept = run_directory.saved_features(folders)
    if kept is None:
        has = any(os.path.exists(os.path.join(f, feature_record.FILENAME)) for f in folders)
        raise UsageError(
            "--data_dir is required because the run's folder has no vocabulary: give the folder "
            f"that has it. Received: {folders[0]!r}, without "
            f"{'all encoders' if has else 'a features.json'}."
        )
    return kept


def _mode(args):
    given = [mode for mode in (FILE, SCORE, INTERACTIVE) if getattr(args, mode)]
    if len(given) > 1:
        names = " and ".join(f"--{mode}" for mode in given)
        raise UsageError(
            f"Only one of --{FILE}, --{SCORE} and --{INTERACTIVE} can be given. Received: {names}."
        )
    return given[0] if given else SPLIT


def _run(args):
    """Return the folder of the run, and the path of the checkpoint or None."""
    _check_has_run(args)
    checkpoint: Any = None
    if args.checkpoint_path:
        checkpoint = args.checkpoint_path.removesuffix(".index")
        if not os.path.exists(f"{checkpoint}.index"):
            raise UsageError(
                "--checkpoint_path must be a checkpoint, such as run/model.ckpt-1000. "
                f"Received: {args.checkpoint_path!r}, but {checkpoint}.index does not exist."
            )
    if not args.output_dir:
        return os.path.dirname(checkpoint), checkpoint
    if checkpoint is None and not checkpoint_files.exists(args.output_dir):
        what = "does not exist"
        if os.path.exists(args.output_dir):
            runs = run_directory.runs_in(args.output_dir, with_checkpoint=True)
            what = runs or "has no checkpoint"
        raise UsageError(
            "--output_dir must be the folder of a run with a checkpoint; ut-trainer writes one. "
            f"Received: {args.output_dir!r}, which {what}."
        )
    return args.output_dir, checkpoint


def _check_has_run(args, others=""):
    if not args.output_dir and not args.checkpoint_path:
        raise UsageError(
            "--output_dir or --checkpoint_path is required: the folder of a run, or its weights"
            f"{others and ', with '}{others}."
        )


def _name(flag, args, records, run_dir):
    """Return the name of the problem or model.

    The name comes from the flag, or from the run's record if the flag is not given.
    """
    given = getattr(args, flag)
    noted = [record[flag] for record in records if record.get(flag)]
    if not given and not noted:
        raise UsageError(
            f"--{flag} is required because no run.json in {run_dir!r} names it. "
            "--registry_help lists the names."
        )
    for name in noted:
        # A run that was trained on packed examples is decoded with unpacked examples.
        if name.removesuffix("_packed") != (given or noted[0]).removesuffix("_packed"):
            trainer_setup.check_renamed(flag, name, given or noted[0], args.t2t_usr_dir, run_dir)
    return given or noted[0]


def _problem(name, args, run_dir):
    """Return the problem with the name `name`.

    If the name is unknown and comes from run.json, the error says so.
    """
    try:
        return problems.get(name)
    except UnknownNameError as error:
        if args.problem:
            raise
        message = f"{error} run.json in {run_dir!r} contains this name."
        if args.t2t_usr_dir and type(error) is UnknownNameError:
            message += (
                " If --t2t_usr_dir now has this problem under a new name, pass --problem=NEW."
            )
        raise type(error)(message) from error


def _check_fits(mode, problem, specs, values):
    """Raise `UsageError` if models of this problem do not support the requested mode."""
    modality = specs["targets"].modality
    if mode == SCORE and modality == "class_label":
        raise UsageError(
            "--score_file requires a problem whose targets are tokens. "
            f"Received: {problem.name}, whose targets are class labels."
        )
    if mode == SPLIT and "inputs" not in specs:
        raise UsageError(
            f"{problem.name} has no inputs to decode; give prompts with --decode_from_file or "
            "--decode_interactive."
        )
    if mode != SPLIT and "inputs" in specs and specs["inputs"].modality != "symbol":
        raise UsageError(
            f"--{mode} requires a problem whose inputs are text. Received: {problem.name}, whose "
            f"inputs are {specs['inputs'].modality}; without --{mode}, the command decodes the "
            f"{'/'.join(problem.splits[1:])} split."
        )
    task = values["multiproblem_task_id"]
    vocab_size = specs["targets"].vocab_size
    if task >= 0 and (mode != FILE or "inputs" in specs or task >= vocab_size):
        raise UsageError(
            "The decode hparam multiproblem_task_id requires --decode_from_file and a "
            f"MultiProblem, and must be below {vocab_size}. Received: {task}, for {problem.name}."
        )
    if mode in (SPLIT, SCORE) and values["max_input_size"] > 0:
        raise UsageError(
            "The decode hparam max_input_size requires --decode_from_file or "
            f"--decode_interactive. Received: max_input_size={values['max_input_size']}."
        )
    if modality != "class_label" and mode != SCORE:
        decode_hparams.check_fits(values, vocab_size)


def check_xla(xla_compile: bool | str, specs: Mapping[str, FeatureSpec], mode: str = "") -> None:
    """Raise `UsageError` if --xla_compile is given and XLA cannot compile the search.

    Args:
        xla_compile: the value of the flag.
        specs: dict from feature name to `FeatureSpec`.
        mode: what is decoded. `SCORE` needs no search.
    """
    reason = ""
    if specs["targets"].modality == "class_label":
        reason = "a classifier"
    elif "inputs" not in specs and mode != SCORE:
        reason = "a language model"
    if xla_compile is True and reason:
        raise UsageError(
            "--xla_compile requires a search that XLA can compile. "
            f"Received: --xla_compile with {reason}."
        )


def _files(args, mode, names, values):
    """Return the file to read and the file to write. Each of them may be None."""
    source: Any = {FILE: args.decode_from_file, SCORE: args.score_file}.get(mode)
    target = args.decode_to_file
    if source and not os.path.isfile(source):
        raise UsageError(f"--{mode} must be a file. Received: {source!r}, which is not a file.")
    if mode == SCORE:
        command_line.require(args, "decode_to_file", what="the file to write the scores to")
    if mode == INTERACTIVE and target:
        raise UsageError("--decode_to_file cannot be combined with --decode_interactive.")
    if args.decode_reference and mode != FILE:
        raise UsageError("--decode_reference requires --decode_from_file.")
    if args.keep_timestamp and not args.checkpoint_path:
        raise UsageError("--keep_timestamp requires --checkpoint_path.")
    model, hparams_set, problem = names
    if mode == FILE and not target:
        target = decode_filename(source, model, hparams_set, problem, values)
    elif mode == SPLIT and target:
        target = decode_filename(target, model, hparams_set, problem, values)
    if not target:
        return source, None
    for path in (target, *side_files(target)) if mode == SPLIT else (target,):
        _check_writable(path)
    for read in filter(None, (source, args.decode_reference)):
        if os.path.realpath(read) == os.path.realpath(target):
            raise UsageError(
                f"--decode_to_file must differ from the files that are read. Received: {target!r}."
            )
    return source, target


def decode_filename(
    base: str, model: str, hparams_set: str, problem: str, values: Mapping[str, Any]
) -> str:
    """Return T2T's name of an output file.

    The name is `BASE.MODEL.HPARAMS.PROBLEM.beamN.alphaX.decodes`.
    """
    ending = f"beam{values['beam_size']}.alpha{values['alpha']}.decodes"
    if ending in os.path.basename(base):
        return base
    return f"{base}.{model}.{hparams_set}.{problem}.{ending}"


def side_files(target: str) -> list[str]:
    """Return the paths of the files for the targets and the inputs of a split.

    These files are next to the output file, `target`.
    """
    base = target.rpartition(".")[0]
    return [f"{base}.targets", f"{base}.inputs"]


def _check_writable(target):
    folder = os.path.dirname(os.path.realpath(target))
    if not os.path.isdir(folder) or os.path.isdir(target):
        raise UsageError(
            "--decode_to_file must be a file in an existing folder. Received: "
            f"{target!r}{', which is a folder' if os.path.isdir(target) else ''}."
        )
    file_error.check_is_file(target)
    with file_error.user_error_context(target):
        whole_file.check_writable(folder)
        if os.path.exists(target):  # a read-only file must stay unchanged
            open(target, "r+b").close()
    with contextlib.suppress(FileNotFoundError):
        journal.open_own(decode_job.journal_path(target)).close()
