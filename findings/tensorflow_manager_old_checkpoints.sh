#!/usr/bin/env bash
# A CheckpointManager never removes the checkpoints that tf.train.Checkpoint.save wrote.
#
# Version:   tensorflow 2.21.0
# Behaviour: `tf.train.Checkpoint.save` records its checkpoints in the file "checkpoint", but without
#            the times at which they were written. `tf.train.CheckpointManager` reads this file. It
#            returns the newest of these checkpoints as `latest_checkpoint`, but its list
#            `checkpoints` is empty, and `max_to_keep` does not count them.
# Surprise:  a training that continues with a manager resumes correctly, so the old checkpoints look
#            as if they were managed. Nothing says that they stay on the disk.
# Output seen:
#   latest checkpoint of the manager: ckpt-3
#   checkpoints of the manager: 0
#   files after three more checkpoints with max_to_keep=2: 1 2 3 5 6
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tensorflow==2.21.0
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 "$folder/bin/python" - 2>/dev/null <<'END'
import glob

import tensorflow as tf

checkpoint = tf.train.Checkpoint(weight=tf.Variable(0.0))
for _ in range(3):
    checkpoint.save("run/ckpt")
manager = tf.train.CheckpointManager(checkpoint, "run", max_to_keep=2)
latest, known = manager.latest_checkpoint, len(manager.checkpoints)
for _ in range(3):
    manager.save()
paths = sorted(glob.glob("run/*.index"))
kept = [path.removeprefix("run/ckpt-").removesuffix(".index") for path in paths]
print("latest checkpoint of the manager:", latest.removeprefix("run/"))
print("checkpoints of the manager:", known)
print("files after three more checkpoints with max_to_keep=2:", *kept)
assert latest.endswith("ckpt-3") and known == 0
assert kept == ["1", "2", "3", "5", "6"]
END
