#!/usr/bin/env bash
# On a CPU, some sums in bfloat16 stop at 256, such as the gradient of a bias.
#
# Version:   tensorflow 2.21.0, keras 3.15.1
# Behaviour: the gradient of `tf.nn.bias_add`, and so of the bias of `keras.layers.Dense` under the
#            policy mixed_bfloat16, adds the gradients of all rows in bfloat16. If they are ones, the
#            sum of 1,000 rows is 256. The gradient of `tf.gather` does the same for equal indices.
#            `tf.reduce_sum` and `tf.matmul` return 1,000. In float16, `tf.reduce_mean` of 5,000
#            ones along a middle axis is 0.41. `keras.ops.mean` returns 1.
# Surprise:  the exact sum 1,000 is a number of both dtypes, and other operations compute it. A model
#            trains with biases that learn too slowly, without a warning.
# Output seen:
#   tf.reduce_sum, bfloat16: 1000.0
#   tf.matmul with ones, bfloat16: 1000.0
#   gradient of tf.nn.bias_add, bfloat16: 256.0
#   gradient of the bias of Dense, mixed_bfloat16: 256.0
#   gradient of tf.gather, bfloat16: 256.0
#   tf.reduce_mean of 5,000 ones, float16: 0.41
#   keras.ops.mean of 5,000 ones, float16: 1.0
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
    tensorflow==2.21.0 keras==3.15.1
CUDA_VISIBLE_DEVICES=-1 TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import keras
import tensorflow as tf

rows = tf.ones([1000, 2], tf.bfloat16)


def gradient(function, variable):
    with tf.GradientTape() as tape:
        tape.watch(variable)
        result = function()
    found = tape.gradient(result, variable, tf.ones_like(result))
    return float(tf.reshape(tf.convert_to_tensor(found), [-1])[0])


bias, table = tf.zeros([2], tf.bfloat16), tf.zeros([1, 2], tf.bfloat16)
dense = keras.layers.Dense(2, dtype="mixed_bfloat16")
dense.build((None, 2))
ones = tf.ones([2, 5000, 4], tf.float16)
results = {
    "tf.reduce_sum, bfloat16": float(tf.reduce_sum(rows, axis=0)[0]),
    "tf.matmul with ones, bfloat16": float(tf.matmul(tf.ones([1, 1000], tf.bfloat16), rows)[0, 0]),
    "gradient of tf.nn.bias_add, bfloat16": gradient(lambda: tf.nn.bias_add(rows, bias), bias),
    "gradient of the bias of Dense, mixed_bfloat16": gradient(
        lambda: dense(rows), dense.bias.value
    ),
    "gradient of tf.gather, bfloat16": gradient(
        lambda: tf.gather(table, tf.zeros([1000], tf.int32)), table
    ),
    "tf.reduce_mean of 5,000 ones, float16": round(float(tf.reduce_mean(ones, axis=1)[0, 0]), 2),
    "keras.ops.mean of 5,000 ones, float16": round(float(keras.ops.mean(ones, axis=1)[0, 0]), 2),
}
for name, value in results.items():
    print(f"{name}: {value}")
assert [*results.values()] == [1000.0, 1000.0, 256.0, 256.0, 256.0, 0.41, 1.0]
END
