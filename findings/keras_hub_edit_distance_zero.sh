#!/usr/bin/env bash
# KerasHub's `EditDistance` does not compare tokens with id 0, but counts them in the length.
#
# Version:   keras-hub 0.32.0, keras 3.15.1, tensorflow 2.21.0
# Behaviour: The metric converts the ids with `tf.sparse.from_dense`, which drops zeros. So a token
#            with id 0 never counts as an error. But the length of the reference, by which the
#            metric divides, includes zeros.
# Surprise:  With padding in the batch, the error rate is too low, and it depends on the length of the
#            padding. If 0 is the id of a real token, omitted and additional tokens are not errors.
#            The documentation mentions neither padding nor a special meaning of 0. No warning.
# Output seen:
#   reference [1, 2, 3],          output [1, 9, 3]:          0.333
#   reference [1, 2, 3, 0, 0, 0], output [1, 9, 3, 0, 0, 0]: 0.167
#   reference [5, 0, 0, 0],       output [5]:                0.000
#   reference [5, 1, 1, 1],       output [5]:                0.750
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0
TF_CPP_MIN_LOG_LEVEL=3 KERAS_BACKEND=tensorflow "$folder/bin/python" - \
  2>"$folder/log" <<'END' || {
import keras_hub

seen = []
for reference, output in (
    ([1, 2, 3], [1, 9, 3]),
    ([1, 2, 3, 0, 0, 0], [1, 9, 3, 0, 0, 0]),
    ([5, 0, 0, 0], [5]),
    ([5, 1, 1, 1], [5]),
):
    metric = keras_hub.metrics.EditDistance()
    metric.update_state([reference], [output])
    seen.append(round(float(metric.result()), 3))
    print(f"reference {f'{reference},':19s} output {f'{output}:':19s} {seen[-1]:.3f}")
assert seen == [0.333, 0.167, 0.0, 0.75]
END
  cat "$folder/log" >&2
  exit 1
}
