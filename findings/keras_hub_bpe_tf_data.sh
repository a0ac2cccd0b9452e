#!/usr/bin/env bash
# KerasHub's `BytePairTokenizer` returns other ids inside `tf.data` than outside of it.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0, tensorflow-text 2.21.1, tokenizers
#            0.23.3
# Behaviour: Byte pair encoding first splits a text by a regular expression, and then merges only
#            within the pieces. `Dataset.map(tokenizer)` does so. `tokenizer(text)` passes the
#            expression to the package `tokenizers` as a `str`, which this package reads as literal
#            text. Therefore the text is not split, and merges cross the borders of the pieces.
# Surprise:  Training data usually come from `tf.data`, but prompts come from Python. The model then
#            gets other ids for the same text. Indented lines and words in quotation marks can
#            differ. Hugging Face's tokenizer agrees with `tf.data` for this text. No warning.
# Output seen (text "we 'red'  b", two spaces):
#   in Dataset.map: w e Ġ ' r e d ' Ġ Ġb
#   from Python:    w e Ġ 're d ' ĠĠ b
#   Hugging Face:   w e Ġ ' r e d ' Ġ Ġb
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0 tensorflow-text==2.21.1 tokenizers==0.23.3
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras_hub
import tensorflow as tf
import tokenizers

merges = ["' r", "'r e", "Ġ Ġ", "Ġ b"]
tokens = [*"'bderwĠ", *(merge.replace(" ", "") for merge in merges)]
vocabulary = {token: index for index, token in enumerate(tokens)}
text = "we 'red'  b"

tokenizer = keras_hub.tokenizers.BytePairTokenizer(vocabulary=vocabulary, merges=merges)
[ids] = tf.data.Dataset.from_tensors(text).map(tokenizer)
in_dataset = [tokens[i] for i in ids.numpy()]
in_python = [tokens[int(i)] for i in tokenizer(text)]
pairs = [tuple(merge.split()) for merge in merges]
reference = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
reference.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
expected = reference.encode(text).tokens

print("in Dataset.map:", *in_dataset)
print("from Python:   ", *in_python)
print("Hugging Face:  ", *expected)
assert in_dataset == expected
assert in_python == ["w", "e", "Ġ", "'re", "d", "'", "ĠĠ", "b"]
END
  cat "$folder/log" >&2
  exit 1
}
