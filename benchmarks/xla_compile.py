"""Measure how long XLA compiles one update, and count the instructions of its program.

    python benchmarks/xla_compile.py
    python benchmarks/xla_compile.py --model=transformer --with_before=old_checkout
    python benchmarks/xla_compile.py --count                  # only the first column, in seconds
    python benchmarks/xla_compile.py --count --form=gpu       # as traced on a GPU
    python benchmarks/xla_compile.py --keep                   # load the program in a second process

XLA compiles the update for the CPU on one thread, so this program needs no GPU. The CPU seconds do
not predict the seconds on a GPU, where XLA has other passes. TensorFlow's translation of the graph
into XLA's instructions, and the first passes over these instructions, are the same on both devices.

Some functions have one form for GPUs and another form for CPUs. With --form=gpu, they use the form
for GPUs.

The models have hidden size 64, 6 steps or layers, and a batch of 4 x (16 source + 16 target)
tokens. The number of instructions hardly depends on these sizes. If there is an older checkout, the
two versions take turns.

The columns are:

- instructions: of the program that TensorFlow gives to XLA;
- optimized: instructions after XLA's passes for the CPU;
- first call: CPU seconds of the first update without tracing, the median over the rounds.

With --keep, a first process compiles the update, and TensorFlow stores the program in a folder. In
each round, another process loads the program. The table repeats the "optimized" instructions of the
first process, because XLA would compile a loaded program again to count them.
"""

import argparse
import collections
import json
import os
import re
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from operations import FORMS, trace_for_gpu
from worker import Worker, add_with_before, make_model, rounds

STEPS = 6
MODELS = ("universal_transformer", "adaptive_universal_transformer", "transformer")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][\w\-]*)\(", re.MULTILINE)


def main(argv=None):
    """Print one line for each version."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument("--model", default=MODELS[0], choices=MODELS)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--form", default="cpu", choices=FORMS, help="device to trace for")
    parser.add_argument("--rounds", type=rounds, default=2, help="measurements of each version")
    parser.add_argument("--count", action="store_true", help="count instructions, compile nothing")
    parser.add_argument("--keep", action="store_true", help="keep the compiled program in a folder")
    parser.add_argument("--serve", metavar="CHECKOUT", help=argparse.SUPPRESS)
    parser.add_argument("--load", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        return serve(args)
    checkouts = {"now": os.path.dirname(HERE)}
    if args.with_before:
        checkouts["before"] = os.path.abspath(args.with_before)
    if args.keep and (args.count or args.with_before):
        parser.error("--keep must be given without --count and --with_before.")
    if args.keep:
        with tempfile.TemporaryDirectory() as folder:
            first = _measure_in_process(checkouts["now"], args, folder)
            loads = [
                first | _measure_in_process(checkouts["now"], args, folder, "--load")
                for _ in range(args.rounds)
            ]
        results = {"compiles": [first], "loads": loads}
    else:
        results = {side: [] for side in checkouts}
        for _ in range(1 if args.count else args.rounds):
            for side, checkout in checkouts.items():
                results[side].append(_measure_in_process(checkout, args))
    print("\n".join(table(f"{args.model}, {args.dtype}, form={args.form}", results)))
    return 0


def _measure_in_process(checkout, args, folder="", *more):
    """Measure the ut_keras of one checkout in another process with one thread.

    Args:
        checkout: str, a path.
        args: the parsed arguments.
        folder: str, the folder where TensorFlow keeps compiled programs. Empty: nowhere.
        *more: str, further arguments of the process.
    """
    environment = [f"TF_NUM_{kind}OP_THREADS=1" for kind in ("INTRA", "INTER")]
    if folder:
        environment.append(f"TF_XLA_FLAGS=--tf_xla_persistent_cache_directory={folder}")
    options = [f"--model={args.model}", f"--dtype={args.dtype}", f"--form={args.form}"]
    options += [f"--serve={checkout}", *(["--count"] if args.count else []), *more]
    worker = Worker(["env", *environment, sys.executable, os.path.abspath(__file__), *options])
    result = worker.request("measure")
    worker.close()
    return result


def serve(args):
    """Serve requests. Each request is one line."""
    sys.path.insert(0, args.serve)
    if args.form == "gpu":
        trace_for_gpu()
    for _ in sys.stdin:
        result = measure(args.model, args.dtype, not args.count, counts_optimized=not args.load)
        print("RESULT", json.dumps(result), flush=True)


def measure(model, dtype, compiles=True, hidden_size=64, steps=STEPS, counts_optimized=True):
    """Return {"instructions": int, "optimized": int, "seconds": float} of an update.

    If `compiles` is False, the result contains only the instructions. If `counts_optimized` is
    False, the result does not contain "optimized", for which XLA compiles the program once more.
    """
    import tensorflow as tf

    from ut_keras.training import train_step

    size = {"hidden": hidden_size, "filter": 4 * hidden_size, "heads": 4, "vocab": 500}
    built, optimizer, strategy = make_model(model, size, steps, dtype)
    ids = tf.ones([4, 16], tf.int32)
    batch = ({"inputs": ids, "targets": ids}, ids)
    step = train_step.make_train_step(built, optimizer, strategy, None, jit_compile=True)
    step.get_concrete_function(batch)
    program = step.experimental_get_compiler_ir(batch)
    before = counted(program("hlo")).total()
    if not compiles:
        return {"instructions": before}
    start = time.process_time()
    step(batch)
    result = {"instructions": before, "seconds": time.process_time() - start}
    if counts_optimized:
        result["optimized"] = counted(program("optimized_hlo")).total()
    return result


def counted(program):
    """Count the instructions of a program by type.

    Args:
        program: str, XLA's text form of a program.
    """
    return collections.Counter(_INSTRUCTION.findall(program))


def table(title, results):
    """Return the lines of a table.

    Args:
        title: str.
        results: dict from the name of a line, such as "now" and "before", to a list of results of
            `measure`.
    """
    first = next(iter(results.values()))[0]
    names = [name for name in ("instructions", "optimized") if name in first]
    is_timed = "seconds" in first
    head = "".join(f"{name:>14}" for name in names)
    lines = [f"{title}:", f"{'':9}{head}" + f"{'first call, CPU s':>20}" * is_timed]
    for side, found in results.items():
        line = f"{side:9}" + "".join(f"{found[0][name]:14,}" for name in names)
        if is_timed:
            line += f"{statistics.median(result['seconds'] for result in found):20.1f}"
        lines.append(line)
    return lines


if __name__ == "__main__":
    sys.exit(main())
