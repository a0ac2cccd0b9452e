#!/usr/bin/env bash
# CTranslate2 scores the first 1,023 tokens of a longer target as if the target ended there.
#
# Version:   ctranslate2 4.8.5
# Behaviour: `score_batch` has `max_input_length=1024` by default. It cuts the target as well as the
#            source, keeps the end token, and returns the log probability of the cut text.
# Surprise:  the name and the help of the option mention only inputs. No warning is printed. A cut
#            target gets a better score than the complete target, so a ranking by scores prefers it.
#            With `max_input_length=0`, the complete target is scored.
# Model:     all weights are 0 except the bias of the output layer. Each token therefore has a fixed
#            probability at each position, and the scores can be computed by hand.
# Output seen:
#   target of 1500 tokens, by hand: -1102.563
#   default: -752.460 from 1024 tokens, the last is </s>
#   first 1023 tokens and </s>, by hand: -752.460
#   max_input_length=0: -1102.563 from 1501 tokens, the last is </s>
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  ctranslate2==4.8.5 numpy==2.3.5 setuptools==80.9.0
mkdir "$folder/model"
"$folder/bin/python" - "$folder/model" <<'END'
import math
import sys

import ctranslate2
import numpy as np
from ctranslate2.specs import transformer_spec

WIDTH, POSITIONS = 8, 2048
PROBABILITIES = {"<unk>": 0.01, "<s>": 0.01, "</s>": 0.2, "a": 0.48, "b": 0.3}


def zeros(*shape):
    return np.zeros(shape, np.float32)


def set_linear(linear, outputs):
    linear.weight, linear.bias = zeros(outputs, WIDTH), zeros(outputs)


def set_norm(norm):
    norm.gamma, norm.beta = zeros(WIDTH), zeros(WIDTH)


spec = transformer_spec.TransformerSpec.from_config((1, 1), num_heads=2)
for side in (spec.encoder, spec.decoder):
    embeddings = spec.encoder.embeddings[0] if side is spec.encoder else spec.decoder.embeddings
    embeddings.weight = zeros(len(PROBABILITIES), WIDTH)
    side.position_encodings.encodings = zeros(POSITIONS, WIDTH)
    set_norm(side.layer_norm)
    for layer in side.layer:
        attentions = {"self_attention": (3 * WIDTH, WIDTH), "attention": (WIDTH, 2 * WIDTH, WIDTH)}
        for name, sizes in attentions.items():
            attention = getattr(layer, name, None)
            if attention is not None:
                set_norm(attention.layer_norm)
                for linear, size in zip(attention.linear, sizes, strict=True):
                    set_linear(linear, size)
        set_norm(layer.ffn.layer_norm)
        set_linear(layer.ffn.linear_0, WIDTH)
        set_linear(layer.ffn.linear_1, WIDTH)
set_linear(spec.decoder.projection, len(PROBABILITIES))
spec.decoder.projection.bias = np.log(list(PROBABILITIES.values())).astype(np.float32)
spec.register_source_vocabulary(list(PROBABILITIES))
spec.register_target_vocabulary(list(PROBABILITIES))
spec.validate()
spec.optimize()
spec.save(sys.argv[1])

translator = ctranslate2.Translator(sys.argv[1], compute_type="float32")
target = ["a"] * 1500


def by_hand(length):
    return length * math.log(PROBABILITIES["a"]) + math.log(PROBABILITIES["</s>"])


print(f"target of 1500 tokens, by hand: {by_hand(1500):.3f}")
[cut] = translator.score_batch([["b"]], [target])
score = sum(cut.log_probs)
print(f"default: {score:.3f} from {len(cut.tokens)} tokens, the last is {cut.tokens[-1]}")
print(f"first 1023 tokens and </s>, by hand: {by_hand(1023):.3f}")
assert math.isclose(score, by_hand(1023), abs_tol=1e-2)
assert (len(cut.tokens), cut.tokens[-1]) == (1024, "</s>")
[full] = translator.score_batch([["b"]], [target], max_input_length=0)
score = sum(full.log_probs)
print(
    f"max_input_length=0: {score:.3f} from {len(full.tokens)} tokens, "
    f"the last is {full.tokens[-1]}"
)
assert math.isclose(score, by_hand(1500), abs_tol=1e-2)
END
