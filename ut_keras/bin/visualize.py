"""ut-visualize: draws where a model's heads look while it reads or writes, and how long it ponders.

    ut-visualize --output_dir=run --data_dir=data --input="Zwei Hunde spielen." --visualize_dir=out
    ut-visualize --output_dir=run --data_dir=data --example=0 --visualize_dir=out

writes out/index.html, one page that needs nothing besides itself and lets you pick step, head and
layer, and PNG files where matplotlib is installed. Without --target the model writes by itself
(greedily) and is watched while it does.
"""

import os
import re
import sys
from typing import Any

import numpy as np

from ut_keras import visualize
from ut_keras.bin import command, decode_setup, flags, run_setup
from ut_keras.errors import DataError, UsageError
from ut_keras.files import whole_file
from ut_keras.inference import line_encoding
from ut_keras.text import tokenizer
from ut_keras.text.text_encoder import EOS, PAD


@command.of(flags.VISUALIZE, "ut-visualize", __doc__)
def main(args: command.Args) -> None:
    run = decode_setup.check_run(args)
    _check(run)
    split = run_setup.eval_split(args, run.problem) if args.example >= 0 else None
    directory = _checked_directory(args.visualize_dir)
    features: Any = None if split else _features_from_text(run)
    command.load_tensorflow(run.run_dir)
    if split:
        features = _features_from_split(run, split)
    model, checkpoint = run.load_model()
    print(f"Weights: {checkpoint}", flush=True)
    seen = visualize.observe(model, features, run.encoders)
    if not seen.maps and not seen.ponder:
        raise UsageError(
            "The model must have attention or ponder times to be shown. "
            f"Received: {run.model_name}, which has neither."
        )
    about: dict[str, Any] = {
        "model": run.model_name,
        "problem": run.problem.name,
        "weights": checkpoint,
    }
    if split:
        about["target"] = run.to_text("targets", np.asarray(features["targets"][0]))
    paths = visualize.write_observation(seen, directory, about)
    print(f"Output: {seen.outputs}")
    print(f"Wrote {', '.join(paths)}", flush=True)
    if not visualize.has_matplotlib():
        print(f"note: the page only. {visualize.MATPLOTLIB_MISSING}")


def _checked_directory(directory):
    """The folder, made if it is not there; before long work starts."""
    if not directory:
        raise UsageError("--visualize_dir must be given: the folder to write to.")
    directory = os.path.expanduser(directory)
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UsageError(f"--visualize_dir must be a folder. Received: {directory!r}, a file.")
    whole_file.check_writable(directory)
    visualize.check_is_free(directory)
    return directory


if __name__ == "__main__":
    sys.exit(main())


_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|\s*[|\n]\s*")


def _check(run: Any) -> None:
    """Checks the flags against the problem.

    Args:
        run: `decode_setup.AskedRun`.
    Raises:
        UsageError: one line that says what is wrong.
    """
    args = run.args
    for name in ("input", "target"):
        try:
            getattr(args, name).encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"--{name} must be UTF-8. Received: other bytes.") from None
    by_number = args.example >= 0
    if run.is_language_model:
        if by_number or bool(args.input.strip()) == bool(args.target.strip()):
            raise UsageError(
                f"{run.problem.name} is a language model's: --input must be given, a prompt to "
                "continue, or --target, a whole text; one of the two."
            )
    elif by_number == bool(args.input.strip()):
        raise UsageError(
            "--input or --example must be given, one of the two: what to look at. "
            f"Received: --input={args.input!r}, --example={args.example}."
        )
    elif by_number and args.target:
        raise UsageError("--target goes with --input; an example has its own.")


def _features_from_text(run: Any) -> dict[str, Any]:
    """The features of --input and --target; without --target there are no targets.

    Returns:
        dict from feature name to nested lists of ids, [1, ...].
    Raises:
        DataError: if the text cannot be encoded.
    """
    args, features = run.args, {}
    if run.is_language_model:
        if args.input.strip():
            features["inputs"] = line_encoding.prompts("--input", [args.input], _targets(run))
    elif run.specs["inputs"].modality == "sentences":
        source = (run.encoders["inputs"], run.specs["inputs"].shape)
        features["inputs"] = [_story(args.input, *source, run.hp.trim_stories)]
    else:
        features["inputs"] = line_encoding.sources("--input", [args.input], run.encoders["inputs"])
    if args.target.strip():
        [ids] = line_encoding.sources("--target", [args.target], _targets(run))
        features["targets"] = [_class(args.target, ids) if run.class_labels else ids]
    return features


def _features_from_split(run: Any, split: str) -> dict[str, Any]:
    """The features of example --example of a split, targets included.

    Returns:
        As `_features_from_text`.
    Raises:
        UsageError: if there are not so many examples.
        DataError: if the files cannot be read.
    """
    from ut_keras.inference import free_decoding

    number = run.args.example
    sources, targets = free_decoding.read_rows(run, split, number + 1)
    if len(sources) <= number:
        raise UsageError(
            f"--example must be below {len(sources)}, the number of examples of the {split} split. "
            f"Received: {number}."
        )
    return {"inputs": [sources[number].tolist()], "targets": [targets[number].tolist()]}


def _targets(run):
    return run.encoders["targets"]


def _class(text, ids):
    """[id] of a class; EOS is none."""
    if len(ids) != 2:
        raise DataError(f"--target must be one class. Received: {text!r}.")
    return ids[:1]


def _story(text, encoder, shape, trims):
    """Rows of words: the story from the top, the question last; empty ones between, or none."""
    most, words = shape
    sentences = [_words(part) for part in _SENTENCE_END.split(text) if part.strip()]
    if not 1 <= len(sentences) <= most:
        raise DataError(
            f"--input must be at most {most} sentences, the last of them the question. "
            f"Received: {len(sentences)}."
        )
    rows = [
        [i for i in row if i != EOS]
        for row in line_encoding.sources("--input, sentences", sentences, encoder)
    ]
    for sentence, row in zip(sentences, rows, strict=True):
        if len(row) > words:
            raise DataError(
                f"A sentence of --input must have at most {words} words. Received: {sentence!r}."
            )
    blank = 0 if trims else most - len(rows)
    rows = [*rows[:-1], *[[]] * blank, rows[-1]]
    return [row + [PAD] * (words - len(row)) for row in rows]


def _words(sentence):
    """The words and marks with spaces between, as bAbI's vocabulary has them."""
    return " ".join(" ".join(tokenizer.encode(sentence)).split())
