#!/usr/bin/env bash
# TensorFlow removes carriage returns in the middle of a line when it reads a file line by line.
#
# Version:   tensorflow 2.21.0
# Behaviour: `GFile.readlines()`, a loop over a `GFile`, and `tf.data.TextLineDataset` read the line
#            "one\rtwo" as "onetwo". This also holds for a `GFile` in the binary mode "rb".
#            `GFile.read()` keeps the character. `TextFileInitializer`, which reads the lines of a
#            vocabulary, keeps it too. So a table from a file does not find the line that
#            `TextLineDataset` reads from the same file.
# Surprise:  the documentation of `TextLineDataset` speaks only of line endings, and two words
#            become one word without a warning.
# Output seen:
#   GFile "r", readlines: ['onetwo\n', 'three\n']
#   GFile "rb", loop: [b'onetwo\n', b'three\n']
#   TextLineDataset: [b'onetwo', b'three']
#   GFile "rb", read: b'one\rtwo\nthree\r\n'
#   table from the file, lookup of "one\rtwo" and "onetwo": [0, -1]
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - "$folder/lines.txt" 2>/dev/null <<'END'
import sys

import tensorflow as tf

path = sys.argv[1]
with open(path, "wb") as file:
    file.write(b"one\rtwo\nthree\r\n")
index = tf.lookup.TextFileIndex
keys = (tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(path, *keys), default_value=-1)
results = {
    'GFile "r", readlines': tf.io.gfile.GFile(path).readlines(),
    'GFile "rb", loop': list(tf.io.gfile.GFile(path, "rb")),
    "TextLineDataset": list(tf.data.TextLineDataset(path).as_numpy_iterator()),
    'GFile "rb", read': tf.io.gfile.GFile(path, "rb").read(),
    'table from the file, lookup of "one\\rtwo" and "onetwo"': table.lookup(
        tf.constant(["one\rtwo", "onetwo"])
    ).numpy().tolist(),
}
for name, value in results.items():
    print(f"{name}: {value}")
assert [*results.values()] == [
    ["onetwo\n", "three\n"],
    [b"onetwo\n", b"three\n"],
    [b"onetwo", b"three"],
    b"one\rtwo\nthree\r\n",
    [0, -1],
]
END
