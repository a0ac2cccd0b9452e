"""Measure how inference time depends on ponder time in the Adaptive Universal Transformer.

    python benchmarks/ponder.py
    python benchmarks/ponder.py --batch=64 --length=64 --hidden_size=512 --steps=6 --rounds=5

With `act_halted_state=copy`, a step computes only the positions that have not halted. The benchmark
sets halting biases that give different mean ponder times p. It compares the times with the time of
a model of full depth. The model of full depth has the same weights, but uses
`act_halted_state=transform`, so it computes every position in each of the N steps.

"share" is the time divided by the time of the full depth. If the time were proportional to the
number of computed positions, the share would be p/N. The aim is a share of at most 1.25 p/N.
The printed number of operations includes only matrix products and is computed from the ponder
times. Only the encoder is measured, in float32. As in `ut-decoder`, every core computes a part of
each batch.
"""

import argparse
import os
import random
import statistics
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from train_step import cpu_name

_NEVER = -30.0  # a halting bias with which positions never halt before the last step


def main():
    args = _parse()
    import tensorflow as tf

    from ut_keras.decoding import parallel_batch

    tf.config.threading.set_intra_op_parallelism_threads(1)  # ut-decoder uses the same setting
    full, model = _model(args, "transform"), _model(args, "copy")
    inputs = _inputs(args)

    def compiled(model):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
        def encode(inputs):
            return model.encode({"inputs": inputs}).stack

        return encode

    encode_fully, encode = compiled(full), compiled(model)
    target_times = np.linspace(args.steps, 1, args.points)
    biases = [_NEVER, *(_bias_for(model, encode, inputs, p, args.steps) for p in target_times)]
    seconds = [[] for _ in biases]
    ponder = [None] * len(biases)
    for round_number in range(args.rounds + 1):
        for index in random.sample(range(len(biases)), len(biases)):
            _set_bias(model if index else full, biases[index])
            started = time.perf_counter()
            parts = parallel_batch.run(encode if index else encode_fully, inputs)
            ponder[index] = np.concatenate([part.ponder_times for part in parts])
            if round_number:  # round 0 is a warm-up and is not measured
                seconds[index].append(time.perf_counter() - started)
    print(f"{args.batch} x {args.length} positions, hidden {args.hidden_size}, N={args.steps}")
    print(f"machine: {cpu_name()}")
    print("  mean p   seconds   GFLOP   share    p/N   share : p/N")
    for index, times in enumerate(seconds):
        pairs = zip(times, seconds[0], strict=True)
        share = statistics.median(own / all_steps for own, all_steps in pairs)
        mean, gflop = float(np.mean(ponder[index])), _gflop(args, ponder[index])
        part = mean / args.steps
        print(
            f"  {mean:6.2f}  {statistics.median(times):8.3f}  {gflop:6.1f}"
            f"  {share:6.3f}  {part:5.3f}  {share / part:6.2f}{'' if index else '  full depth'}"
        )


def _parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--hidden_size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--points", type=int, default=6, help="number of ponder times to measure")
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def _model(args, halted_state):
    from ut_keras import hparams, models

    overrides = (
        f"hidden_size={args.hidden_size},filter_size={4 * args.hidden_size},num_heads=8,"
        f"act_max_steps={args.steps},act_halted_state={halted_state}"
    )
    hp = hparams.get("adaptive_universal_transformer_base", overrides)
    model = models.get("universal_transformer", hp, vocab_sizes={"inputs": 8000, "targets": 8000})
    for number, variable in enumerate(model.variables):
        initial = np.random.RandomState(number).normal(size=variable.shape)
        if variable.path.endswith("kernel"):
            variable.assign(initial * variable.shape[0] ** -0.5)
    kernel = model.encoder.depth.halting.kernel
    # With a random kernel, positions halt at different steps.
    kernel.assign(np.random.RandomState(0).normal(size=kernel.shape) * args.hidden_size**-0.5)
    return model


def _inputs(args):
    import tensorflow as tf

    random_ids = np.random.RandomState(1).randint(2, 8000, (args.batch, args.length))
    return tf.constant(random_ids, tf.int32)


def _set_bias(model, bias):
    model.encoder.depth.halting.bias.assign([bias])


def _bias_for(model, encode, inputs, ponder, steps):
    """Return the halting bias for a mean ponder time, found by bisection."""
    if ponder >= steps:
        return _NEVER
    low, high = -20.0, 20.0
    for _ in range(12):
        middle = (low + high) / 2
        _set_bias(model, middle)
        mean = float(np.mean(encode(inputs[:8]).ponder_times))
        low, high = (middle, high) if mean > ponder else (low, middle)
    return high


def _gflop(args, ponder):
    """Return the GFLOP of the matrix products for the ponder times [B, S].

    In a step, each position that has not halted needs four projections and the transition.
    Attention computes the same number of queries for every example. This number is the largest
    number of running positions in any example. The keys and values of a halted position are
    projected once more if other positions of its example continue.
    """
    size = args.hidden_size
    running = ponder[..., np.newaxis] > np.arange(args.steps)  # [B, S, N]
    queries = len(ponder) * np.max(np.sum(running, axis=1), axis=0).sum()
    seen = np.sum(ponder < ponder.max(axis=1, keepdims=True))
    dense = 2 * (4 * size**2 + 8 * size**2) * running.sum() + 2 * 2 * size**2 * seen
    return (dense + 2 * 2 * args.length * size * queries) / 1e9


if __name__ == "__main__":
    main()
