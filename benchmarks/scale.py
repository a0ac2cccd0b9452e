"""How the time of a train step grows, and what surrounds it: replicas, workers, input, saving.

    python benchmarks/scale.py                       # all parts, a quarter of an hour on two cores
    python benchmarks/scale.py --only=workers,saving --rounds=12
    python benchmarks/scale.py --json=docs/scale_measured.json; python docs/scale_numbers.py

The model is that of train_step.py: hidden 256, filter 1024, 4 heads, 6 steps, vocabulary 8000. All
sides of a part take turns, a few steps each, so that a noisy machine is noisy for all: read the
ratios, which are medians over the turns. `memory` measures transformer_base in processes of its
own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import scale_sides
import train_step

from ut_keras.files import whole_file

STEPS_PER_TURN = 2
BATCH, LENGTH = 16, 32  # of each side, unless a part says otherwise
SAVE_EVERY = 50
MEMORY_POINTS = ((32, 16), (32, 32), (256, 2), (256, 4))  # (length, sequences)
PROBLEM = "algorithmic_reverse_decimal40"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, joined by commas")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", help="file to put the figures into; other parts' stay there")
    parser.add_argument("--problem", default=PROBLEM, help="for the part input")
    parser.add_argument("--data_dir", help="its data; generated if missing")
    args = parser.parse_args()
    machine = f"{train_step.cpu_name()}, {os.cpu_count()} cores"
    print(f"machine: {machine}", flush=True)
    for part in args.only.split(","):
        print(f"\n{part}", flush=True)
        figures = PARTS[part](args)
        if args.json:
            write(args.json, part, {"machine": machine, **figures})


def write(path, part, figures):
    """Puts one part's figures into the JSON file."""
    content = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    content[part] = figures
    with whole_file.writing(path) as file:
        json.dump(content, file, indent=1)
        file.write("\n")


def take_turns(sides, rounds, tokens):
    """Times sides in turns and prints their lines.

    Args:
        sides: dict from name to function (number of steps) -> seconds of each.
        rounds: int. One more is run first, to warm up.
        tokens: dict from name to source and target tokens a step.

    Returns:
        dict from name to {"ms": median, "min_ms", "per_token": median over the turns of the time
        per token over that of the first side}.
    """
    seconds = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, run in sides.items():
            taken = run(STEPS_PER_TURN)
            if number:
                seconds[name].append(taken)
    first = next(iter(sides))
    figures = {}
    for name, turns in seconds.items():
        flat = [value for turn in turns for value in turn]
        ratios = [
            sum(mine) / tokens[name] / (sum(base) / tokens[first])
            for mine, base in zip(turns, seconds[first], strict=True)
        ]
        figures[name] = {
            "ms": round(statistics.median(flat) * 1e3, 1),
            "min_ms": round(min(flat) * 1e3, 1),
            "tokens": tokens[name],
            "per_token": round(statistics.median(ratios), 3),
        }
        print(
            f"  {name:32} {figures[name]['ms']:7.0f} ms (min {figures[name]['min_ms']:.0f})  "
            f"{tokens[name] / statistics.median(flat):6.0f} tokens/s  "
            f"time per token {figures[name]['per_token']:.2f}",
            flush=True,
        )
    return figures


def _batches_in_turn(args, batches):
    """One compiled step for batches of several shapes: {name: (sequences, length)}."""
    step = scale_sides.Step()
    sides = {name: step.runner(*shape) for name, shape in batches.items()}
    tokens = {name: 2 * sequences * length for name, (sequences, length) in batches.items()}
    return take_turns(sides, args.rounds, tokens)


def tokens_part(args):
    """Step time against tokens per batch, at one length."""
    batches = {f"{2 * n * LENGTH} tokens": (n, LENGTH) for n in (16, 8, 32, 64)}
    return {"sides": _batches_in_turn(args, batches)}


def length_part(args):
    """Step time against length, at one number of tokens."""
    batches = {f"length {n}": (BATCH * LENGTH // n, n) for n in (32, 16, 64, 128, 256)}
    return {"sides": _batches_in_turn(args, batches)}


def steps_part(args):
    """Step time against the steps of the recurrence."""
    sides = {f"{n} steps": scale_sides.Step(steps=n).runner(BATCH, LENGTH) for n in (6, 2, 4, 8)}
    return {"sides": take_turns(sides, args.rounds, dict.fromkeys(sides, 2 * BATCH * LENGTH))}


def replicas_part(args):
    """One global batch over 1, 2 and 4 logical devices of one CPU."""
    processes = {
        f"{n} replica{'s' if n > 1 else ''}": scale_sides.Processes(
            1, connected=False, sequences=BATCH, length=LENGTH, replicas=n
        )
        for n in (1, 2, 4)
    }
    sides = {name: process.run for name, process in processes.items()}
    figures = take_turns(sides, args.rounds, dict.fromkeys(sides, 2 * BATCH * LENGTH))
    for process in processes.values():
        process.close()
    return {"sides": figures}


def workers_part(args):
    """One global batch: one process, two without a connection, two workers that are connected."""
    one = scale_sides.Processes(1, connected=False, sequences=BATCH, length=LENGTH)
    apart = scale_sides.Processes(2, connected=False, sequences=BATCH // 2, length=LENGTH)
    workers = scale_sides.Processes(2, connected=True, sequences=BATCH, length=LENGTH)
    sides = {
        "1 process, all cores": one.run,
        "2 processes, unconnected": apart.run,
        "2 workers": workers.run,
    }
    figures = take_turns(sides, args.rounds, dict.fromkeys(sides, 2 * BATCH * LENGTH))
    for processes in (one, apart, workers):
        processes.close()
    overhead = figures["2 workers"]["ms"] / figures["2 processes, unconnected"]["ms"] - 1
    print(f"  overhead of the connection, by medians: {overhead:.0%}")
    return {"sides": figures, "weights": workers.num_weights}


def input_part(args):
    """The input pipeline alone, beside what the model eats."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = scale_sides.Pipeline(args.problem, args.data_dir or folder)
        step = scale_sides.Step()
        eats, gives = [], []
        run = step.runner(BATCH, LENGTH)
        run(2)
        for _ in range(args.rounds):
            seconds = run(STEPS_PER_TURN)
            eats.append(2 * BATCH * LENGTH * len(seconds) / sum(seconds))
            gives.append(pipeline.tokens_per_second(seconds=1.0))
    figures = {
        "problem": args.problem,
        "pipeline_tokens_per_second": round(statistics.median(gives)),
        "model_tokens_per_second": round(statistics.median(eats)),
        "ratio": round(statistics.median(gives) / statistics.median(eats)),
    }
    print(f"  {figures}")
    return figures


def saving_part(args):
    """50 steps while a checkpoint is written, and 50 without."""
    step = scale_sides.Step()
    run = step.runner(BATCH, LENGTH)
    run(4)
    ratios, saves = [], []
    with tempfile.TemporaryDirectory() as folder:
        start_saving, finish_saving = step.saver(folder)
        start_saving()
        finish_saving()
        for number in range(max(2, args.rounds // 3)):
            taken = {}
            # Who goes first changes, for a machine that gets slower.
            for saving in (number % 2 == 0, number % 2 == 1):
                start = time.perf_counter()
                if saving:
                    start_saving()
                    saves.append(time.perf_counter() - start)
                run(SAVE_EVERY)
                finish_saving()
                taken[saving] = time.perf_counter() - start
            ratios.append(taken[True] / taken[False])
        size = max(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    figures = {
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "blocked_seconds": round(statistics.median(saves), 3),
        "checkpoint_mb": round(size / 1e6),
        "step_ms": round(taken[False] / SAVE_EVERY * 1e3, 1),
    }
    print(f"  {figures}")
    return figures


def memory_part(args):
    """Peak memory of train steps of transformer_base; what counts are the differences."""
    del args
    points = []
    for length, sequences in MEMORY_POINTS:
        command = [sys.executable, os.path.join(HERE, "scale_sides.py"), "memory"]
        done = subprocess.run(
            [*command, str(sequences), str(length)], capture_output=True, text=True, check=True
        )
        figures = json.loads(done.stdout.splitlines()[-1])
        points.append({"length": length, "sequences": sequences, **figures})
        print(f"  {points[-1]}", flush=True)
    return {"points": points}


PARTS = {
    "tokens": tokens_part,
    "length": length_part,
    "steps": steps_part,
    "replicas": replicas_part,
    "workers": workers_part,
    "input": input_part,
    "saving": saving_part,
    "memory": memory_part,
}

if __name__ == "__main__":
    main()
