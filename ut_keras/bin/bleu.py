"""ut-bleu: compute the BLEU of a file of translations.

    ut-bleu --translation=newstest2014.decoded.de --reference=newstest2014.de

The command computes sacreBLEU and prints its signature, which makes the score comparable.
--language_pair=en-zh selects sacreBLEU's tokenizer for the target language, and --tokenize selects
any tokenizer. With --t2t, the command computes the score of t2t-bleu instead. Each file has one
segment per line, in ordinary (detokenized) text.
"""

import os
import sys
from collections.abc import Sequence

from ut_keras.bin import command, command_line, flags
from ut_keras.errors import UsageError
from ut_keras.text import sacre_bleu, text_lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-bleu and return the exit code."""
    return command.run_with_flags(_main, flags.BLEU, "ut-bleu", __doc__, argv)


def _main(args: command.Args) -> None:
    command_line.require(args, "translation", "reference", what="a file with one segment per line")
    language = _target_language(args)
    if not args.t2t:
        sacre_bleu.metric(args.tokenize, language)  # errors are raised before the files are read
    for name in ("translation", "reference"):
        path = getattr(args, name)
        if not os.path.exists(path):
            raise UsageError(f"--{name} must be a file. Received: {path!r}, which does not exist.")
    references, hypotheses = read_pair(args.reference, args.translation)
    for lines, path in ((references, args.reference), (hypotheses, args.translation)):
        if note := text_lines.segment_note(lines, path):
            print(f"note: {note}", file=sys.stderr)
    for variant in ("uncased", "cased"):
        if args.bleu_variant not in (variant, "both"):
            continue
        if args.t2t:
            print(t2t_line(references, hypotheses, variant == "cased"))
        else:
            case = variant == "cased"
            print(sacrebleu_line(references, hypotheses, case, language, args.tokenize))
    if not args.t2t and (note := tokenizer_note(references, language, args.tokenize)):
        print(f"{note}; use --language_pair or --tokenize to choose another.", file=sys.stderr)
    if not args.t2t and (tokenized := sacre_bleu.tokenized_warning(hypotheses)):
        print(f"note: {tokenized}", file=sys.stderr)


def _target_language(args):
    """Return the target language in --language_pair, or "" if the flag is not given."""
    given = [name for name in ("language_pair", "tokenize") if getattr(args, name)]
    if args.t2t and given:
        raise UsageError(
            f"--t2t cannot be combined with --{given[0]}: t2t-bleu has only one tokenizer. "
            f"Received: --{given[0]}={getattr(args, given[0])}."
        )
    source, dash, target = args.language_pair.partition("-")
    if args.language_pair and not (source.isalpha() and dash and target[:2].isalpha()):
        raise UsageError(
            "--language_pair must be SOURCE-TARGET, such as en-zh. "
            f"Received: {args.language_pair!r}."
        )
    return target


def tokenizer_note(references: Sequence[str], language: str = "", tokenize: str = "") -> str:
    """Return a note if the tokenizer does not split references into words, else ""."""
    note = sacre_bleu.tokenizer_warning(sacre_bleu.metric(tokenize, language), references)
    return note and f"note: {note}"


def read_pair(reference: str, translation: str) -> tuple[list[str], list[str]]:
    """Return the lines of the references and of the translations.

    Raises:
        UsageError: if the files are empty or have different numbers of lines.
        DataError: if a file is not UTF-8.
    """
    references, hypotheses = text_lines.read(reference), text_lines.read(translation)
    if len(references) != len(hypotheses) or not references:
        raise UsageError(
            "The two files must have the same number of lines, at least one. "
            f"Received: {reference} with {len(references)}, {translation} with {len(hypotheses)}."
        )
    return references, hypotheses


def t2t_line(references: Sequence[str], hypotheses: Sequence[str], case_sensitive: bool) -> str:
    """Return the line that t2t-bleu prints for references and hypotheses."""
    command.load_tensorflow()  # the import of ut_keras.metrics needs TensorFlow
    from ut_keras.metrics import bleu

    score = bleu.bleu_of_lines(references, hypotheses, case_sensitive)
    return f"{_name(case_sensitive)} = {100 * score:6.2f}"


def sacrebleu_line(
    references: Sequence[str],
    hypotheses: Sequence[str],
    case_sensitive: bool,
    language: str = "",
    tokenize: str = "",
) -> str:
    """Return a line with sacreBLEU's score, the parts of the score, and the signature.

    `sacre_bleu.metric` describes the arguments.
    """
    metric = sacre_bleu.metric(tokenize, language, lowercase=not case_sensitive)
    score = metric.corpus_score(hypotheses, [references])
    precisions = "/".join(f"{value:.1f}" for value in score.precisions)
    return (
        f"{_name(case_sensitive)} = {score.score:6.2f}  {precisions} (BP {score.bp:.3f}, "
        f"{score.sys_len} words, reference {score.ref_len})  {metric.get_signature()}"
    )


def _name(case_sensitive):
    return "BLEU_cased" if case_sensitive else "BLEU_uncased"


if __name__ == "__main__":
    sys.exit(main())
