#!/usr/bin/env bash
# KerasHub's beam search returns a worse sequence if the batch also contains a shorter prompt.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0
# Behaviour: The loop starts at the end of the shortest prompt. At the other positions of a longer
#            prompt, `BeamSampler` adds the log probabilities of the likeliest tokens to the scores.
#            Then it replaces these tokens with the tokens of the prompt. The beams become copies of
#            the prompt with different scores.
# Surprise:  The copies displace other sequences. Therefore a prompt gets another text and another
#            score than in a batch of its own. `CausalLM.generate` calls `BeamSampler` in this way
#            for a list of texts. No warning.
# Output seen (two beams, three more tokens for [1 3 5]):
#   alone:               [1 3 5 2 2 2] log probability -1.21
#   next to the row [1]: [1 3 5 0 1 3] log probability -3.11
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

table = np.full([6, 6], 0.001)  # table[i, j]: probability of token j after token i
table[1, [3, 4]] = 0.6, 0.396
table[[3, 4], 5] = 0.995
table[5, [0, 2, 4]] = 0.5, 0.3, 0.197
table[0] = 0.25, 0.25, 0.1, 0.1, 0.1, 0.2
table[2, 2] = 0.995
log_table = tf.math.log(tf.constant(table, tf.float32))


def next_token(prompt, cache, index):
    return tf.gather(log_table, prompt[:, index - 1]), None, cache


def best(prompts, start):
    prompts = tf.constant(prompts)
    sampler = keras_hub.samplers.BeamSampler(num_beams=2, return_all_beams=True)
    beams, scores = sampler(next_token, prompts, index=start, mask=prompts > 0)
    return np.array(beams)[-1, 0], float(scores[-1, 0])


alone, alone_score = best([[1, 3, 5, 0, 0, 0]], 3)
second, second_score = best([[1, 0, 0, 0, 0, 0], [1, 3, 5, 0, 0, 0]], 1)
print(f"alone:               {alone} log probability {alone_score:.2f}")
print(f"next to the row [1]: {second} log probability {second_score:.2f}")
assert alone.tolist() == [1, 3, 5, 2, 2, 2] and second.tolist() == [1, 3, 5, 0, 1, 3]
END
  cat "$folder/log" >&2
  exit 1
}
