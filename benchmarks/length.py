"""Measure the CPU time and the peak memory of a training step for several sequence lengths.

    python benchmarks/length.py
    python benchmarks/length.py --with_torch=peers_env/bin/python     # see peers/requirements.txt
    python benchmarks/length.py --against=old_checkout
    python benchmarks/length.py --models=lm --lengths=16384 --rounds=2

The models are a language model ("lm") and an encoder-decoder with sources and targets of the same
length ("encdec"). Both are Universal Transformers with hidden size 256, filter size 1024, 4 heads,
6 steps, a vocabulary of 2000 and a batch size of 1.

For each model, length and rate of attention dropout, a new process with one thread measures this
version of ut_keras. With `--against`, another process measures the other version. With
`--with_torch`, another process measures x-transformers with PyTorch's fused attention. This process
uses `torch.compile` only if `--torch_compile` is set. The processes take turns of one step each.
The script prints the median CPU seconds of a step and the peak memory of the process. The number
"rest" is the memory of the process before the first step, including the weights and the libraries.
The ratios of CPU seconds are medians over the turns.
"""

import argparse
import itertools
import json
import math
import os
import platform
import resource
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from worker import Worker, checkout_path, rounds

SHAPE = {"hidden_size": 256, "filter_size": 1024, "num_heads": 4, "num_rec_steps": 6}
VOCAB = 2000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--against", metavar="CHECKOUT", type=checkout_path, help="another version to compare with"
    )
    parser.add_argument("--with_torch", metavar="PYTHON", help="Python of PyTorch's environment")
    parser.add_argument("--torch_compile", action="store_true", help="compile x-transformers")
    parser.add_argument("--models", default="lm,encdec", help="lm, encdec or both")
    parser.add_argument("--lengths", default="512,2048,4096", help="numbers of tokens")
    parser.add_argument("--dropout", default="0,0.1", help="rates of attention dropout")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--open", action="store_true", help="trace the step for unknown lengths")
    parser.add_argument("--hparams", default="", help="further hparams of this version")
    parser.add_argument("--rounds", type=rounds, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(json.loads(args.worker))
        return
    # The import of train_step puts this checkout first in sys.path. A worker process does not
    # import train_step, because the worker may measure another version of ut_keras.
    from train_step import cpu_name

    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    checkouts = {"ut_keras": ROOT}
    if args.against:
        checkouts["before"] = os.path.abspath(args.against)
    lengths = [int(length) for length in args.lengths.split(",")]
    for model, rate in itertools.product(args.models.split(","), args.dropout.split(",")):
        cpu = {}
        for length in lengths:
            case = {"model": model, "length": length, "rate": float(rate)}
            sides = start_all(case, checkouts, args)
            cpu[length] = compare(f"{model} {length:6} dropout {rate}", sides, args.rounds)
        for name in cpu[lengths[0]] if len(lengths) > 1 else ():
            first, *_, last = lengths
            exponent = math.log(cpu[last][name] / cpu[first][name]) / math.log(last / first)
            print(f"{model} dropout {rate}: {name}'s CPU grows with exponent {exponent:.2f}")


def start_all(case, checkouts, args):
    """Return {name: `Worker`} for all versions of ut_keras and for x-transformers."""
    case = {**case, "dtype": args.dtype, "open": args.open}
    sides = {
        name: start({**case, "checkout": path, "hparams": args.hparams * (path == ROOT)})
        for name, path in checkouts.items()
    }
    if args.with_torch:
        sides["x-t"] = start_torch({**case, "compile": args.torch_compile}, args.with_torch)
    return sides


def compare(title, sides, number_of_rounds):
    """Let the processes take turns, print the results, and return the CPU seconds of each side."""
    turns = {name: [] for name in sides}
    for number in range(number_of_rounds + 1):
        for name, side in sides.items():
            found = side.request("")
            if number:  # round 0 is ignored, because it traces the step
                turns[name].append(found)
    middle = {name: statistics.median(turn["cpu"] for turn in turns[name]) for name in sides}
    for name, side in sides.items():
        last = turns[name][-1]
        print(
            f"{title}  {name:8} {middle[name]:7.2f} CPU s  peak {last['peak']:6.0f} MB "
            f"(rest {last['rest']:.0f})  loss {last['loss']:.5f}",
            flush=True,
        )
        side.close()
    for other in list(sides)[1:]:
        pairs = zip(turns["ut_keras"], turns[other], strict=True)
        cpu = statistics.median(one["cpu"] / two["cpu"] for one, two in pairs)
        peak = turns["ut_keras"][-1]["peak"] / turns[other][-1]["peak"]
        print(f"{title}  ut_keras / {other}: CPU {cpu:.2f}, peak {peak:.2f}", flush=True)
    return middle


def start(case):
    """Return a `Worker` that takes one training step for each line of its input."""
    environment = {"PYTHONPATH": case["checkout"]}
    environment |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    variables = [f"{name}={value}" for name, value in environment.items()]
    command = [sys.executable, os.path.abspath(__file__), "--worker", json.dumps(case)]
    return Worker(["env", *variables, *command])


def start_torch(case, python):
    """Return a `Worker` for x-transformers, which works like the worker of `start`."""
    command = [python, os.path.join(HERE, "peers", "length_worker.py")]
    return Worker([*command, json.dumps({**SHAPE, **case, "vocab": VOCAB})])


def work(case):
    """Take one training step for each line of the standard input."""
    import numpy as np
    import tensorflow as tf

    from ut_keras import hparams, models, optimizers
    from ut_keras.training import train_step

    tf.keras.utils.set_random_seed(1)
    shape = ",".join(f"{name}={value}" for name, value in SHAPE.items())
    overrides = f"{shape},attention_dropout={case['rate']},activation_dtype={case['dtype']},"
    overrides += "relu_dropout=0.0,layer_prepostprocess_dropout=0.0," + case["hparams"]
    names = ["targets"] if case["model"] == "lm" else ["inputs", "targets"]
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        model = models.get(
            "universal_transformer",
            hparams.get("universal_transformer_base", overrides.strip(",")),
            vocab_sizes=dict.fromkeys(names, VOCAB),
        )
        optimizer = optimizers.get(model.hparams)
        optimizer.build(model.trainable_variables)
    numbers = np.random.RandomState(1).randint(2, VOCAB, (2, case["length"])).astype("int32")
    features = {name: tf.constant(row[None]) for name, row in zip(names, numbers, strict=False)}
    batch = features, features["targets"]
    shape = [None, None] if case["open"] else [1, case["length"]]
    spec = tf.nest.map_structure(lambda x: tf.TensorSpec(shape, x.dtype), batch)
    step = train_step.make_train_step(model, optimizer, strategy, spec, False)
    rest = peak_memory()
    for _ in sys.stdin:
        started = time.process_time()
        loss = float(step(batch).loss)
        cpu = time.process_time() - started
        result = {"cpu": cpu, "peak": peak_memory(), "rest": rest, "loss": loss}
        print("RESULT " + json.dumps(result), flush=True)


def peak_memory():
    """Return the largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
