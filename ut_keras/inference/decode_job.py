"""Does the work of ut-decoder: decodes or scores sequences of ids in batches.

    results = decode(setup, rows)                 the beams of each sequence, as texts
    results = score(setup, targets, sources)      [score] of each target

`setup` is a `decoder_setup.Setup`, the parsed flags. The functions plan the batches (`batch_plan`),
compute their outputs (`Predictor`) and save the results of each batch (`journal`). An interrupted
job resumes from its journal.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ut_keras.errors import UsageError
from ut_keras.files import file_error, path_lock
from ut_keras.inference import decode_hparams, feature_record, journal
from ut_keras.process import interruption, live_line
from ut_keras.text import text_lines

if TYPE_CHECKING:
    from ut_keras.inference.predictor import Predictor

MAX_EXAMPLES = 128  # maximum number of examples in a batch
_MAX_POSITIONS = 8192  # maximum number of positions in a batch, counted over all beams
_JOB_VERSION = 3


def decode(setup: Any, rows: Sequence[Any]) -> list[list[str]]:
    """Return the lines to write for each sequence of ids; for an empty sequence, [""]."""

    def decode_batch(predictor, number, batch):
        found = beams(setup, predictor, [rows[i] for i in batch], number)
        return [_output_lines(pairs, setup.values) for pairs in found]

    lengths = [len(row) for row in rows]
    return _in_batches(setup, rows, None, lengths, setup.values["beam_size"], decode_batch)


def score(
    setup: Any, targets: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None = None
) -> list[list[str]]:
    """Return the score of each target as a text.

    As in T2T, the score is the mean of -log p over the ids of the target. The mean includes EOS
    and excludes padding. For a language model, `sources` is not used.
    """
    options = {
        "exit_threshold": setup.values["exit_threshold"] or None,
        "jit_compile": setup.args.xla_compile,
    }

    def score_batch(predictor, _, batch):
        rows = [targets[i] for i in batch]
        log_probs = predictor.scores(rows, sources and [sources[i] for i in batch], **options)
        counts = [max(1, np.count_nonzero(row)) for row in rows]  # a line may contain "<pad>"
        return [[f"{-value / count:.6f}"] for value, count in zip(log_probs, counts, strict=True)]

    lengths = [len(row) for row in targets]
    if sources:
        lengths = [a + len(b) for a, b in zip(lengths, sources, strict=True)]
    return _in_batches(setup, targets, sources, lengths, 0, score_batch)


def load_predictor(setup: Any, scores: bool = False) -> "tuple[Predictor, str]":
    """Return (`Predictor` of the model with its weights, path of the checkpoint).

    Args:
        setup: as for `decode`.
        scores: bool. Whether given targets are scored, without a search.

    Raises:
        UsageError: if --xla_compile is given, the model has no search, and `scores` is False.
    """
    from ut_keras.inference.predictor import Predictor

    model, path = setup.load_model(setup.values)
    predictor = Predictor(model)
    if setup.args.xla_compile is True and not (scores or predictor.searches):
        raise UsageError(
            "--xla_compile must be auto or False without a search that XLA can compile. "
            f"Received: True, with --model={setup.model_name}."
        )
    for note in _notes_on_unused(setup.values, setup.source, scores, predictor.searches):
        print(f"note: {note}", flush=True)
    print(f"Weights: {path}", flush=True)
    return predictor, path


def _notes_on_unused(values, source, scores, searches):
    """Yield a note for decode hparams that are set but have no effect."""
    if source and values["num_samples"] >= 0:
        yield f"num_samples={values['num_samples']} has no effect for a file, as in T2T"
    unused = decode_hparams.only_for_search(values)
    if scores and values["return_beams"]:
        unused.append("return_beams=True")
    if unused and (scores or not searches):
        reason = "--score_file does not search" if scores else "the model predicts without a search"
        yield f"{', '.join(unused)}: no effect, because {reason}"


def beams(
    setup: Any, predictor: "Predictor", rows: Sequence[Any], batch: int = 0, **changed: Any
) -> list[list[tuple[str, float]]]:
    """Return the beams of sequences as texts.

    Args:
        setup: as for `decode`.
        predictor: `Predictor`.
        rows: list of sequences in the format of `Predictor`.
        batch: int, the index of the batch, which changes the seed of the sampling.
        changed: decode hparams whose values replace those of `setup`.

    Returns:
        list with one list of (text, score) per sequence, sorted from best to worst.
    """
    values, jit_compile = {**setup.values, **changed}, setup.args.xla_compile
    options = decode_hparams.to_options(values, batch, jit_compile)
    return [
        [
            (setup.to_text("targets", ids), float(score))
            for ids, score in zip(decoded.ids, decoded.scores, strict=True)
        ]
        for decoded in predictor.outputs(rows, options)
    ]


def _in_batches(setup, rows, sources, lengths, num_beams, function):
    """Run a function on all batches.

    The arguments of the function are the predictor, the index of the batch and the indices of the
    sequences.

    Returns:
        list with the results of each sequence, in the order of the sequences.
    """
    predictor, path = load_predictor(setup, scores=not num_beams)
    if not num_beams and not predictor.scores_targets:
        raise UsageError(
            "--score_file requires a model that generates tokens. Received: a run with "
            f"--model={setup.model_name}."
        )
    batches = _plan(setup, predictor, lengths, num_beams)
    work = _open_journal(setup, path, batches, rows, sources)
    results = _known_results(lengths, batches, work)
    what = "line" if setup.source else "example"
    left = sum(lengths) - sum(lengths[row] for row in results)
    progress = live_line.ProgressLine("decoding, positions", left)
    with interruption.StopRequest() as stop, progress:
        for number, batch in enumerate(batches):
            if batch[0] in results:
                continue
            batch_lengths = [lengths[row] for row in batch]
            with _enough_memory(batch, batch_lengths, f"{what}s"):
                found = function(predictor, number, batch)
            results.update(zip(batch, found, strict=True))
            if work:
                work.add(number, found)
            progress.add(sum(batch_lengths), f"{len(results):,}/{len(rows):,} {what}s")
            if stop.requested:
                break
    if len(results) < len(rows):
        kept = f", saved in {work.path}. Run the same command again to resume." if work else "."
        raise stop.stopped(f"Stopped after {len(results)} of {len(rows)} {what}s{kept}")
    done = "Decoded" if num_beams else "Scored"
    print(f"{done} {live_line.counted(len(rows), what)}.", flush=True)
    return [results[row] for row in range(len(rows))]


def _known_results(lengths, batches, work):
    """Return {index: lines} for empty sequences and a journal's finished batches."""
    results: dict[int, list[str]] = {row: [""] for row, length in enumerate(lengths) if not length}
    for number, found in (work.finished if work else {}).items():
        results.update(zip(batches[number], found, strict=True))
    return results


@contextlib.contextmanager
def _enough_memory(batch, lengths, what):
    """Turn TensorFlow's out-of-memory error into one line that names the batch."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        number = batch[lengths.index(max(lengths))] + 1
        raise UsageError(
            f"The memory must be large enough for {len(batch)} {what} of up to {max(lengths)} "
            f"tokens, such as number {number}, with their beams. Received: out of memory. Set the "
            "decode hparams batch_size=1, a smaller beam_size or extra_length, or max_input_size."
        ) from error


def _plan(setup, predictor, lengths, num_beams):
    """Return batches as lists of indices of sequences.

    Empty sequences are in no batch.

    Args:
        num_beams: int. 0 means that targets are scored.
    """
    from ut_keras.decoding import batch_plan, xla_score, xla_search

    model, jit_compile = predictor.model, setup.args.xla_compile
    most = setup.values["batch_size"]
    tokens = 0 if most else max(1, _MAX_POSITIONS // max(1, num_beams))
    filled = [number for number, length in enumerate(lengths) if length]
    filled_lengths = [lengths[number] for number in filled]
    limits = (tokens, most or MAX_EXAMPLES)
    same_length = bool(batch_plan.why_equal_lengths(model, scores=not num_beams))
    if num_beams and not most:
        options = decode_hparams.to_options(setup.values, jit_compile=jit_compile)
        batches = predictor.plan(filled_lengths, options, *limits)
    elif not most and not same_length and xla_score.is_used(model, jit_compile):
        batches = xla_search.plan_powers(filled_lengths, *limits)
    else:
        # Scoring a batch would need sources of equal length and also targets of equal length. So
        # each batch contains only one pair.
        if same_length and not num_beams:
            limits = (tokens, 1)
        batches = batch_plan.plan(filled_lengths, *limits, same_length)
    return [[filled[index] for index in batch] for batch in batches]


def _open_journal(setup, checkpoint, batches, rows, sources):
    """Return the output file's open journal, or None if there is no output file."""
    if not setup.target:
        return None
    index = f"{checkpoint}.index"  # the index file contains the checksums of all weights
    with file_error.named(index), open(index, "rb") as file:
        weights = hashlib.sha256(file.read()).hexdigest()
    job = {
        "version": _JOB_VERSION,
        "mode": setup.mode,
        "batches": batches,
        "rows": [np.ravel(row).tolist() for row in rows],
        "sources": sources,
        "values": setup.values,
        "problem": setup.problem.name,
        "model": setup.model_name,
        "hparams": setup.hp.to_dict(),
        "features": feature_record.description(setup),
        "weights": weights,
    }
    digest = hashlib.sha256(json.dumps(job, sort_keys=True, default=str).encode()).hexdigest()
    path = journal_path(setup.target)
    work = journal.Journal(path, digest)
    if work.finished:
        print(f"Resuming with the results of an earlier run in {path}.", flush=True)
    elif work.has_other_job:
        print(
            f"note: {path} has results for another input, model or setting. Starting again.",
            flush=True,
        )
    return work


def journal_path(target: str) -> str:
    """Return the path of the journal of an output file."""
    return path_lock.beside(target, "partial")


def best_text(beams: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text of the best beam.

    `beams` are the lines that `decode` returns for a sequence.
    """
    return beams[0].partition("\t")[0] if values["return_beams"] else beams[0]


def _output_lines(pairs, values):
    """Return the lines to write for the beams of a sequence, one line per beam."""
    texts = [text_lines.one_line(text) for text, _ in pairs]
    if not values["return_beams"]:
        return texts[:1]
    texts = [text.replace("\t", " ") for text in texts]
    if not values["write_beam_scores"]:
        return texts
    return [f"{text}\t{score:.2f}" for text, (_, score) in zip(texts, pairs, strict=True)]
