"""Times subword encoding of real text, beside the original.

    python benchmarks/text.py
    python benchmarks/text.py --with_t2t=t2t_env/bin/python            # see t2t/requirements.txt

Text: every distinct sentence of WMT's English-German newstests (2008-2020, both languages). Its
folder is $UT_KERAS_SHARED/data/wmt (default: `shared` beside the checkout). Vocabulary: built from
newstest2013 and 2014, so that a few characters have to be escaped. All sides take turns, so that a
noisy machine is noisy for all; read the ratios.

"first pass": a new encoder, nothing is cached. "second pass": the same encoder and sentences once
more, which is as well as T2T's cache of tokens can do; `encode_batch` has no cache. The ids of all
sides are compared. Processor time is what to read where other programs run.
"""

import argparse
import glob
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from train_step import cpu_name

from ut_keras.data import subword_text_encoder, text_encoder, tokenizer

SHARED = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
MIN_COUNT = 4  # gives a vocabulary of about 8,000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with_t2t", metavar="PYTHON", help="Python of T2T's environment")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    folder = os.path.join(SHARED, "data", "wmt")
    if not os.path.isdir(folder):
        raise SystemExit(f"error: the newstests must be in {folder}. Received: no such folder.")
    with tempfile.TemporaryDirectory() as work:
        texts, vocab_texts = read_texts(folder)
        vocab, text_file = os.path.join(work, "vocab"), os.path.join(work, "text")
        build_vocab(vocab_texts, vocab)
        with open(text_file, "w", encoding="utf-8", newline="\n") as file:
            file.write("\n".join(texts))
        size = text_encoder.SubwordTextEncoder(vocab).vocab_size
        print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
        print(
            f"{len(texts)} distinct sentences, {sum(map(len, texts)) / 1e6:.1f} M characters, "
            f"vocabulary {size}"
        )
        compare(vocab, texts, text_file, args)


def compare(vocab, texts, text_file, args):
    """Times all sides in turn, and prints their lines."""
    sides = {"encode_batch": Ours(vocab, texts, batch=True), "encode": Ours(vocab, texts)}
    if args.with_t2t:
        sides["T2T"] = T2T(args.with_t2t, vocab, text_file)
    warm_up = text_encoder.SubwordTextEncoder(vocab)
    warm_up.encode_batch(texts[:2000])  # TensorFlow is loaded
    passes = ("first pass", "second pass")
    seconds = {(side, which): [] for side in sides for which in passes}
    digests = set()
    for _ in range(args.rounds):
        for side in sides.values():
            side.new()
        for which in passes:
            for name, side in sides.items():
                wall, cpu, digest = side.encode()
                seconds[name, which].append((wall, cpu))
                digests.add(digest)
    if len(digests) != 1:
        raise SystemExit("error: the ids of all sides must be equal. Received: others.")
    for which in passes:
        print(f"\n{which}, sentences per second (median of {args.rounds}, least, most)")
        for name in sides:
            rates = sorted(len(texts) / wall for wall, _ in seconds[name, which])
            shown = (statistics.median(rates), rates[0], rates[-1])
            line = f"  {name:13}" + " ".join(f"{rate:9,.0f}" for rate in shown)
            if args.with_t2t and name != "T2T":
                wall, cpu = (ratio(seconds["T2T", which], seconds[name, which], i) for i in (0, 1))
                line += f"   {wall:4.1f} times T2T's speed, by processor time {cpu:4.1f}"
            print(line)
    print("\nthe ids of all sides are equal")


def ratio(theirs, ours, which):
    """Of turns that are next to each other, not of two medians."""
    return statistics.median(t[which] / o[which] for t, o in zip(theirs, ours, strict=True))


class Ours:
    """Our encoder, by lists or one string at a time."""

    def __init__(self, vocab, texts, batch=False):
        self._vocab, self._texts, self._batch = vocab, texts, batch

    def new(self):
        self._encoder = text_encoder.SubwordTextEncoder(self._vocab)
        if self._batch:
            self._encoder.encode_batch(self._texts[:1000])  # makes its tables

    def encode(self):
        start, cpu_start = time.perf_counter(), time.process_time()
        if self._batch:
            encoded = self._encoder.encode_batch(self._texts)
        else:
            encoded = [self._encoder.encode(text) for text in self._texts]
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        import numpy as np

        flat = np.array([i for ids in encoded for i in [*ids, -1]], np.int32)
        return wall, cpu, hashlib.sha256(flat.tobytes()).hexdigest()


class T2T:
    """The original's encoder, in a process of its own."""

    def __init__(self, python, vocab, text_file):
        self._process = subprocess.Popen(
            [python, os.path.join(HERE, "t2t", "text_worker.py"), vocab, text_file],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def new(self):
        self._process.stdin.write("new\n")

    def encode(self):
        self._process.stdin.write("encode\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line.removeprefix("RESULT "))
        raise SystemExit(
            "T2T's worker stopped. Expected an environment as benchmarks/t2t/requirements.txt "
            f"says. Received: exit code {self._process.wait()}."
        )


def read_texts(folder):
    """All distinct sentences, and those that the vocabulary is built from."""
    files = sorted(glob.glob(os.path.join(folder, "en-de", "newstest201[34].*")))
    texts = []
    for path in files:
        with open(path, "rb") as file:
            texts += _lines(file)
    vocab_texts = list(dict.fromkeys(texts))
    with tarfile.open(os.path.join(folder, "newstest-other.en-de.tar.gz")) as archive:
        for member in archive.getmembers():
            if member.isfile():
                texts += _lines(archive.extractfile(member))
    return list(dict.fromkeys(texts)), vocab_texts


def _lines(file):
    return file.read().decode("utf-8").split("\n")[:-1]


def build_vocab(texts, path):
    counts = {}
    for text in texts:
        for token in tokenizer.encode(text):
            counts[token] = counts.get(token, 0) + 1
    subtokens = subword_text_encoder.build_subtokens(counts, MIN_COUNT)
    text_encoder.SubwordTextEncoder(subtokens=subtokens).store_to_file(path)


if __name__ == "__main__":
    main()
