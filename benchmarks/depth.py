"""Measure the memory and the CPU time of a training step by the number of steps in depth.

    python benchmarks/depth.py
    python benchmarks/depth.py --length=256 --hidden_size=128 --rounds=2

The model is a Universal Transformer language model. The benchmark compares these settings, which it
calls sides:

- 8 and 64 steps without recomputation;
- 64 steps with `recompute_grad`;
- 1,024 steps with `recurrence_backprop_steps=8`, measured in one round.

Each side is a process with one thread. The sides take turns. A process first builds the model and
traces the training step. The memory of the process at this point is the "rest". The memory of a
side is the peak of its process minus the rest. The CPU time of a side is the median over the
rounds, without the first step. The benchmark also prints a target for each ratio, which is the
highest ratio that it should have.
"""

import argparse
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

from worker import Worker

SHAPE = ("num_heads=4", "batch_size=512", "layer_prepostprocess_dropout=0.1", "relu_dropout=0.0")
SIDES = {
    "8 steps": {"num_rec_steps": 8},
    "64 steps": {"num_rec_steps": 64},
    "64 steps, recompute_grad": {"num_rec_steps": 64, "recompute_grad": True},
    "1024 steps, backprop 8": {"num_rec_steps": 1024, "recurrence_backprop_steps": 8},
}
IN_ONE_ROUND = ("1024 steps, backprop 8",)
# Each entry is (quantity, side, other side, target). The target is for the quantity of the side
# divided by the quantity of the other side.
RATIOS = (
    ("memory", "64 steps, recompute_grad", "8 steps", 1.0),
    ("cpu", "64 steps, recompute_grad", "64 steps", 1.35),
    ("memory", "1024 steps, backprop 8", "8 steps", 1.2),
)


def main(argv=None):
    """Run the benchmark, or one of its workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=512, help="tokens of the only example")
    parser.add_argument("--hidden_size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--xla", action="store_true", help="compile the training step with XLA")
    parser.add_argument("--hparams", default="", help="further hparams of all sides")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        work(args)
        return
    sides = {name: start(name, args) for name in SIDES}
    results = {name: [] for name in SIDES}
    for number in range(args.rounds + 1):
        for name, side in sides.items():
            if number == 0 or name not in IN_ONE_ROUND:
                results[name].append(side.request("step"))
    for side in sides.values():
        side.close()
    measured = {name: summarized(found) for name, found in results.items()}
    for name, values in measured.items():
        print(f"{name:26} {values['memory']:8.1f} MB above rest  {values['cpu']:7.2f} s of CPU")
    for what, side, other, target in RATIOS:
        ratio = measured[side][what] / measured[other][what]
        print(f"{what}: {side} by {other}: {ratio:.2f} (target: at most {target})")


def start(name, args):
    """Return a `Worker` that trains the model of one side with one thread."""
    settings = {"hidden_size": args.hidden_size, "filter_size": 4 * args.hidden_size}
    words = [f"{key}={value}" for key, value in {**settings, **SIDES[name]}.items()]
    hparams = ",".join(part for part in (*SHAPE, *words, args.hparams) if part)
    environment = ["TF_CPP_MIN_LOG_LEVEL=3", "TF_NUM_INTRAOP_THREADS=1", "TF_NUM_INTEROP_THREADS=1"]
    options = [f"--worker={hparams}", f"--length={args.length}", *["--xla"] * args.xla]
    command = [sys.executable, os.path.abspath(__file__), *options]
    return Worker(["env", *environment, *command])


def summarized(results):
    """Return {"memory": MB above the rest, "cpu": seconds of a step} for the results of a side."""
    # The function ignores the time of the first step if there are others.
    seconds = [result["cpu"] for result in results[1:] or results]
    memory = max(result["memory"] for result in results)
    return {"memory": memory, "cpu": statistics.median(seconds)}


def work(args):
    """Build the model, and run one training step for every line on stdin."""
    import keras
    import numpy as np
    import tensorflow as tf

    from ut_keras import hparams, models, optimizers
    from ut_keras.optimizers import update

    keras.utils.set_random_seed(1)
    hp = hparams.get("universal_transformer_tiny", args.worker)
    model = models.get("universal_transformer", hp, vocab_sizes={"targets": 2000})
    optimizer = optimizers.get(hp, train_steps=1000)
    optimizer.build(model.trainable_variables)
    targets = tf.constant(np.random.randint(2, 2000, (1, args.length)), tf.int32)

    @tf.function(autograph=False, jit_compile=args.xla)
    def step():
        def forward_and_terms():
            output = model.forward({"targets": targets}, True)
            return output, model.loss_terms(output, targets, True)

        done = update.update(model, optimizer, forward_and_terms)
        return tf.add_n(list(done.losses.values()))

    step.get_concrete_function()
    rest = _memory("VmRSS")
    for _ in sys.stdin:
        started = time.process_time()
        loss = float(step())
        result = {"cpu": time.process_time() - started, "memory": _memory("VmHWM") - rest}
        print("RESULT", json.dumps({**result, "loss": loss}), flush=True)


def _memory(name):
    """Return the current ("VmRSS") or the peak ("VmHWM") memory of this process in MB."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    raise SystemExit("/proc/self/status must exist: the benchmark needs Linux.")


if __name__ == "__main__":
    main()
