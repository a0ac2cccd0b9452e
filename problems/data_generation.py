"""Write the data files and side files of a problem, for `Problem.generate_data`."""

import collections
import contextlib
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ut_keras.data import tfrecords
from ut_keras.data.writing import generation, generation_plan
from ut_keras.errors import DataError
from ut_keras.files import new_folder
from ut_keras.problems import sample_encoding
from ut_keras.process import tensorflow_log
from ut_keras.text import text_encoder


class Request(NamedTuple):
    """The arguments of `Problem.generate_data`."""

    data_dir: str
    tmp_dir: str | None
    seed: int
    tasks: list[int] | None
    num_processes: int | None
    max_cases: int | None


def generate(problem: Any, request: Request) -> dict[str, int]:
    """Write the files that do not exist yet. See `Problem.generate_data`.

    Args:
        problem: `Problem`.
        request: `Request`.
    """
    data_dir, tmp_dir = request.data_dir, request.tmp_dir
    side_files = {name: os.path.join(data_dir, name) for name in problem.side_files()}
    new_side_files = [path for path in side_files.values() if not os.path.exists(path)]
    num_shards = problem.shards_to_generate(tmp_dir)
    tensorflow_log.load()
    start = time.monotonic()
    with (
        new_folder.made(data_dir),
        generation_plan.claimed(
            data_dir, problem.filename, num_shards, request.seed, request.tasks
        ) as missing,
    ):
        if not new_side_files and not missing:
            again = f"to generate the data again, remove the files {problem.filename}-*"
            print(f"{problem.name}: data found in {data_dir}, nothing to generate; {again}")
            _print_notes(_found_data_notes(problem, request, num_shards))
            return {}
        problem.prepare(data_dir, tmp_dir)
        _check_side_files(problem, data_dir, num_shards, side_files, new_side_files)
        _print_notes(_side_file_notes(problem, request, num_shards, side_files, new_side_files))
        counts, left_out = _write_splits(problem, request, missing, new_side_files)
    summary = generation.summary(counts, left_out, time.monotonic() - start, data_dir)
    print(f"{problem.name}: {summary}")
    return counts


def _print_notes(notes):
    for note in notes:
        print(f"note: {note}", flush=True)


def _found_data_notes(problem, request, num_shards):
    """Return notes on data that exist already."""
    user_files = {
        split: generation_plan.user_file_fingerprints(problem.user_files(split, request.tmp_dir))
        for split in num_shards
    }
    return generation_plan.found_data_notes(
        request.data_dir, problem.filename, request.max_cases, user_files
    )


def _check_side_files(problem, data_dir, num_shards, side_files, new_side_files):
    """Check that the side files belong to the data files that exist.

    If the check fails, the function removes new side files.
    """
    try:
        generation_plan.check_side_files(data_dir, problem.filename, num_shards, side_files)
    except DataError:
        for path in new_side_files:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        raise


def _side_file_notes(problem, request, num_shards, side_files, new_side_files):
    """Return notes on the side files and the data files that were made with them.

    Args:
        num_shards: dict from split to its number of files.
        side_files: dict from the name of a side file to its path.
        new_side_files: the paths that did not exist before.
    """
    where = (request.data_dir, problem.filename)
    if not new_side_files:
        names = problem.side_files_of_samples()
        return generation_plan.side_file_notes(*where, request.max_cases, names)
    built = set(filter(os.path.exists, new_side_files))
    new = [name for name, path in side_files.items() if path in built]
    present = [split for split in num_shards if tfrecords.is_complete(*where, split)]
    return generation_plan.new_side_file_notes(*where, present, new)


def _write_splits(problem, request, missing, new_side_files):
    """Write the missing files.

    Args:
        missing: dict from split to the files to write, see `generation_plan.claimed`.
        new_side_files: the paths of side files that did not exist before.

    Returns:
        (dict from split to its number of new examples, Counter of skipped samples by reason).
    """
    counts: dict[str, int] = {}
    left_out: collections.Counter[str] = collections.Counter()
    for number, (split, shards) in enumerate(missing.items()):
        try:
            counts[split.name] = _write_split(problem, request, split, shards, number == 0)
        except text_encoder.UnknownWordError as error:
            removable = () if request.tasks is not None else new_side_files
            if advice := problem.unknown_word_advice(request.data_dir, removable):
                raise DataError(f"{error} {advice}") from error
            raise
        left_out += problem.left_out
    return counts, left_out


def _write_split(problem, request, split, shards, is_first):
    """Write files of a split, and return the number of examples."""
    data_dir, tmp_dir = request.data_dir, request.tmp_dir
    where = (split.name, data_dir, tmp_dir, split.seed)
    problem.left_out.clear()
    encode: Callable[..., Any] = iter
    if problem.yields_records:
        samples = problem.generate_encoded_samples(*where)
    else:
        if not problem.encodes_samples_itself:
            problem.checked_encoders(data_dir)
        samples = problem.generate_samples(*where)
        if is_first:
            encoders = problem.encoders_of_samples(data_dir)
            samples = sample_encoding.with_vocabulary_notes(
                problem, samples, encoders, request.max_cases
            )
        encode = sample_encoding.SampleEncoder(problem, data_dir)
    title = f"{split.filename} {split.name}, reading"
    return generation.write(
        split,
        generation.Samples(samples, title, request.max_cases),
        encode,
        shards,
        request.num_processes,
        problem.left_out,
        _described(problem, split.name, data_dir, tmp_dir),
    )


def _described(problem, split, data_dir, tmp_dir):
    """Return digests and fingerprints of the files on which the records depend.

    Data generation stores them in the JSON file of a split, see generation_plan.py.
    """
    described = {"side_files": generation_plan.side_file_digests(data_dir, problem.side_files())}
    paths = problem.user_files(split, tmp_dir)
    if user_files := generation_plan.user_file_fingerprints(paths):
        described["user_files"] = user_files
    return described
