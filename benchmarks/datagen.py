"""Measure the speed of data generation for a corpus of WMT14's size.

    python benchmarks/datagen.py                       4.5 million pairs
    python benchmarks/datagen.py --share=0.1           a tenth of the pairs
    python benchmarks/datagen.py --with_before=old_checkout

The benchmark measures the time to convert text files into TFRecord files. With `--with_before`, two
versions of ut_keras process the same text in turn, each in a new process. The files that both
versions write must be equal. The printed ratios are medians over the rounds.

The benchmark writes its own raw text. The text repeats WMT's English-German newstests of 2008 to
2020 (33,659 pairs) until the raw files of `translate_ende_wmt32k` have their real sizes. The
newstests must be in $UT_KERAS_SHARED/data/wmt. The default of $UT_KERAS_SHARED is the folder
`shared` next to the checkout. As in T2T, the vocabulary is built from about 1 MB of each file. The
time for writing the raw text is not measured.
"""

import argparse
import hashlib
import itertools
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.append(ROOT)  # ROOT comes after PYTHONPATH, which may select another version of ut_keras
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

sys.path.append(HERE)
from worker import add_with_before

from ut_keras import problems, process
from ut_keras.process import live_line

SHARED = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
# Pairs of News Commentary, Common Crawl and Europarl. The sum is 4.5 million.
PAIRS = (280_000, 2_400_000, 1_820_000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the 4.5 million pairs to use"
    )
    parser.add_argument("--processes", type=int, default=process.num_processors())
    parser.add_argument("--problem", default="translate_ende_wmt32k")
    parser.add_argument("--work_dir", help="folder for all files (default: temporary)")
    add_with_before(parser)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print("TIMES " + json.dumps(generate(problems.get(args.problem), *args.worker, args)))
        return
    # The import of train_step puts this checkout first in sys.path. A worker process does not
    # import train_step, because the worker may measure another version of ut_keras.
    from train_step import cpu_name

    folder = os.path.join(SHARED, "data", "wmt")
    if not os.path.isdir(folder):
        raise SystemExit(f"error: the newstests must be in {folder}. Received: no such folder.")
    problem = problems.get(args.problem)
    checkouts = {"now": ROOT}
    if args.with_before:
        checkouts["before"] = os.path.abspath(args.with_before)
    with tempfile.TemporaryDirectory(dir=args.work_dir) as work:
        raw, data = os.path.join(work, "raw"), os.path.join(work, "data")
        pairs = make_raw_files(problem, folder, raw, args.share)
        print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
        print(f"{problem.name}: {pairs:,} pairs, {live_line.size(total_size(raw))} of text")
        print(f"{args.processes} processes; load before: {os.getloadavg()[0]:.1f}", flush=True)
        turns = {name: [] for name in checkouts}
        for _ in range(args.rounds):
            for name, checkout in checkouts.items():
                os.mkdir(data)
                turns[name].append(run_turn(checkout, raw, data, args))
                shutil.rmtree(data)
                show(name, turns[name][-1])
    if args.with_before:
        compare(turns)


def run_turn(checkout, raw, data, args):
    """Run `generate` in a new process, and return its result."""
    arguments = [
        f"--problem={args.problem}",
        f"--processes={args.processes}",
        "--worker",
        raw,
        data,
    ]
    completed = subprocess.run(
        [sys.executable, os.path.abspath(__file__), *arguments],
        env={**os.environ, "PYTHONPATH": checkout},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(completed.stdout.rpartition("TIMES ")[2])


def generate(problem, raw, data, args):
    """Write the files in the worker process, and return the measurements."""
    start, cpu_start = time.perf_counter(), cpu_seconds()
    problem.prepare(data, raw)
    prepared, cpu_prepared = time.perf_counter(), cpu_seconds()
    counts = problem.generate_data(data, raw, num_processes=args.processes)
    end, cpu_end = time.perf_counter(), cpu_seconds()
    return {
        "seconds": {
            "vocabulary": prepared - start,
            "files": end - prepared,
            "all": end - start,
        },
        "processor seconds": {
            "vocabulary": cpu_prepared - cpu_start,
            "files": cpu_end - cpu_prepared,
            "all": cpu_end - cpu_start,
        },
        "records": sum(counts.values()),
        "largest process here": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "elsewhere": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
        "bytes": total_size(data),
        "digest": digest(data),
    }


def show(name, result):
    wall, cpu = result["seconds"], result["processor seconds"]
    parts = ", ".join(f"{part} {wall[part]:.1f} s ({cpu[part]:.1f})" for part in wall)
    print(
        f"{name}: {parts} of wall time (CPU time); "
        f"{result['records'] / wall['all']:,.0f} records per second; peak memory: main process "
        f"{result['largest process here'] / 1e3:,.0f} MB, largest worker "
        f"{result['elsewhere'] / 1e3:,.0f} MB; files: "
        f"{live_line.size(result['bytes'])}",
        flush=True,
    )


def compare(turns):
    if len({result["digest"] for side in turns.values() for result in side}) > 1:
        raise SystemExit(
            "error: both versions must write the same files. Received: different files."
        )
    print("the files are equal; speed now / before, median (minimum, maximum):")
    for kind in ("seconds", "processor seconds"):
        for part in ("vocabulary", "files", "all"):
            ratios = [
                before[kind][part] / now[kind][part]
                for now, before in zip(turns["now"], turns["before"], strict=True)
            ]
            median = statistics.median(ratios)
            print(f"  {part}, {kind}: {median:.2f} ({min(ratios):.2f}, {max(ratios):.2f})")


def cpu_seconds():
    """Return the CPU seconds of this process and of its ended child processes."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def digest(folder):
    combined = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if "-of-" in name or name.startswith("vocab."):
            with open(os.path.join(folder, name), "rb") as file:
                combined.update(hashlib.file_digest(file, "sha256").digest())
    return combined.hexdigest()


def make_raw_files(problem, folder, raw, share):
    """Write the raw files of all splits, and return the number of training pairs."""
    corpus = read_pairs(folder)
    endless = itertools.cycle(corpus)
    sizes = [int(size * share) for size in PAIRS]
    for size, files in zip(sizes, problem.files["train"], strict=True):
        write_pairs(raw, files, itertools.islice(endless, size))
    for split in ("dev", "test"):
        for files in problem.files[split]:
            write_pairs(raw, files, corpus[:3000])
    return sum(sizes)


def write_pairs(raw, files, pairs):
    plain = [[name for name in names if not name.endswith(".sgm")][0] for names in files.names]
    paths = [os.path.join(raw, name) for name in plain]
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(paths[0], "wb") as source, open(paths[1], "wb") as target:
        for pair in pairs:
            source.write(pair[0] + b"\n")
            target.write(pair[1] + b"\n")


def read_pairs(folder):
    """Return the newstests as a list of pairs (English, German), both of type bytes."""
    sides = {"en": {}, "de": {}}
    for name in os.listdir(os.path.join(folder, "en-de")):
        with open(os.path.join(folder, "en-de", name), "rb") as file:
            sides[name[-2:]][name[:-3]] = file.read().split(b"\n")[:-1]
    with tarfile.open(os.path.join(folder, "newstest-other.en-de.tar.gz")) as archive:
        for member in archive.getmembers():
            name = os.path.basename(member.name)
            if member.isfile() and name[-3:] in (".en", ".de"):
                sides[name[-2:]][name[:-3]] = archive.extractfile(member).read().split(b"\n")[:-1]
    pairs = []
    for name in sorted(sides["en"]):
        pairs += zip(sides["en"][name], sides["de"][name], strict=True)
    return pairs


def total_size(folder):
    return sum(
        os.path.getsize(os.path.join(path, name))
        for path, _, names in os.walk(folder)
        for name in names
    )


if __name__ == "__main__":
    main()
