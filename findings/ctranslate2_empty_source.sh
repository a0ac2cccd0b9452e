#!/usr/bin/env bash
# CTranslate2 translates a source that contains only the end token without running the model.
#
# Version:   ctranslate2 4.8.5
# Behaviour: for the source ["</s>"], `translate_batch` returns an empty hypothesis with score 0. For
#            ["</s>", "</s>"] it runs the model. `score_batch` runs the model for ["</s>"], too.
# Surprise:  the result ignores `min_decoding_length`. 0 is the best possible score, so a ranking by
#            scores prefers this result. A model that was trained with an end token after each source,
#            as in Tensor2Tensor, gets exactly this source for an empty text.
# Model:     all weights are 0 except the bias of the output layer. Each token therefore has a fixed
#            probability at each position. The longer source shows that the model writes tokens.
# Output seen:
#   ['b', '</s>']: ['a', 'a', 'a'], score -1.282
#   ['</s>', '</s>']: ['a', 'a', 'a'], score -1.282
#   ['</s>']: [], score 0.000
#   score_batch of ['</s>'] and a a a: -4.058
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  ctranslate2==4.8.5 numpy==2.3.5 setuptools==80.9.0
mkdir "$folder/model"
"$folder/bin/python" - "$folder/model" <<'END'
import sys

import ctranslate2
import numpy as np
from ctranslate2.specs import transformer_spec

WIDTH, POSITIONS = 8, 32
PROBABILITIES = {"<unk>": 0.01, "<s>": 0.01, "</s>": 0.08, "a": 0.6, "b": 0.3}


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
options = {"beam_size": 1, "length_penalty": 0, "max_decoding_length": 3, "return_scores": True}
options |= {"min_decoding_length": 3}


def translated(source):
    [result] = translator.translate_batch([source], **options)
    print(f"{source}: {result.hypotheses[0]}, score {result.scores[0]:.3f}")
    return result.hypotheses[0]


assert translated(["b", "</s>"]) == ["a", "a", "a"]
assert translated(["</s>", "</s>"]) == ["a", "a", "a"]
assert translated(["</s>"]) == []
[scored] = translator.score_batch([["</s>"]], [["a", "a", "a"]])
print(f"score_batch of ['</s>'] and a a a: {sum(scored.log_probs):.3f}")
assert sum(scored.log_probs) < -3
END
