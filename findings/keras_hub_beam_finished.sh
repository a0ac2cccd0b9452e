#!/usr/bin/env bash
# KerasHub's beam search continues after the stop token, and returns a worse sequence.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0
# Behaviour: `BeamSampler` stops when all beams of all prompts of the batch have a stop token. Until
#            then, it also extends finished sequences. It adds the log probabilities of the tokens
#            after the stop token to their scores.
# Surprise:  Other beam searches keep the score of a finished sequence. Here, a finished sequence
#            loses against an unfinished one, and the result depends on the other prompts of the
#            batch. No warning.
# Output seen (1 starts, 2 stops, 0 pads; two beams, at most 5 more tokens):
#   alone, [1]: [1 4 5 5 5 5] with probability 0.045
#   the model's probability of [1 3 2]: 0.54
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras_hub
import numpy as np
import tensorflow as tf

START, STOP, A, B, C = 1, 2, 3, 4, 5
table = np.full([6, 6], 1e-9)  # table[i, j]: probability of token j after token i
table[START, [A, B]] = 0.6, 0.4
table[A, [STOP, 0]] = 0.9, 0.1
table[B, [C, STOP]] = 0.9, 0.1
table[C, [C, STOP]] = 0.5
table[STOP] = table[0] = 1 / 6


def next_token(prompt, cache, index):
    return tf.math.log(tf.gather(tf.constant(table, tf.float32), prompt[:, index - 1])), None, cache


prompt = tf.constant([[START, 0, 0, 0, 0, 0]])
sampler = keras_hub.samplers.BeamSampler(num_beams=2, return_all_beams=True)
beams, scores = sampler(
    next_token, prompt, index=1, mask=prompt > 0, stop_token_ids=[STOP]
)
best = np.array(beams)[0, 0]
probability = np.exp(np.array(scores)[0, 0])
finished = table[START, A] * table[A, STOP]
print(f"alone, [1]: {best} with probability {probability:.3f}")
print(f"the model's probability of [1 3 2]: {finished:.2f}")
assert best.tolist() == [START, B, C, C, C, C] and probability < finished / 10
END
  cat "$folder/log" >&2
  exit 1
}
