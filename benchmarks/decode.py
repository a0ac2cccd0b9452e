"""Compare the speed of greedy and beam search with T2T and with PyTorch libraries.

    python benchmarks/decode.py
    python benchmarks/decode.py --with_t2t=t2t_env/bin/python          # see t2t/requirements.txt
    python benchmarks/decode.py --with_torch=peers_env/bin/python      # see peers/requirements.txt
    python benchmarks/decode.py --with_before=old_checkout             # an older version
    python benchmarks/decode.py --lengths                              # time by position, memory

All models have hidden size 256, filter size 1024, 4 heads, 6 steps (or layers), a vocabulary of
8000 and random weights. They decode 8 sentences of 32 tokens. Every model writes 32 + 32 positions,
which is the maximum of T2T's search. To prevent EOS before this maximum, EOS gets a low score. The
vector of EOS in the tied embedding is zero, so the logit of EOS is 0. The largest logit of the
other tokens is about 3. (In Marian, the bias of EOS is minus infinity.) The benchmark stops with an
error if a model writes fewer positions.

Every model uses 2 cores, with the thread settings that are fastest for this model. ut_keras and
T2T's cached Transformer run two operations at a time, with one thread per operation. The other
models use two threads per operation. ut_keras is also measured with two threads per operation,
which is TensorFlow's default.

The models are measured in turn, in a different order in every round, so that other load on the
machine affects all of them. In every round, the benchmark divides the time of each model by the
time of ut_keras. The medians of these ratios are the most reliable results.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from train_step import cpu_name
from worker import Worker, add_with_before, rounds

SHAPE = {
    "hidden": 256,
    "filter": 1024,
    "heads": 4,
    "steps": 6,
    "vocab": 8000,
    "batch": 8,
    "source": 32,
    "decode_length": 32,
    "alpha": 0.6,
    "threads": 2,
}
EOS = 1
BASELINE = "ut_keras, cached"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with_t2t", metavar="PYTHON", help="Python of T2T's environment")
    parser.add_argument("--with_torch", metavar="PYTHON", help="Python of PyTorch's environment")
    add_with_before(parser)
    parser.add_argument(
        "--beams", default="1,4", help="numbers of beams, separated by commas; 1 is greedy"
    )
    parser.add_argument("--rounds", type=rounds, default=12)
    parser.add_argument("--lengths", action="store_true", help="ut_keras only, up to 256 positions")
    parser.add_argument("--memory_of", metavar="BATCH,LENGTH,BEAMS", help=argparse.SUPPRESS)
    parser.add_argument("--operation_threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--checkout", default=os.path.dirname(HERE), help=argparse.SUPPRESS)
    parser.add_argument("shape", nargs="?", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.operation_threads:
        sys.path.insert(0, os.path.abspath(args.checkout))
        return serve(args.operation_threads)
    if args.memory_of:
        return print(peak_memory(*map(int, args.memory_of.split(","))))
    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    all_beams = [int(beams) for beams in args.beams.split(",")]
    if args.lengths:
        searcher = UtKeras(make_model(operation_threads=1))
        for beams in all_beams:
            print_lengths(searcher, beams, args.rounds)
        return print_memory()
    if args.with_before:
        sides = two_versions(args.with_before)
    else:
        sides = all_libraries(args.with_t2t, args.with_torch)
    for beams in all_beams:
        compare(sides, beams, args.rounds)


def two_versions(checkout):
    """Return {name: model} for this version of ut_keras and the version in `checkout`."""
    process = [sys.executable, __file__, "--operation_threads=1"]
    return {
        BASELINE: OtherProcess(process),
        "older version": OtherProcess([*process, f"--checkout={checkout}"]),
    }


def all_libraries(t2t_python, torch_python):
    """Return {name: model} for ut_keras and for each library whose Python is given."""
    model, threads = make_model(operation_threads=1), SHAPE["threads"]
    sides = {BASELINE: UtKeras(model), "ut_keras, full prefix": UtKeras(model, cache=False)}
    sides[f"{BASELINE}, {threads} threads"] = OtherProcess(
        [sys.executable, __file__, f"--operation_threads={threads}"]
    )
    if t2t_python:
        worker = [t2t_python, os.path.join(HERE, "t2t", "decode_worker.py")]
        sides["T2T Universal Transformer"] = OtherProcess([*worker, "universal_transformer"])
        sides["T2T Transformer, cached"] = OtherProcess([*worker, "transformer"])
    if torch_python:
        worker = [torch_python, os.path.join(HERE, "peers", "decode_worker.py")]
        sides["MarianMT, cached"] = OtherProcess([*worker, "marian"])
        sides["x-transformers, tied, cached"] = OtherProcess([*worker, "x_transformers"])
    return sides


def compare(sides, beams, rounds):
    """Measure greedy search, or beam search with `beams` beams, for all models; print a table."""
    seconds, unsupported = {}, {}
    for name, side in sides.items():
        elapsed, reason = side.run(beams)
        if elapsed is None:
            unsupported[name] = reason
            continue
        seconds[name] = []
        side.run(beams)  # this second run is not measured, because it is not yet at full speed
    for number in range(rounds):
        for name in random.Random(number).sample(sorted(seconds), len(seconds)):
            seconds[name].append(sides[name].run(beams)[0])
    print(
        f"\n{'greedy' if beams == 1 else f'beam {beams}'}, median of {rounds}\n"
        f"  {'':29} seconds (min, max)    ratio to ut_keras (quartiles)"
    )
    for name, elapsed in seconds.items():
        ratios = [
            other / baseline for other, baseline in zip(elapsed, seconds[BASELINE], strict=True)
        ]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"  {name:29} {statistics.median(elapsed):6.3f} "
            f"({min(elapsed):6.3f}, {max(elapsed):6.3f})  {middle:6.2f} ({low:6.2f}, {high:6.2f})",
            flush=True,
        )
    for name, reason in unsupported.items():
        print(f"  {name:29} -  {reason}")


def make_model(operation_threads):
    """Return a Universal Transformer of ut_keras.

    The function also sets the number of threads per operation, for all operations of this process.
    """
    import tensorflow as tf

    from ut_keras import hparams, models

    tf.config.threading.set_intra_op_parallelism_threads(operation_threads)
    tf.config.threading.set_inter_op_parallelism_threads(SHAPE["threads"])
    tf.keras.utils.set_random_seed(1)
    overrides = (
        f"hidden_size={SHAPE['hidden']},filter_size={SHAPE['filter']},"
        f"num_heads={SHAPE['heads']},num_rec_steps={SHAPE['steps']}"
    )
    model = models.get(
        "universal_transformer",
        hparams.get("universal_transformer_base", overrides),
        vocab_sizes={"inputs": SHAPE["vocab"], "targets": SHAPE["vocab"]},
    )
    table = model.softmax.embedding.numpy()
    table[EOS] = 0
    model.softmax.embedding.assign(table)
    return model


class UtKeras:
    """A search with a model of ut_keras in this process.

    Args:
        model: the model, from `make_model`.
        cache: bool. Whether the search caches earlier positions.
    """

    def __init__(self, model, cache=True):
        self.model = model
        self.cache = cache

    def run(self, beams, batch=SHAPE["batch"], decode_length=SHAPE["decode_length"]):
        """Return (seconds of one search, None). The return value is as in `OtherProcess.run`."""
        import numpy as np
        import tensorflow as tf

        size = (batch, SHAPE["source"])
        inputs = np.random.RandomState(1).randint(2, SHAPE["vocab"], size=size).astype("int32")
        inputs = tf.constant(inputs)
        start = time.perf_counter()
        decoded = self.model.generate(
            {"inputs": inputs},
            beam_size=beams,
            alpha=SHAPE["alpha"],
            decode_length=decode_length,
            cache=self.cache,
        )
        ids = decoded.ids.numpy()
        seconds = time.perf_counter() - start
        check_length("ut_keras", ids.shape[2], SHAPE["source"] + decode_length)
        return seconds, None


def serve(operation_threads):
    """Serve requests of `OtherProcess` with ut_keras and this number of threads per operation."""
    searcher = UtKeras(make_model(operation_threads))
    for line in sys.stdin:
        seconds, _ = searcher.run(int(line))
        written = SHAPE["source"] + SHAPE["decode_length"]  # `run` checks this number
        print("RESULT " + json.dumps({"seconds": seconds, "written": written}), flush=True)


class OtherProcess(Worker):
    """A model in another process."""

    def __init__(self, command):
        super().__init__([*command, json.dumps(SHAPE)])

    def run(self, beams):
        """Return (seconds of one search, None), or (None, reason) if it is unsupported."""
        result = self.request(beams)
        if "error" in result:
            return None, result["error"]
        expected = SHAPE["source"] + SHAPE["decode_length"]
        check_length(self.command[-2], result["written"], expected)
        return result["seconds"], None


def check_length(name, written, expected):
    if written != expected:
        raise SystemExit(f"{name} must write {expected} positions. Received: {written}.")


# Functions that measure the time per token by position, and the memory of the cache.


def print_lengths(searcher, beams, rounds):
    """Measure searches of several lengths, and print the cost per position.

    The column "since last length" is the additional time per additional position.
    """
    lengths = [SHAPE["source"], 64, 96, 128, 192, 256]
    seconds = {length: [] for length in lengths}
    for number in range(-1, rounds):
        for length in random.Random(number).sample(lengths, len(lengths)):
            elapsed, _ = searcher.run(beams, decode_length=length - SHAPE["source"])
            if number >= 0:
                seconds[length].append(elapsed)
    medians = {length: statistics.median(elapsed) for length, elapsed in seconds.items()}
    print(
        f"\n{'greedy' if beams == 1 else f'beam {beams}'}: cost by length, median of {rounds}\n"
        "  positions   seconds   ms per position   since last length   MFLOP, part of attention"
    )
    before = None
    for length, elapsed in medians.items():
        slope = ""
        if before is not None:
            slope = f"{(elapsed - medians[before]) / (length - before) * 1e3:.2f}"
        work, attention = position_flop(length, beams)
        print(
            f"  {length:9} {elapsed:9.3f} {elapsed / length * 1e3:15.2f} {slope:>25} "
            f"{work / 1e6:15.1f} {attention / work:6.1%}"
        )
        before = length


def position_flop(length, beams):
    """Return (operations, operations of attention) for one position of all hypotheses.

    The position attends to `length` positions.
    """
    d, f, steps = SHAPE["hidden"], SHAPE["filter"], SHAPE["steps"]
    rows = SHAPE["batch"] * beams
    attention = steps * 2 * (length + SHAPE["source"]) * d
    others = steps * (6 * d * d + 2 * d * f) + d * SHAPE["vocab"]
    return 2 * rows * (attention + others), 2 * rows * attention


def print_memory(batch=64, length=256):
    """Print the memory that a process needs to decode a large batch.

    Each measurement uses a new process.
    """
    print(f"\nmemory in MB for {batch} x {length} positions, without logits and states")
    for beams in (1, 4):
        shape = f"{batch},{length},{beams}"
        growth = int(
            subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--memory_of", shape],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout.split()[-1]
        )
        prefix, source = expected_memory(batch, length, beams)
        print(
            f"  {'greedy' if beams == 1 else f'beam {beams}'}: expected: up to "
            f"{prefix / 1e6:.0f} for the prefix and {source / 1e6:.0f} for the source; measured: "
            f"{growth / 1e6:.0f}"
        )


def expected_memory(batch, length, beams):
    """Return (prefix, source), the expected bytes of the cached keys and values.

    The cache contains keys and values of the prefix for every step and beam. It also contains keys
    and values of the source for every beam. All steps share the keys and values of the source.
    """
    one = 2 * batch * SHAPE["hidden"] * 4
    return SHAPE["steps"] * beams * length * one, beams * SHAPE["source"] * one


def peak_memory(batch, length, beams):
    """Return by how many bytes a large search increases the memory of this process.

    The return value is the peak memory during the large search, minus the memory before this
    search. Smaller searches first trace the graph. The function requires Linux.
    """
    searcher = UtKeras(make_model(operation_threads=1))
    searcher.run(beams, batch=1, decode_length=1)
    searcher.run(beams, batch=2, decode_length=2)
    before = _kilobytes("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the value 5 resets the peak memory
    searcher.run(beams, batch=batch, decode_length=length - SHAPE["source"])
    return (_kilobytes("VmHWM") - before) * 1024


def _kilobytes(field):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


if __name__ == "__main__":
    main()
