"""ut-decoder: decode a file, a split or typed lines, or score given targets.

    ut-decoder --output_dir=run --data_dir=data --decode_from_file=test.en --decode_to_file=test.de
    ut-decoder --output_dir=run --data_dir=data --decode_interactive
    ut-decoder --output_dir=run --data_dir=data --eval_use_test_set
    ut-decoder --output_dir=run --data_dir=data --score_file=pairs.tsv --decode_to_file=scores

--decode_hparams="beam_size=4,alpha=0.6,return_beams=True,write_beam_scores=True" sets the decoding
options. To resume an interrupted command, give the same command again. Finished outputs are kept in
.NAME.ut_keras-partial next to the output file. The output file is written when all outputs are
finished.
"""

import contextlib
import os
import sys
from collections.abc import Sequence

from ut_keras.bin import bleu, command, decoder_setup, flags
from ut_keras.errors import DataError
from ut_keras.files import path_lock, whole_file
from ut_keras.hparam_schema import limits
from ut_keras.inference import decode_job, line_encoding
from ut_keras.problems import text_problems
from ut_keras.text import text_encoder, text_lines, word_vocabulary


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-decoder and return the exit code."""
    return command.run_with_flags(_main, flags.DECODER, "ut-decoder", __doc__, argv)


def _main(args: command.Args) -> None:
    setup = decoder_setup.check(args)
    modes = {
        decoder_setup.FILE: _decode_file,
        decoder_setup.SCORE: _score_file,
        decoder_setup.INTERACTIVE: _decode_typed,
        decoder_setup.SPLIT: _decode_split,
    }
    with contextlib.ExitStack() as locks:
        if setup.target:
            locks.enter_context(
                path_lock.held(os.path.realpath(setup.target), "--decode_to_file must be written")
            )
        modes[setup.mode](setup)


# --- Modes ----------------------------------------------------------------------------------------


def _decode_file(setup):
    lines, reference = _read_lines(setup.source), setup.args.decode_reference
    references = None
    if reference:
        references = bleu.read_pair(reference, setup.source)[0]
        _print_segment_note(references, reference)
    command.load_tensorflow(setup.run_dir, setup.args)
    results = decode_job.decode(setup, _rows_of_file(setup, lines))
    _write(setup.target, ["\t".join(beams) for beams in results])
    _finish(setup, [setup.target])
    if references is not None:
        best = [decode_job.best_text(beams, setup.values) for beams in results]
        _print_bleu(setup, references, best)


def _score_file(setup):
    lines = _read_lines(setup.source)
    command.load_tensorflow(setup.run_dir, setup.args)
    sources, targets = line_encoding.pairs(setup.source, lines, setup.encoders)
    names = ["inputs", "targets"] if sources else ["targets"]
    texts = zip(*(line.split("\t") for line in lines), strict=True)
    _print_missing_prefix(setup, dict(zip(names, texts, strict=False)))
    _write(setup.target, [scores[0] for scores in decode_job.score(setup, targets, sources)])
    _finish(setup, [setup.target])


_MAXIMA = {"ns": limits.MOST_ROWS, "dl": limits.MOST_POSITIONS}
_TYPED_HELP = """INTERACTIVE MODE  num_samples={ns}  decode_length={dl}
  ns=<num_samples>    (changes number of samples, default: 1)
  dl=<decode_length>  (changes decode length, default: 100)
  <{source}>                (decode)
  q                   (quit)"""


def _decode_typed(setup):
    """Decode typed lines and execute T2T's commands, until "q" or the end of input."""
    command.load_tensorflow(setup.run_dir, setup.args)
    _print_missing_prefix(setup, {_source_name(setup): None})
    _print_line_note(setup)
    predictor, _ = decode_job.load_predictor(setup)
    samples = min(max(1, setup.values["num_samples"]), _MAXIMA["ns"])
    settings = {"ns": samples, "dl": setup.values["extra_length"]}
    source = "target_prefix" if setup.is_language_model else "source_string"
    print(_TYPED_HELP.format(**settings, source=source))
    number = 0
    for line in command.typed_lines(">"):
        if line == "q":
            break
        if line[:3] in ("ns=", "dl=", "it="):
            _change_setting(settings, line)
            continue
        number += 1
        if not (ids := _typed_ids(setup, line, number)):
            continue
        rows = [ids] * settings["ns"]
        for beams in decode_job.beams(setup, predictor, rows, number, extra_length=settings["dl"]):
            _print_beams(beams, setup.values)


def _typed_ids(setup, line, number):
    """Return the ids of a typed line.

    If the line is invalid, print the reason and return [].
    """
    try:
        line.encode("utf-8")  # standard input also accepts bytes that are not UTF-8
        encoded = _encoded(setup, "input", [line], number)
        [ids] = line_encoding.truncate(encoded, setup.values["max_input_size"])
    except UnicodeEncodeError:
        print("Text must be UTF-8. Received: other bytes.")
        return []
    except DataError as error:
        print(error)
        return []
    return ids


def _change_setting(settings, line):
    name, value = line[:2], line[3:]
    if name == "it":
        if value != "text":
            print(f"The input type must be text. Received: {value!r}.")
        return
    least, most = int(name == "ns"), _MAXIMA[name]
    is_short = value.isdecimal() and len(value) <= len(str(most))
    if not is_short or not least <= int(value) <= most:
        print(f"{name} must be a number from {least} to {most}. Received: {value[:80]!r}.")
    else:
        settings[name] = int(value)


def _print_beams(beams, values):
    if not values["return_beams"]:
        print(beams[0][0], flush=True)
        return
    for number, (text, score) in enumerate(beams):
        print(f'BEAM {number}:\n"{text}"\tScore:{score:f}', flush=True)


def _decode_split(setup):
    command.load_tensorflow(setup.run_dir, setup.args)
    from ut_keras.inference import free_decoding

    sources, targets = free_decoding.read_rows(setup, setup.split, setup.values["num_samples"])
    results = decode_job.decode(setup, sources)
    inputs = [text_lines.one_line(setup.to_text("inputs", row)) for row in sources]
    targets = [text_lines.one_line(setup.to_text("targets", row)) for row in targets]
    if setup.target:
        times = [len(beams) for beams in results]
        paths = [setup.target, *decoder_setup.side_files(setup.target)]
        _write(paths[1], _repeated(targets, times))
        _write(paths[2], _repeated(inputs, times))
        _write(paths[0], [beam for beams in results for beam in beams])
        _finish(setup, paths)
    elif setup.values["log_results"]:
        for source, beams, target in zip(inputs, results, targets, strict=True):
            outputs = "\n".join(f"OUTPUT: {beam}" for beam in beams)
            print(f"INPUT: {source}\n{outputs}\nTARGET: {target}\n")
    best = [decode_job.best_text(beams, setup.values) for beams in results]
    _print_scores(setup, inputs, targets, best)


# --- Parts of the modes ---------------------------------------------------------------------------


def _read_lines(path):
    lines = text_lines.read(path)
    if note := text_lines.carriage_return_note(sum("\r" in line for line in lines), path):
        print(f"note: {note}", flush=True)
    _print_segment_note(lines, path)
    return lines


def _print_segment_note(lines, path):
    if note := text_lines.segment_note(lines, path):
        print(f"note: {note}", flush=True)


def _source_name(setup):
    """Return the feature to which the lines belong."""
    return "targets" if setup.is_language_model else "inputs"


def _encoded(setup, path, lines, first=1):
    """Return the ids of lines, which are inputs or the prompts of a language model."""
    if setup.is_language_model:
        return line_encoding.prompts(path, lines, setup.encoders["targets"], first)
    return line_encoding.sources(path, lines, setup.encoders["inputs"], first)


def _rows_of_file(setup, lines):
    """Return the ids of the lines of a file, and print notes on unusual lines."""
    task = setup.values["multiproblem_task_id"]
    # A MultiProblem is a language model. The lines are the inputs of one of its tasks. The id of
    # the task replaces the EOS of each line.
    if task >= 0:
        ids = line_encoding.sources(setup.source, lines, setup.encoders["targets"])
        problem = setup.problem.task_of(task, setup.specs["targets"].vocab_size)
        name = "inputs"
    else:
        ids = _encoded(setup, setup.source, lines)
        problem, name = setup.problem, _source_name(setup)
    _print_unknown_words(setup, lines)
    _print_missing_prefix(setup, {name: lines}, problem)
    _print_line_note(setup, lines)
    longest, most = setup.hp.max_length or setup.hp.batch_size, setup.values["max_input_size"]
    notes = [text_lines.tab_note(lines), *line_encoding.notes(ids, longest, most)]
    for note in filter(None, notes):
        print(f"note: {setup.source}: {note}", flush=True)
    rows = line_encoding.truncate(ids, most)
    if task >= 0:
        rows = [[*row[:-1], task] if row else row for row in rows]
    return rows


def _print_bleu(setup, references, outputs):
    """Print BLEU as sacreBLEU and as T2T compute it."""
    task = setup.values["multiproblem_task_id"]
    language = decoder_setup.target_language(setup.problem, setup.specs, task)
    right, written = (
        list(map(setup.problem.text_for_bleu, texts)) for texts in (references, outputs)
    )
    print(f"sacreBLEU: {bleu.sacrebleu_line(right, written, True, language)}")
    print(f"T2T: {bleu.t2t_line(references, outputs, True)}")
    if note := bleu.tokenizer_note(references, language):
        print(f"{note}; use ut-bleu --language_pair to choose another.")


def _print_unknown_words(setup, lines):
    """Print a note if most words of the lines are not in the vocabulary."""
    encoder = setup.encoders["inputs" if "inputs" in setup.encoders else "targets"]
    if isinstance(encoder, text_encoder.TokenTextEncoder):
        some = lines[: word_vocabulary.MAX_TEXTS]
        words = [word for line in some for word in line.split()]
        for note in word_vocabulary.unknown_word_warnings(encoder, "the vocabulary", words):
            print(f"note: {setup.source}: {note}", flush=True)


def _print_missing_prefix(setup, columns, problem=None):
    """Print a note for each feature whose texts lack the prefix of training.

    Args:
        columns: dict from feature to its texts, or to None if the texts will be typed.
        problem: `Problem`, if it is not the problem of the run.
    """
    for name, texts in columns.items():
        if note := decoder_setup.prefix_note(problem or setup.problem, name, texts):
            print(f"note: {setup.source or 'input'}: {note}", flush=True)


def _print_line_note(setup, lines=None):
    """Print the problem's note about lines as inputs, if it has one.

    If all lines have the right form, the note is not printed.

    Args:
        lines: list of str. None means that the lines will be typed.
    """
    problem = setup.problem
    mark = getattr(problem, "line_mark", "")
    if mark and lines is not None and all(mark in line for line in lines if line.strip()):
        return
    if hasattr(getattr(problem, "t2t", None), "CONCAT_TOKEN"):
        note = text_problems.TextConcat2ClassProblem.line_note
    else:
        note = getattr(problem, "line_note", "")
    if note:
        print(f"note: {setup.source or 'input'}: {problem.name}: {note}.", flush=True)


def _repeated(texts, times):
    return [text for text, number in zip(texts, times, strict=True) for _ in range(number)]


def _write(path, lines):
    with whole_file.writing(os.path.realpath(path)) as file:
        file.writelines(f"{line}\n" for line in lines)


def _finish(setup, paths):
    """Delete the journal of partial results and print the names of the written files."""
    os.remove(decode_job.journal_path(setup.target))
    if setup.timestamp is not None:
        os.utime(setup.target, (setup.timestamp, setup.timestamp))
    print(f"Wrote {', '.join(paths)}", flush=True)


def _print_scores(setup, inputs, targets, outputs):
    if setup.values["return_beams"]:  # the outputs have a space for each TAB
        targets = [target.replace("\t", " ") for target in targets]
    right = sum(target == output for target, output in zip(targets, outputs, strict=True))
    scores = {"accuracy_per_sequence": right / max(1, len(targets))}
    scores.update(setup.problem.score_decoded(inputs, targets, outputs))
    shown = " ".join(f"{name}={value:.4g}" for name, value in scores.items())
    print(f"{setup.problem.name} {setup.split}: {shown} num_samples={len(targets)}")


if __name__ == "__main__":
    sys.exit(main())
