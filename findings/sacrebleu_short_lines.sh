#!/usr/bin/env bash
# sacreBLEU gives 0.00 to a perfect corpus in which no line has four tokens.
#
# Version:   sacrebleu 2.6.0
# Behaviour: the hypotheses equal the references. If all lines are shorter than four tokens, there is
#            no 4-gram. The precision of 4-grams then counts as 0, and the score of the corpus is
#            0.00. With one more perfect line, of four tokens, the score is 100.00.
#            `effective_order=True` gives 100.00 without this line.
# Surprise:  the text is correct and no warning is printed, but a score of 0.00 usually means that
#            every word is wrong. The help of the option mentions single sentences, not corpora.
# Output seen:
#   300 perfect lines of 3 tokens: BLEU = 0.00 100.0/100.0/100.0/0.0
#   and one of 4 tokens: BLEU = 100.00 100.0/100.0/100.0/100.0
#   effective_order=True: BLEU = 100.00 100.0/100.0/100.0/0.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check sacrebleu==2.6.0
"$folder/bin/python" - <<'END'
from sacrebleu.metrics import BLEU


def bleu(lines, **options):
    score = BLEU(**options).corpus_score(lines, [lines])
    return f"BLEU = {score.score:.2f} {'/'.join(f'{p:.1f}' for p in score.precisions)}"


short = ["Two dogs play", "A man runs", "Children sing loudly"] * 100
seen = bleu(short)
print("300 perfect lines of 3 tokens:", seen)
assert seen == "BLEU = 0.00 100.0/100.0/100.0/0.0"
seen = bleu([*short, "A girl is reading"])
print("and one of 4 tokens:", seen)
assert seen == "BLEU = 100.00 100.0/100.0/100.0/100.0"
seen = bleu(short, effective_order=True)
print("effective_order=True:", seen)
assert seen == "BLEU = 100.00 100.0/100.0/100.0/0.0"
END
