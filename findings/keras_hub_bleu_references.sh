#!/usr/bin/env bash
# KerasHub's BLEU uses the length of the shortest reference, SacreBLEU uses the closest length.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0, sacrebleu 2.6.0
# Behaviour: With several references, `keras_hub.metrics.Bleu` uses the length of the shortest one
#            for the brevity penalty. Papineni et al. and SacreBLEU use the reference whose length
#            is closest to the length of the translation.
# Surprise:  The docstring refers to SacreBLEU, and with one reference the scores are equal. With a
#            short second reference, short translations get no penalty. No warning.
# Output seen (translation "the cat sat on the mat"):
#   reference of 9 words: KerasHub 60.65, SacreBLEU 60.65
#   and another of 2 words: KerasHub 100.00, SacreBLEU 60.65
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0 sacrebleu==2.6.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras_hub
import sacrebleu
import tensorflow as tf

translation = "the cat sat on the mat"
long = "the cat sat on the mat in our house"
scores = []
for name, references in {
    "reference of 9 words": [long],
    "and another of 2 words": [long, "it sat"],
}.items():
    metric = keras_hub.metrics.Bleu()
    metric.update_state(tf.constant([references]), tf.constant([translation]))
    hub = 100 * float(metric.result())
    sacre = sacrebleu.corpus_bleu([translation], [[r] for r in references]).score
    print(f"{name}: KerasHub {hub:.2f}, SacreBLEU {sacre:.2f}")
    scores.append((round(hub), round(sacre)))
assert scores == [(61, 61), (100, 61)]
END
  cat "$folder/log" >&2
  exit 1
}
