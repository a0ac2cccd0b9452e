"""What ut-visualize is to look at: text, or an example of a split, as features of one example.

"Mary moved to the bathroom. Where is Mary?"      of a problem whose inputs are sentences
  ->  inputs [1, sentences, words]: the story on top, the question in the last row
"""

import re
from typing import Any

from ut_keras.errors import DataError, UsageError
from ut_keras.inference import line_encoding
from ut_keras.text import tokenizer
from ut_keras.text.text_encoder import EOS, PAD

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+|\s*[|\n]\s*")


def check(run: Any) -> None:
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


def from_text(run: Any) -> dict[str, Any]:
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


def from_split(run: Any, split: str) -> dict[str, Any]:
    """The features of example --example of a split, targets included.

    Returns:
        As `from_text`.
    Raises:
        UsageError: if there are not so many examples.
        DataError: if the files cannot be read.
    """
    from ut_keras.inference import split_rows

    number = run.args.example
    sources, targets = split_rows.read(run, split, number + 1)
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
