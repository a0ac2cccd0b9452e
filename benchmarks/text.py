"""Compare the speed of subword encoding and of building a vocabulary with T2T.

    python benchmarks/text.py
    python benchmarks/text.py --with_t2t=t2t_env/bin/python            # see t2t/requirements.txt

The text consists of every distinct sentence of WMT's English-German newstests (2008-2020, both
languages). The folder of the newstests is $UT_KERAS_SHARED/data/wmt. The default of
$UT_KERAS_SHARED is the folder `shared` next to the checkout. The vocabulary is built from
newstest2013 and newstest2014, so that a few characters of the text must be escaped. All encoders
are measured in turn, so that other load on the machine affects all of them. The most reliable
results are the ratios.

In the first pass, the encoder is new and has no word in its cache. The second pass encodes the same
sentences again, so that the caches of ut_keras and T2T contain all words. `encode_ragged` returns
the ids as two arrays. `encode_batch`, `encode` and T2T return lists. Data generation of ut_keras
encodes in one process per core, and each process has its own encoder. T2T uses one process.

"times T2T's speed" compares wall times. "per core" compares the CPU times, summed over all
processes. If other programs are running, "per core" is the better value. The ids of all encoders
must be equal.
"""

import argparse
import contextlib
import glob
import hashlib
import multiprocessing
import os
import platform
import statistics
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from train_step import cpu_name
from worker import Worker

from ut_keras import process
from ut_keras.text import subword_batch, subword_vocabulary, text_encoder, tokenizer_batch
from ut_keras.text.ragged_ids import RaggedIds

SHARED = os.environ.get("UT_KERAS_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
MIN_COUNT = 4  # with this value, the vocabulary has about 8,000 subwords


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
    """Measure all encoders in turn, and print one line for each of them."""
    num_processes = process.num_processors()
    sides = {
        f"encode_ragged, {num_processes} processes": Processes(vocab, texts, num_processes),
        "encode_ragged": UtKerasEncoder(vocab, texts, "encode_ragged"),
        "encode_batch": UtKerasEncoder(vocab, texts, "encode_batch"),
        "encode": UtKerasEncoder(vocab, texts, "encode"),
    }
    if args.with_t2t:
        sides["T2T"] = T2TEncoder(args.with_t2t, vocab, text_file)
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
        raise SystemExit("error: the ids of all encoders must be equal. Received: different ids.")
    for which in passes:
        print(f"\n{which}, sentences per second (median of {args.rounds}, min, max)")
        for name in sides:
            rates = sorted(len(texts) / wall for wall, _ in seconds[name, which])
            shown = (statistics.median(rates), rates[0], rates[-1])
            line = f"  {name:26}" + " ".join(f"{rate:11,.0f}" for rate in shown)
            line += ratio_text(seconds["T2T", which], seconds[name, which]) if args.with_t2t else ""
            print(line)
    print("\nthe ids of all encoders are equal")
    compare_building(texts, sides.get("T2T"))


def compare_building(texts, t2t):
    """Measure the time to count tokens and to build one vocabulary."""
    start, cpu_start = time.perf_counter(), time.process_time()
    counts = tokenizer_batch.count(texts)
    subtokens = subword_vocabulary.VocabularyBuilder(counts).build(MIN_COUNT)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    print(f"\na vocabulary of {len(subtokens):,} from {len(counts):,} tokens: {wall:.2f} s", end="")
    if t2t:
        their_wall, their_cpu, digest = t2t.build()
        if digest != hashlib.sha256("\n".join(subtokens).encode()).hexdigest():
            raise SystemExit("error: the vocabularies must be equal. Received: different ones.")
        print(
            f"; T2T {their_wall:.2f} s" + ratio_text([(their_wall, their_cpu)], [(wall, cpu)]),
            end="",
        )
    print()


def ratio_text(t2t_times, ut_keras_times):
    """Return the ratios of two encoders as text.

    Each ratio is the median of the ratios of all rounds, not the ratio of two medians.
    """
    wall, cpu = (
        statistics.median(t[i] / o[i] for t, o in zip(t2t_times, ut_keras_times, strict=True))
        for i in (0, 1)
    )
    return f"   {wall:5.1f} times T2T's speed, per core {cpu:5.1f}"


class UtKerasEncoder:
    """The encoder of ut_keras, which is called through one of its methods."""

    def __init__(self, vocab, texts, method):
        self._vocab, self._texts, self._method = vocab, texts, method
        self._encoder = text_encoder.SubwordTextEncoder(vocab)
        self._encoder.encode_batch(texts[:2000])  # this call loads TensorFlow

    def new(self):
        self._encoder = text_encoder.SubwordTextEncoder(self._vocab)
        subword_batch.batch_encoder_for.cache_clear()
        self._encoder.encode_batch([""] * 2000)  # this call makes the tables of the encoder

    def encode(self):
        wall, cpu, ids = self.timed()
        return wall, cpu, digest_of(ids)

    def timed(self):
        """Return (wall seconds, CPU seconds, ids)."""
        start, cpu_start = time.perf_counter(), time.process_time()
        if self._method == "encode":
            ids = [self._encoder.encode(text) for text in self._texts]
        else:
            ids = getattr(self._encoder, self._method)(self._texts)
        return time.perf_counter() - start, time.process_time() - cpu_start, ids


class Processes:
    """The method `encode_ragged` in several processes.

    The ids stay in the processes. Data generation works in the same way, because each process
    writes files.
    """

    def __init__(self, vocab, texts, num_processes):
        context = multiprocessing.get_context("spawn")
        self._connections = []
        for i in range(num_processes):
            share = texts[len(texts) * i // num_processes : len(texts) * (i + 1) // num_processes]
            parent_end, child_end = context.Pipe()
            context.Process(target=_run_worker, args=(child_end, vocab, share), daemon=True).start()
            self._connections.append(parent_end)
        self._request("new")

    def _request(self, request):
        for connection in self._connections:
            connection.send(request)
        return [connection.recv() for connection in self._connections]

    def new(self):
        self._request("new")

    def encode(self):
        start = time.perf_counter()
        cpu = sum(self._request("encode"))
        wall = time.perf_counter() - start
        return wall, cpu, digest_of(RaggedIds.concatenate(self._request("ids")))


def _run_worker(connection, vocab, texts):
    side = UtKerasEncoder(vocab, texts, "encode_ragged")
    ids = None
    with contextlib.suppress(EOFError):  # EOF means that the benchmark has ended
        while True:
            request = connection.recv()
            if request == "encode":
                _, cpu, ids = side.timed()
                connection.send(cpu)
            elif request == "ids":
                connection.send(ids)
            else:
                connection.send(side.new())


def digest_of(ids):
    """Return a digest of the ids, with a -1 after the ids of every text."""
    ragged = ids if isinstance(ids, RaggedIds) else RaggedIds.from_lists(ids)
    return hashlib.sha256(ragged.append(-1).values.tobytes()).hexdigest()


class T2TEncoder(Worker):
    """T2T's encoder in another process."""

    def __init__(self, python, vocab, text_file):
        worker = os.path.join(HERE, "t2t", "text_worker.py")
        super().__init__([python, worker, vocab, text_file, str(MIN_COUNT)])

    def new(self):
        self.send("new")

    def encode(self):
        return self.request("encode")

    def build(self):
        """Return (wall seconds, CPU seconds, digest of the vocabulary)."""
        return self.request("build")


def read_texts(folder):
    """Return (all distinct sentences, the sentences for the vocabulary)."""
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
    counts = tokenizer_batch.count(texts)
    subtokens = subword_vocabulary.VocabularyBuilder(counts).build(MIN_COUNT)
    text_encoder.SubwordTextEncoder(subtokens=subtokens).store_to_file(path)


if __name__ == "__main__":
    main()
