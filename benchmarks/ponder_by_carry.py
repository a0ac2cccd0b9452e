"""Measure the ponder times of a model of `addition10` by the distance of the carry.

    python benchmarks/ponder_by_carry.py
    python benchmarks/ponder_by_carry.py --output_dir=runs/addition --sums=2000

If the digits of a column sum to nine, the column passes on the carry that it gets. So the digit of
a column depends on the nearest column to its right whose digits do not sum to nine. The distance of
the carry is the number of columns between these two columns, plus one. The rightmost column gets no
carry, so its distance is 0. The benchmark samples sums as in the dev split. For each distance, it
prints a row with the number of columns, their mean ponder time in the encoder, and the share of
correct digits.
"""

import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ut_keras.text.text_encoder import EOS

BATCH = 250


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output_dir", default="addition10", help="a run of addition10")
    parser.add_argument("--sums", type=int, default=2000, help="number of sums")
    args = parser.parse_args()
    distances, times, correct = measure(args.output_dir, args.sums)
    print("| distance of the carry | columns | mean ponder time | correct digits |")
    print("| --- | --- | --- | --- |")
    for distance in np.unique(distances):
        chosen = distances == distance
        print(
            f"| {distance} | {chosen.sum():,} | {times[chosen].mean():.2f} | "
            f"{correct[chosen].mean():.4f} |"
        )
    print(f"| all | {len(times):,} | {times.mean():.2f} | {correct.mean():.4f} |")
    print(f"correlation of distance and ponder time: {np.corrcoef(distances, times)[0, 1]:.2f}")


def measure(output_dir, count):
    """Sample sums as in the dev split, and compute them with the model.

    Args:
        output_dir: str, the folder of a run or the name of a pretrained run.
        count: int. Number of sums.

    Returns:
        Three arrays with a value for each column of each sum: the distance of its carry, its ponder
        time, and whether its digit is correct.
    """
    import ut_keras
    from ut_keras import problems

    model, problem = ut_keras.load(output_dir).model, problems.get("addition10")
    encoders = problem.feature_encoders()
    rng = np.random.default_rng(0)
    samples = [problem.sample(rng, "dev") for _ in range(count)]
    found = [], [], []
    for batch in _batches(samples):
        features = {
            name: _padded([encoders[name].encode(sample[name]) for sample in batch])
            for name in ("inputs", "targets")
        }
        output = model.inspect(features, training=False)
        ids = output.logits.numpy().argmax(-1).reshape(len(batch), -1)
        ponder = output.encoder.ponder_times.numpy()
        for row, sample in enumerate(batch):
            needed = carry_distances(sample["inputs"])
            columns = slice(0, len(needed))
            found[0].extend(needed)
            found[1].extend(ponder[row, columns])
            found[2].extend(ids[row, columns] == features["targets"][row, columns])
    return tuple(map(np.array, found))


def carry_distances(inputs):
    """Return the distance of the carry of each column of a text such as "0+0 2+6 4+5 7+8"."""
    sums = [sum(map(int, column.split("+"))) for column in inputs.split()]
    return [
        next((d for d in range(1, len(after) + 1) if after[d - 1] != 9), len(after))
        for after in (sums[place + 1 :] for place in range(len(sums)))
    ]


def _batches(samples):
    return [samples[start : start + BATCH] for start in range(0, len(samples), BATCH)]


def _padded(sequences):
    ids = np.zeros((len(sequences), max(map(len, sequences)) + 1), np.int32)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        ids[row, len(sequence)] = EOS
    return ids


if __name__ == "__main__":
    main()
