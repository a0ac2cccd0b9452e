#!/usr/bin/env bash
# A saved `StringLookup` loses the tokens "" and "\n". A saved `TextVectorization` cannot be loaded.
#
# Version:   keras 3.15.1, tensorflow 2.21.0
# Behaviour: A `.keras` file stores a vocabulary as lines of a text file. A token that contains a
#            newline becomes two lines, and empty lines at the end are lost.
# Surprise:  Newlines are ordinary tokens of a model of characters, and "" is an ordinary value of a
#            column of strings. `save` makes no error. The loaded `StringLookup` gives such a token
#            the id of unknown tokens, without an error. The loaded `TextVectorization` of characters
#            raises an error, so the trained model is lost.
# Output seen:
#   StringLookup, ids of a, newline, b: [2, 3, 1], after loading [2, 0, 1]
#   StringLookup, ids of a, "", b: [2, 3, 1], after loading [2, 0, 1]
#   TextVectorization of characters: ValueError when loading
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - "$folder/model.keras" 2>/dev/null <<'END'
import sys

import keras
import tensorflow as tf

path = sys.argv[1]


def loaded(model):
    model.save(path)
    return keras.models.load_model(path)


for name, token in (("newline", "\n"), ('""', "")):
    values = ["a", token, "b"]
    lookup = keras.layers.StringLookup()
    lookup.adapt(values)
    model = keras.Sequential([keras.Input((3,), dtype="string"), lookup])
    before, after = (m(tf.constant([values]))[0].numpy().tolist() for m in (model, loaded(model)))
    print(f"StringLookup, ids of a, {name}, b: {before}, after loading {after}")
    assert before == [2, 3, 1] and after == [2, 0, 1]

characters = keras.layers.TextVectorization(standardize=None, split="character")
characters.adapt(["ab\ncd\n", "b a"])
try:
    loaded(keras.Sequential([keras.Input((), dtype="string"), characters]))
    seen = "no error"
except ValueError:
    seen = "ValueError when loading"
print("TextVectorization of characters:", seen)
assert seen == "ValueError when loading"
END
