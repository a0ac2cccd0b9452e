#!/usr/bin/env bash
# sacreBLEU ignores hypotheses without a reference, so a corpus with wrong lines scores 100.
#
# Version:   sacrebleu 2.6.0
# Behaviour: If there are more hypotheses than references, or more references than hypotheses,
#            `corpus_score` and `corpus_bleu` score the first lines and ignore the rest. The same
#            holds if the references are in the order of Hugging Face's `evaluate`, one list for
#            each hypothesis. Then only the first hypothesis is scored, and all references are its
#            references.
# Surprise:  The command line of sacreBLEU raises an error for files of different lengths. The Python
#            functions raise no error and print no warning. A system that translates only the
#            first lines has a perfect score.
# Output seen (BLEU, chrF, TER):
#   1 perfect line of 3:                    100.0 100.0 0.0
#   1 perfect line, 2 wrong lines:          36.2 39.1 64.7
#   the same without the last 2 references: 100.0 100.0 0.0
#   one list of references for each line:   100.0 100.0 0.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check sacrebleu==2.6.0
"$folder/bin/python" - <<'END'
from sacrebleu.metrics import BLEU, CHRF, TER

references = ["the cat sat on the mat", "a dog runs in the park", "we all like to read"]
wrong = [references[0], "one two three four five six", "seven eight nine ten eleven"]
scores = {}
for name, hypotheses, lists in (
    ("1 perfect line of 3:", wrong[:1], [references]),
    ("1 perfect line, 2 wrong lines:", wrong, [references]),
    ("the same without the last 2 references:", wrong, [references[:1]]),
    ("one list of references for each line:", wrong, [[line] for line in references]),
):
    metrics = (BLEU(), CHRF(), TER())
    scores[name] = [metric.corpus_score(hypotheses, lists).score for metric in metrics]
    print(f"{name:39s} {' '.join(f'{score:.1f}' for score in scores[name])}")
first, all_lines, without, each = scores.values()
perfect = [100, 100, 0]
for seen in (first, without, each):
    assert [round(score, 6) for score in seen] == perfect
assert all_lines[0] < 50 and all_lines[1] < 50 and all_lines[2] > 50
END
