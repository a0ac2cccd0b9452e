"""Measure the updates of a small model on bAbI, and the time that it waits for batches.

    taskset -c 0 python benchmarks/small_model.py
    taskset -c 0 python benchmarks/small_model.py --with_before=old_checkout

The model is adaptive, with hidden size 128, filter size 256 and at most 4 steps. A batch has 48
stories of 11 sentences, and each sentence has 7 words. Dropout is 0.1, and the optimizer is Adam.
The stories are random and have the form of task 1. An epoch has 21 batches for the size 1k, and 209
batches for the size 10k.

Each version of ut_keras runs in its own process and reads its batches from files, like the trainer.
The versions are measured in turn, for 42 updates each, so that other load on the machine affects
both versions. The printed ratios are medians over the rounds.

"first step" is the time until the end of the first update. It does not include the import of
TensorFlow and the generation of the data.
"""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.append(HERE)
from worker import Worker, add_with_before

HPARAMS = "batch_size=704,learning_rate_constant=0.002,layer_prepostprocess_dropout=0.1"
STEPS = 42


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument("--size", choices=("1k", "10k"), default="1k")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument(
        "--threads", type=int, default=0, help="threads of TensorFlow (0: TensorFlow's default)"
    )
    parser.add_argument("--jit_compile", action="store_true", help="compile this version with XLA")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        run_worker(args)
        return
    print(f"machine: {cores()} cores, Python {platform.python_version()}, {args.size}")
    with tempfile.TemporaryDirectory() as folder:
        write_archive(folder, args.size)
        checkouts = {"now": os.path.dirname(HERE)}
        if args.with_before:
            checkouts["before"] = os.path.abspath(args.with_before)
        compare({name: start(name, path, folder, args) for name, path in checkouts.items()}, args)


def compare(sides, args):
    """Measure the versions in turn, and print one line for each of them."""
    first_steps = {name: side.request("first step") for name, side in sides.items()}
    turns = {name: [] for name in sides}
    for number in range(args.rounds + 1):
        for name, side in sides.items():
            turn = side.request("updates")
            if number:  # round 0 is a warm-up and is not measured
                turns[name].append(turn)
    for name, side in sides.items():
        wall, cpu, waited = (
            statistics.median(turn[quantity] for turn in turns[name])
            for quantity in ("wall", "cpu", "waited")
        )
        print(
            f"{name:7} {1e3 * wall / STEPS:6.1f} ms per update ({1e3 * cpu / STEPS:.1f} of CPU), "
            f"input wait {waited / wall:4.0%}, first step {first_steps[name]['wall']:.1f} s "
            f"({first_steps[name]['cpu']:.1f} of CPU), loss {turns[name][-1]['loss']:.6f}"
        )
        side.close()
    if "before" in sides:
        for quantity in ("wall", "cpu"):
            pairs = zip(turns["before"], turns["now"], strict=True)
            low, middle, high = statistics.quantiles(
                [before[quantity] / now[quantity] for before, now in pairs], n=4
            )
            print(f"updates per second of {quantity}: {middle:.2f} times ({low:.2f}, {high:.2f})")


def start(name, checkout, folder, args):
    """Return a `Worker` that runs `run_worker` with the ut_keras of one checkout."""
    arguments = ["--size", args.size, "--threads", str(args.threads), "--worker", folder]
    arguments += ["--jit_compile"] * (args.jit_compile and name == "now")
    environment = ["env", f"PYTHONPATH={checkout}", "PYTHONSAFEPATH=1"]
    return Worker([*environment, sys.executable, os.path.abspath(__file__), *arguments])


def run_worker(args):
    """Serve the requests of `compare`.

    For the first request, the process runs one update. The response has the keys "wall" and "cpu",
    in seconds. For each later request, the process runs `STEPS` updates. The response then has the
    keys "wall", "cpu" and "waited", in seconds, and "loss".
    """
    import tensorflow as tf

    from ut_keras import problems

    if args.threads:
        tf.config.threading.set_intra_op_parallelism_threads(args.threads)
        tf.config.threading.set_inter_op_parallelism_threads(args.threads)
    problem = problems.get(f"babi_qa_sentence_single_task1_{args.size}")
    data_dir = os.path.join(args.worker, "data")
    problem.generate_data(data_dir, args.worker)
    requests = iter(sys.stdin)
    next(requests)
    clock = Clock()
    step, batches = make_step(problem, data_dir, args.jit_compile)
    float(step(next(batches)).loss)
    print("RESULT", json.dumps(clock.read()), flush=True)
    for _ in requests:
        clock = Clock()
        waited = 0.0
        for _ in range(STEPS):
            wait_start = time.perf_counter()
            batch = next(batches)
            waited += time.perf_counter() - wait_start
            result = step(batch)
        loss = float(result.loss)
        print("RESULT", json.dumps({**clock.read(), "waited": waited, "loss": loss}), flush=True)


def make_step(problem, data_dir, jit_compile):
    """Return (the update of the model, an iterator over the training batches)."""
    import keras

    from ut_keras import hparams, models
    from ut_keras.training import distribution, epochs, train_step

    try:
        from ut_keras import optimizers
    except ImportError:  # ut_keras 0.1.0 has another module
        from ut_keras.training import optimize as optimizers

    keras.utils.set_random_seed(1)
    hp = hparams.get("adaptive_universal_transformer_quick", HPARAMS)
    strategy = distribution.get_strategy(devices=["CPU:0"])

    def make_epoch(number):
        seed = lambda passed: number + passed  # noqa: E731
        if hasattr(problem, "training_batches"):  # older versions have only `dataset`
            return problem.training_batches(data_dir, hp, seed, static_shapes=jit_compile)
        return problem.dataset("train", data_dir, hp, seed=seed, static_shapes=jit_compile)

    with strategy.scope():
        model = models.get("universal_transformer_encoder", hp, problem, data_dir)
        optimizer = optimizers.get(hp, train_steps=1000)
        optimizer.build(model.trainable_variables)
    batches = epochs.Epochs(make_epoch, strategy)
    spec = None if jit_compile else batches.element_spec
    step = train_step.make_train_step(model, optimizer, strategy, spec, jit_compile)
    return step, batches


class Clock:
    """Measures wall time and CPU time since its creation, in seconds."""

    def __init__(self):
        self.started = time.perf_counter(), time.process_time()

    def read(self):
        wall, cpu = self.started
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def write_archive(folder, size):
    """Write an archive of random stories in the format of bAbI's archive.

    Each story has five questions, one after every second sentence.
    """
    import io
    import tarfile

    rng = random.Random(1)
    people = ("Mary", "John", "Sandra", "Daniel")
    locations = ("bathroom", "hallway", "kitchen", "garden", "office", "bedroom")

    def story():
        lines, location_of = [], {}
        for number in range(1, 16):
            if number % 3:
                person = rng.choice(people)
                location_of[person] = rng.choice(locations)
                lines.append(f"{number} {person} went back to the {location_of[person]}.")
            else:
                person = rng.choice(sorted(location_of))
                lines.append(f"{number} Where is {person}? \t{location_of[person]}\t1")
        return "\n".join(lines) + "\n"

    questions = {"1k": 1000, "10k": 10000}[size]
    path = os.path.join(folder, "tasks_1-20_v1-2.tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        for mode, count in (("train", questions // 5), ("test", 20)):
            text = "".join(story() for _ in range(count)).encode()
            subset = {"1k": "en", "10k": "en-10k"}[size]
            name = f"tasks_1-20_v1-2/{subset}/qa1_single-supporting-fact_{mode}.txt"
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


if __name__ == "__main__":
    main()
