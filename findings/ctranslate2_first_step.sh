#!/usr/bin/env bash
# CTranslate2 returns scores that are not log probabilities, because no output may be empty.
#
# Version:   ctranslate2 4.8.5
# Behaviour: `translate_batch` has `min_decoding_length=1` by default. It removes the end token
#            before the softmax of the first step, so the other tokens share the probability of the
#            end token. The score of every output is higher by -log(1 - p(end)). An empty output
#            cannot be returned, even if it is the most likely output.
# Surprise:  the option seems to filter outputs, but it also changes the scores of outputs that are
#            longer than the minimum. `score_batch` returns another score for the same text. The
#            difference depends on the source, so thresholds and comparisons are wrong without a
#            warning.
# Model:     all weights are 0 except the bias of the output layer. Each token therefore has a fixed
#            probability at each position, and the scores can be computed by hand.
# Output seen:
#   by hand, log p(a a a): -2.202
#   min_decoding_length=0: ['a', 'a', 'a'] -2.202
#   default: ['a', 'a', 'a'] -1.979
#   by hand, higher by -log(1 - p(end)): -1.979
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
options = {"beam_size": 1, "length_penalty": 0, "max_decoding_length": 3}


def translate(**more):
    [result] = translator.translate_batch([["b"]], return_scores=True, **options, **more)
    return result.hypotheses[0], result.scores[0]


expected = 3 * math.log(PROBABILITIES["a"])
print(f"by hand, log p(a a a): {expected:.3f}")
words, score = translate(min_decoding_length=0)
print(f"min_decoding_length=0: {words} {score:.3f}")
assert words == ["a"] * 3 and math.isclose(score, expected, abs_tol=1e-4)
words, score = translate()
print(f"default: {words} {score:.3f}")
expected -= math.log(1 - PROBABILITIES["</s>"])
print(f"by hand, higher by -log(1 - p(end)): {expected:.3f}")
assert words == ["a"] * 3 and math.isclose(score, expected, abs_tol=1e-4)
END
