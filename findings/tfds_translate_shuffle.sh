#!/usr/bin/env bash
# `TranslateFolder` with `shuffle_files=True` hardly shuffles the pairs of a corpus.
#
# Version:   tensorflow-datasets 4.9.10, tensorflow 2.21.0
# Behaviour: `as_dataset(split, shuffle_files=True)` shuffles with a buffer whose size is the number
#            of languages. The buffer of a corpus with two languages holds two pairs. All examples
#            are in memory, so a complete shuffle would cost nothing.
# Surprise:  The documentation of the class uses this call to read training data. If the lines of the
#            corpus are sorted, for example by length or by document, training reads them almost in
#            this order.
# Output seen (a corpus of 1,000 pairs, sorted by line number):
#   the first 100 shuffled pairs come from the first 109 lines
#   correlation of line number and position: 1.00
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow-datasets==4.9.10 tensorflow==2.21.0
mkdir "$folder/corpus"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - "$folder/corpus" 2>/dev/null <<'END'
import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

folder = pathlib.Path(sys.argv[1])
for language in ("en", "de"):
    lines = [f"{language} {number}" for number in range(1000)]
    (folder / f"{language}.train.txt").write_text("\n".join(lines) + "\n")

tf.random.set_seed(1)
dataset = tfds.TranslateFolder(str(folder)).as_dataset(split="train", shuffle_files=True)
numbers = [int(pair["en"].split()[1]) for pair in dataset.as_numpy_iterator()]
assert sorted(numbers) == list(range(1000))
last = max(numbers[:100]) + 1
correlation = np.corrcoef(numbers, range(1000))[0, 1]
print(f"the first 100 shuffled pairs come from the first {last} lines")
print(f"correlation of line number and position: {correlation:.2f}")
assert last < 200 and correlation > 0.99
END
