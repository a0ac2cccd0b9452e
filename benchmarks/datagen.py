"""Times data generation of a corpus of WMT14's size, from text to TFRecord files.

    python benchmarks/datagen.py                       4.5 million pairs
    python benchmarks/datagen.py --share=0.1           a tenth of them

The raw text is made: WMT's English-German newstests (2008-2020, 30,656 pairs and those of 2014),
over and over, in the files that `translate_ende_wmt32k` is made of and of their sizes. They are in
$UT_KERAS_SHARED/data/wmt (default: `shared` beside the checkout). The vocabulary is built, as T2T
does, from about 1 MB of each file. Writing the raw text does not count.
"""

import argparse
import itertools
import os
import platform
import resource
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from train_step import cpu_name

import problems
from ut_keras.data import process_pool, progress_line

SHARED = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
PAIRS = (280_000, 2_400_000, 1_820_000)  # News Commentary, Common Crawl, Europarl: 4.5 million


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the 4.5 million pairs")
    parser.add_argument("--processes", type=int, default=process_pool.default_num_processes())
    parser.add_argument("--problem", default="translate_ende_wmt32k")
    parser.add_argument("--work_dir", help="folder to work in, a temporary one by default")
    args = parser.parse_args()
    folder = os.path.join(SHARED, "data", "wmt")
    if not os.path.isdir(folder):
        raise SystemExit(f"error: the newstests must be in {folder}. Received: no such folder.")
    problem = problems.get(args.problem)
    with tempfile.TemporaryDirectory(dir=args.work_dir) as work:
        raw, data = os.path.join(work, "raw"), os.path.join(work, "data")
        os.mkdir(data)
        pairs = make_raw_files(problem, folder, raw, args.share)
        print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
        print(f"{problem.name}: {pairs:,} pairs, {progress_line.size(total_size(raw))} of text")
        print(f"{args.processes} processes; load before: {os.getloadavg()[0]:.1f}", flush=True)
        start = time.perf_counter()
        problem.prepare(data, raw)
        prepared = time.perf_counter()
        counts = problem.generate_data(data, raw, num_processes=args.processes)
        done = time.perf_counter()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        here = resource.getrusage(resource.RUSAGE_SELF)
        processor = children.ru_utime + children.ru_stime + here.ru_utime + here.ru_stime
        print(f"vocabulary: {progress_line.duration(prepared - start)}")
        print(f"files: {progress_line.duration(done - prepared)}, {counts}")
        rate = sum(counts.values()) / (done - start)
        print(
            f"all: {progress_line.duration(done - start)}, {rate:,.0f} records a second; "
            f"{progress_line.duration(processor)} of processor time"
        )
        print(
            f"largest process: {here.ru_maxrss / 1e3:,.0f} MB here, "
            f"{children.ru_maxrss / 1e3:,.0f} MB elsewhere; "
            f"files: {progress_line.size(total_size(data))}"
        )


def make_raw_files(problem, folder, raw, share):
    """Writes the raw files of all splits; returns the number of pairs for training."""
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
    sides = (files.source, files.target)
    plain = [[name for name in names if not name.endswith(".sgm")][0] for names in sides]
    paths = [os.path.join(raw, name) for name in plain]
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(paths[0], "wb") as source, open(paths[1], "wb") as target:
        for pair in pairs:
            source.write(pair[0] + b"\n")
            target.write(pair[1] + b"\n")


def read_pairs(folder):
    """The newstests as a list of (English, German) bytes."""
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
