"""A program that replaces the trainer in tests of the search.

The program trains no model, but writes the same files and returns the same exit codes as the
trainer. The objective `score` is highest at learning_rate_constant=0.001. The environment variable
TUNED_PROGRAM selects a behavior. "slow" makes trial-1 run until a signal stops it. "broken" makes
trial-1 fail.
"""

import json
import math
import os
import signal
import sys
import time

flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
hparams = dict(pair.split("=", 1) for pair in flags["hparams"].split(","))
directory = flags["output_dir"]
number = os.path.basename(directory)
mode = os.environ.get("TUNED_PROGRAM", "")
with open(os.path.join(directory, "starts"), "a", encoding="utf-8") as file:
    file.write(os.environ.get("CUDA_VISIBLE_DEVICES", "none") + "\n")
if int(hparams["hidden_size"]) % int(hparams.get("num_heads", 1)):
    print("error: hidden_size must be divisible by num_heads.", file=sys.stderr)
    sys.exit(2)
if mode == "broken" and number == "trial-1":
    print("error: The loss and the weights must be finite.", file=sys.stderr)
    sys.exit(2)
if mode == "slow" and number == "trial-1":

    def stop(signum, frame):
        time.sleep(0.3)
        print("saved", flush=True)
        with open(os.path.join(directory, "saved"), "w", encoding="utf-8"):
            pass
        sys.exit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    with open(os.path.join(directory, "ready"), "w", encoding="utf-8"):
        pass
    time.sleep(60)
score = -abs(math.log(float(hparams["learning_rate_constant"]) / 0.001))
score += float(flags.get("bonus", 0))  # a flag of a user's package
with open(os.path.join(directory, "metrics.jsonl"), "a", encoding="utf-8") as file:
    for step in (3, 6):
        record = {"step": step, "time": 0.0, "split": "dev", "score": score - 1 / step}
        file.write(json.dumps(record) + "\n")
