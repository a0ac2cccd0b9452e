#!/usr/bin/env bash
# A SavedModel keeps the global seed of the program that exported it.
#
# Version:   tensorflow 2.21.0
# Behaviour: a program calls `tf.random.set_seed(3)` and exports a function with
#            `tf.random.uniform([2])`, without a seed of its own. Every process that loads the export
#            and calls the function once gets the same numbers. Without the call of `set_seed`, each
#            process gets other numbers. `keras.utils.set_random_seed` calls `set_seed`, too.
# Surprise:  the loading process sets no seed, and neither the function nor the call of `save` names
#            one. So two servers with one export return the same samples.
# Output seen:
#   exported after set_seed(3), two processes give equal numbers: True
#   exported without set_seed, two processes give equal numbers: False
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
export TF_CPP_MIN_LOG_LEVEL=3

cat >"$folder/export.py" <<'END'
import sys

import tensorflow as tf

if sys.argv[2] == "seed":
    tf.random.set_seed(3)
module = tf.Module()
module.sample = tf.function(lambda: tf.random.uniform([2]), input_signature=[])
tf.saved_model.save(module, sys.argv[1])
END
cat >"$folder/load.py" <<'END'
import sys

import tensorflow as tf

print(*tf.saved_model.load(sys.argv[1]).sample().numpy())
END

compare() { # compare KIND: export with or without a seed, and load the export in two processes
  "$folder/bin/python" "$folder/export.py" "$folder/$1" "$1" 2>/dev/null
  first=$("$folder/bin/python" "$folder/load.py" "$folder/$1" 2>/dev/null)
  second=$("$folder/bin/python" "$folder/load.py" "$folder/$1" 2>/dev/null)
  test -n "$first" || exit 1
  if [ "$first" = "$second" ]; then echo True; else echo False; fi
}

with_seed=$(compare seed)
without_seed=$(compare none)
echo "exported after set_seed(3), two processes give equal numbers: $with_seed"
echo "exported without set_seed, two processes give equal numbers: $without_seed"
test "$with_seed" = True && test "$without_seed" = False
