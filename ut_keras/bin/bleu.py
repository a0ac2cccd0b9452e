"""ut-bleu: BLEU of a file of translations.

    ut-bleu --translation=newstest2014.decoded.de --reference=newstest2014.de

scores by sacreBLEU and prints its signature, so that others can compare; `--t2t` scores as t2t-bleu
does. The files hold one segment a line; texts are as people write them, not split into tokens.
"""

import sys
from collections.abc import Sequence

from ut_keras.bin import command, command_line, flags
from ut_keras.errors import UsageError
from ut_keras.text import text_lines


@command.of(flags.BLEU, "ut-bleu", __doc__)
def main(args: command.Args) -> None:
    command_line.require(args, "translation", "reference", what="a file with one segment a line")
    pair = read_pair(args.reference, args.translation)
    for variant in ("uncased", "cased"):
        if args.bleu_variant in (variant, "both"):
            print((t2t_line if args.t2t else sacrebleu_line)(*pair, variant == "cased"))


def read_pair(reference: str, translation: str) -> tuple[list[str], list[str]]:
    """Reads the lines of two files.

    Raises:
        DataError: if one is empty or not UTF-8, or they have not the same number of lines.
    """
    references, hypotheses = text_lines.read(reference), text_lines.read(translation)
    if len(references) != len(hypotheses) or not references:
        raise UsageError(
            "The two files must have the same number of lines, at least one. "
            f"Received: {reference} with {len(references)}, {translation} with {len(hypotheses)}."
        )
    return references, hypotheses


def t2t_line(references: Sequence[str], hypotheses: Sequence[str], case_sensitive: bool) -> str:
    """What t2t-bleu prints of a pair of lists of lines."""
    command.load_tensorflow()  # which its package imports
    from ut_keras.metrics import bleu

    score = bleu.bleu_of_lines(references, hypotheses, case_sensitive)
    return f"{_name(case_sensitive)} = {100 * score:6.2f}"


def sacrebleu_line(
    references: Sequence[str], hypotheses: Sequence[str], case_sensitive: bool
) -> str:
    """sacreBLEU's score with its parts and its signature."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(lowercase=not case_sensitive)
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
