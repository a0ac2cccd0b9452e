#!/usr/bin/env bash
# `SubwordTextEncoder` of TensorFlow Datasets decodes some underscores as `\&undsc`.
#
# Version:   tensorflow-datasets 4.9.10, tensorflow 2.21.0
# Behaviour: `build_from_corpus` escapes an underscore of the texts as `\&undsc`, because an underscore
#            at the end of a subword stands for a space. If the escape is a piece of its own,
#            `encode` encodes it as the byte `_`. But the escape can be a part of a longer subword,
#            and `decode` never replaces it there.
# Surprise:  `decode` should be the inverse of `encode`. If a word with an underscore is frequent in
#            the corpus, it usually becomes one subword, and `decode` returns it wrongly.
#            Tensor2Tensor's encoder, from which this class comes, decodes such words correctly.
# Output seen:
#   'a file_name' -> 'a file_name'
#   'a snake_case' -> 'a snake\\&undsccase'
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow-datasets==4.9.10 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import tensorflow_datasets as tfds

texts = ["a snake_case", "the snake_case is here"] * 10
encoder = tfds.deprecated.text.SubwordTextEncoder.build_from_corpus(texts, target_vocab_size=300)
for text in ("a file_name", "a snake_case"):
    print(f"{text!r} -> {encoder.decode(encoder.encode(text))!r}")
assert encoder.decode(encoder.encode("a file_name")) == "a file_name"
assert encoder.decode(encoder.encode("a snake_case")) == r"a snake\&undsccase"
END
