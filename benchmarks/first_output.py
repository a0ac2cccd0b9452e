"""Measure the CPU time from the start of a process to its first translation.

    python benchmarks/first_output.py
    python benchmarks/first_output.py --with_before=old_checkout

Each measurement is a new process with one thread. The process imports TensorFlow, loads a run with
`ut_keras.load`, and translates one sentence twice with 4 beams. The second translation shows how
long the search itself takes. The default run is `pretrained/multi30k_ende`. The versions of
ut_keras take turns. The numbers are medians of CPU seconds. The time for importing TensorFlow has
its own column. The ratio does not include this time, because ut_keras cannot change this time.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from worker import Worker, add_with_before, rounds

PARTS = ("import", "load", "first", "second")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument(
        "--run",
        metavar="FOLDER",
        default=os.path.join(ROOT, "pretrained", "multi30k_ende"),
        help="output folder of a run",
    )
    parser.add_argument("--text", default="Two dogs are playing.", help="the source")
    parser.add_argument("--rounds", type=rounds, default=4)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.run, args.text)
        return
    # This import puts the current checkout first in sys.path. A worker process does not import the
    # module, because the worker may measure another version of ut_keras.
    from train_step import cpu_name

    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    checkouts = {"ut_keras": ROOT}
    if args.with_before:
        checkouts["older version"] = os.path.abspath(args.with_before)
    turns = {name: [] for name in checkouts}
    for _ in range(args.rounds):
        for name, checkout in checkouts.items():
            turns[name].append(measure(checkout, args))
    print(f"\nCPU seconds, median of {args.rounds}")
    print(f"  {'':14} " + "  ".join(f"{part:>7}" for part in PARTS))
    for name, found in turns.items():
        medians = [statistics.median(turn[part] for turn in found) for part in PARTS]
        print(f"  {name:14} " + "  ".join(f"{x:7.3f}" for x in medians))
    if args.with_before:
        ratios = [
            (now["load"] + now["first"]) / (before["load"] + before["first"])
            for now, before in zip(*turns.values(), strict=True)
        ]
        print(f"  load and first, ut_keras / older version: {statistics.median(ratios):.2f}")


def measure(checkout, args):
    """Return the CPU seconds of each part in a new process."""
    variables = [f"PYTHONPATH={checkout}", "TF_NUM_INTRAOP_THREADS=1", "TF_NUM_INTEROP_THREADS=1"]
    script = [sys.executable, os.path.abspath(__file__), "--worker"]
    side = Worker(["env", *variables, *script, f"--run={args.run}", f"--text={args.text}"])
    result = side.request("start")
    side.close()
    return result


def work(run, text):
    """Load a run and translate a text. Print the CPU seconds of each part."""
    times = [time.process_time()]
    import tensorflow as tf  # noqa: F401

    times.append(time.process_time())
    import ut_keras

    loaded = ut_keras.load(run)
    times.append(time.process_time())
    for _ in range(2):
        loaded.translate([text])
        times.append(time.process_time())
    seconds = {name: times[i + 1] - times[i] for i, name in enumerate(PARTS)}
    print("RESULT " + json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
