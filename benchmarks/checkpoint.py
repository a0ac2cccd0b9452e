"""Measure how long training waits for a checkpoint, and how long a thread writes the checkpoint.

    python benchmarks/checkpoint.py
    python benchmarks/checkpoint.py --hidden_size=1024

The trainer first copies the state to host memory. Training waits for this copy. A thread then
writes the copy to the disk while training continues. The state contains the weights of a Universal
Transformer and two values of Adam per weight. The vocabulary has 32,768 subwords.

The first checkpoint is not measured, because it also allocates the memory of the copy. The times
are medians over the rounds. On a GPU, the copy also moves the state from the GPU to the host.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from train_step import cpu_name
from worker import rounds

VOCAB = 32_768


def main(argv=None):
    """Print the size of a checkpoint and the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=rounds, default=8)
    parser.add_argument("--hidden_size", type=int, default=512)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(folder, args.hidden_size, args.rounds)
    megabytes = found.pop("bytes") / 1e6
    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"hidden_size={args.hidden_size}, {megabytes:,.0f} MB")
    for name, seconds in found.items():
        print(f"  {name:24} {1e3 * statistics.median(seconds):6.0f} ms")


def measure(folder, hidden_size, count, vocab=VOCAB):
    """Save checkpoints, and return their size and the seconds of each part.

    Args:
        folder: str, an empty folder.
        hidden_size: int.
        count: int, the number of measured checkpoints.
        vocab: int, the size of the vocabulary.

    Returns:
        dict with "bytes", the size of a checkpoint, and two lists of seconds.
    """
    from ut_keras import hparams, models, optimizers
    from ut_keras.checkpoints import checkpoint

    hp = hparams.get("universal_transformer_base", f"hidden_size={hidden_size}")
    vocab_sizes = {"inputs": vocab, "targets": vocab}
    model = models.get("universal_transformer", hp, vocab_sizes=vocab_sizes)
    optimizer = optimizers.get(hp)
    optimizer.build(model.trainable_variables)
    checkpoints = checkpoint.Checkpoints(folder, model, optimizer, keep=1)
    waiting, writing = [], []
    for number in range(count + 1):
        optimizer.iterations.assign_add(1)
        started = time.perf_counter()
        checkpoints.start_saving()
        copied = time.perf_counter()
        checkpoints.finish_saving()
        if number:  # the first checkpoint is a warm-up and is not measured
            waiting.append(copied - started)
            writing.append(time.perf_counter() - copied)
    size = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    return {"bytes": size, "training waits": waiting, "the thread writes": writing}


if __name__ == "__main__":
    main()
