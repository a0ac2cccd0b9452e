"""Measure how fast the input pipeline of training reads batches, without a model.

    python benchmarks/input_pipeline.py
    python benchmarks/input_pipeline.py --parts                      # the time of each part
    python benchmarks/input_pipeline.py --with_before=old_checkout   # an older version, too

The benchmark writes TFRecord files with random pairs of sentences. Their lengths have the
distribution of sentences in WMT: 28 subwords on average, with some sentences of 200 and more. The
vocabulary has 32,768 subwords, and frequent subwords have small ids. The trainer's iterator then
reads shuffled batches of 4,096 and of 65,536 tokens.

All numbers are CPU times of the process, and TensorFlow uses one thread per operation. One core can
therefore read the printed number of tokens per second. Padding does not count as tokens. With
`--with_before`, two versions of ut_keras read the same files in turn, each in its own process. The
ratio is the median over the rounds. The batches of both versions must be equal.

`--parts` calls the functions of the pipeline one after the other on the same batches: reading the
records from the files, parsing the records, checking the ids, and padding. The difference between
the pipeline and the last part is the time that `tf.data` needs.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from train_step import cpu_name
from worker import Worker, add_with_before, rounds

VOCAB = 32_768
FILES = 10
BATCH_SIZES = (4096, 65_536)
TOKENS_PER_TURN = 2_000_000
WARM_UP = 20  # number of batches before the first turn
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}


def main(argv=None):
    """Print one block for each batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument("--rounds", type=rounds, default=8)
    parser.add_argument("--pairs", type=int, default=40_000, help="number of pairs of sentences")
    parser.add_argument("--batch_sizes", default=",".join(map(str, BATCH_SIZES)))
    parser.add_argument("--parts", action="store_true", help="show the time of each part")
    parser.add_argument("--serve", metavar="CHECKOUT", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        return serve(args)
    os.environ.update(ONE_THREAD)
    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    checkouts = {"now": os.path.dirname(HERE)}
    if args.with_before:
        checkouts["before"] = os.path.abspath(args.with_before)
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(folder, args.pairs)
        for batch_size in map(int, args.batch_sizes.split(",")):
            compare(batch_size, checkouts, folder, args)
    return 0


def compare(batch_size, checkouts, folder, args):
    """Measure the versions in turn, and print one line for each of them."""
    sides = {}
    for name, path in checkouts.items():
        options = [f"--serve={path}", f"--folder={folder}", f"--batch_sizes={batch_size}"]
        sides[name] = Worker([sys.executable, os.path.abspath(__file__), *options])
    turns = {name: [] for name in sides}
    for _ in range(args.rounds):
        for name, side in sides.items():
            turns[name].append(side.request("turn"))
    print(f"\nbatch_size={batch_size:,}")
    for name, found in turns.items():
        cpu = statistics.median(turn["cpu"] / turn["tokens"] for turn in found)
        print(f"  {name:7} {1e6 * cpu:.3f} CPU s per million tokens, {1 / cpu:,.0f} tokens/s")
    if "before" in sides:
        now, before = ([turn["digest"] for turn in turns[name]] for name in ("now", "before"))
        if now != before:
            raise SystemExit("error: the batches must be equal. Received: different batches.")
        pairs = zip(turns["now"], turns["before"], strict=True)
        low, middle, high = statistics.quantiles([a["cpu"] / b["cpu"] for a, b in pairs], n=4)
        print(f"  ratio of CPU time, now by before: {middle:.3f} (quartiles {low:.3f}, {high:.3f})")
    if args.parts:
        for name, seconds in sides["now"].request("parts").items():
            print(f"  {name:48} {seconds:.3f} CPU s per million tokens")
    for side in sides.values():
        side.close()


def write_pairs(folder, count):
    """Write the TFRecord files."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.RandomState(1)
    sources = np.exp(rng.normal(np.log(22), 0.65, count))
    targets = sources * np.exp(rng.normal(0.05, 0.25, count))
    for number, path in enumerate(paths(folder)):
        with tf.io.TFRecordWriter(path) as writer:
            for i in range(number, count, FILES):
                lengths = {"inputs": sources[i], "targets": targets[i]}
                writer.write(_example({name: _ids(rng, n) for name, n in lengths.items()}))


def _ids(rng, length):
    """Return random ids and EOS. The frequency of an id is about proportional to 1 / id."""
    ids = (VOCAB - 2) ** rng.random_sample(max(1, int(length)))
    return [*(ids.astype(int) + 1).tolist(), 1]


def _example(features):
    import tensorflow as tf

    lists = {name: tf.train.Int64List(value=ids) for name, ids in features.items()}
    features = {name: tf.train.Feature(int64_list=ids) for name, ids in lists.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def paths(folder):
    """Return the paths of the TFRecord files."""
    return [os.path.join(folder, f"x-train-{i:05d}-of-{FILES:05d}") for i in range(FILES)]


def serve(args):
    """Serve requests with the ut_keras of one checkout."""
    sys.path.insert(0, os.path.abspath(args.serve))
    reader = Reader(args.folder, int(args.batch_sizes))
    for line in sys.stdin:
        print("RESULT", json.dumps(getattr(reader, line.strip())()), flush=True)


class Reader:
    """The trainer's iterator over the batches of some files.

    Args:
        folder: str, the folder of the TFRecord files.
        batch_size: int, the number of tokens in a batch.
        turn_tokens: int, the approximate number of tokens of a turn.
    """

    def __init__(self, folder, batch_size, turn_tokens=TOKENS_PER_TURN):
        import tensorflow as tf

        from ut_keras.data.features import FeatureSpec
        from ut_keras.data.reading import input_pipeline
        from ut_keras.training import epochs

        # In older versions, `make_dataset` returns the batches of all epochs.
        make = getattr(input_pipeline, "make_batches", input_pipeline.make_dataset)
        self._batches = make(
            paths(folder),
            {name: FeatureSpec(VOCAB) for name in ("inputs", "targets")},
            input_pipeline.InputSettings(batch_size=batch_size, max_length=256),
            training=True,
            seed=lambda number: 1 + number,
        )
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        self._iterator = epochs.Epochs(lambda number: self._batches, strategy)
        self._count = max(1, turn_tokens // batch_size)
        for _ in range(WARM_UP):
            next(self._iterator)
        _wait_until_idle()

    def turn(self):
        """Read batches, and return {"cpu": seconds, "tokens": number, "digest": str}."""
        import numpy as np

        started = time.process_time()
        found = [next(self._iterator) for _ in range(self._count)]
        _wait_until_idle()  # the pipeline reads some batches ahead, before and after every turn
        cpu = time.process_time() - started
        arrays = [ids.numpy() for features, _ in found for _, ids in sorted(features.items())]
        digest = hashlib.sha256()
        for array in arrays:
            digest.update(array.tobytes())
        tokens = sum(int(np.count_nonzero(array)) for array in arrays)
        _wait_until_idle()
        return {"cpu": cpu, "tokens": tokens, "digest": digest.hexdigest()}

    def parts(self):
        """Return a dict from the name of a part to its CPU seconds per million tokens."""
        import tensorflow as tf

        from ut_keras.data.features import FeatureSpec
        from ut_keras.data.reading import record_parser

        batches = self._batches
        plans = [batches._plan(number) for number in range(self._count)]
        tokens = sum(int(batches.index.lengths[numbers].sum()) for numbers, _ in plans)
        names = tf.constant(batches.index.files)
        specs = {name: tf.io.RaggedFeature(tf.int64) for name in ("inputs", "targets")}
        problem_specs = {name: FeatureSpec(VOCAB) for name in specs}

        def read(numbers, bucket):
            files, records, *rest = batches._read(numbers, bucket, 0, 1)
            return [tf.constant(x) for x in (files, list(records), *rest[:2], bucket)]

        found = [read(*plan) for plan in plans]

        def parsed(files, records, lengths, longest, bucket):
            features = tf.io.parse_example(records, specs)
            return [features[name].flat_values for name in specs]

        def checked(files, records, lengths, longest, bucket):
            files = tf.gather(names, files)
            features = record_parser.parse_records(files, records, problem_specs)
            return [features[name].flat_values for name in specs]

        def padded(files, records, lengths, longest, bucket):
            return batches.parse(tf.gather(names, files), records, lengths, longest, bucket)

        seconds = {
            "order of the examples": _least_cpu(batches._plan, [(i,) for i in range(self._count)]),
            "+ reading records": _least_cpu(
                lambda number: batches._read(*batches._plan(number), 0, 1),
                [(i,) for i in range(self._count)],
            ),
        }
        reading = seconds["+ reading records"]
        for name, body in (
            ("+ tf.io.parse_example", parsed),
            ("+ checks of ids", checked),
            ("+ padding", padded),
        ):
            signature = [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in found[0]]
            function = tf.function(body, input_signature=signature, autograph=False)
            seconds[name] = reading + _least_cpu(function, found)
        return {name: 1e6 * value / tokens for name, value in seconds.items()}


def _least_cpu(function, arguments, repeats=3):
    """Return the least CPU seconds of calling a function with each of the arguments."""
    function(*arguments[0])  # this call traces the function
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        for some in arguments:
            function(*some)
        seconds.append(time.process_time() - started)
    return min(seconds)


def _wait_until_idle(interval=0.05, idle=0.002):
    """Wait until the threads of the process use almost no CPU time."""
    last = time.process_time()
    while True:
        time.sleep(interval)
        now = time.process_time()
        if now - last < idle:
            return
        last = now


if __name__ == "__main__":
    main()
