"""Count the operations of a search for each position, and the shapes that XLA compiles.

    python benchmarks/decode_operations.py                # the operations and the shapes
    python benchmarks/decode_operations.py --shapes       # only the shapes, in a second

The first table needs no GPU, because the search is traced, not run. Without XLA, each operation in
the loop over positions launches at least one kernel on a GPU. With XLA, one program computes the
complete search. The table shows the operations in the bodies of all loops: TensorFlow's operations
without XLA, and the instructions of XLA's program for the CPU after XLA's optimizations. A fusion
of several operations is one instruction. Each body counts once, not once per iteration.

The second table plans the batches of 200 sentences of random lengths as ut-decoder and
run.translate do. It compares the batches without XLA, the same batches padded to powers of two, and
the batches that are planned for XLA. "padding" is the number of positions, padding included. It is
divided by the same number for the batches without XLA.
"""

import argparse
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.dirname(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

MODELS = ("universal_transformer", "adaptive_universal_transformer", "transformer")
STEPS = 6
SENTENCES, LONGEST = 200, 60
_INVISIBLE = ("parameter", "tuple", "get-tuple-element", "constant", "bitcast")


def main(argv=None):
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="some of the models")
    parser.add_argument("--beam_sizes", default="1,4", help="numbers of beams")
    parser.add_argument("--hidden_size", type=int, default=256)
    parser.add_argument("--shapes", action="store_true", help="print only the shapes")
    args = parser.parse_args(argv)
    names = args.models.split(",")
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"--models must be some of {', '.join(MODELS)}. Received: {unknown[0]!r}.")
    beam_sizes = [int(size) for size in args.beam_sizes.split(",")]
    if not args.shapes:
        print(f"{'operations in loops':34}{'beams':>7}{'without XLA':>14}{'with XLA':>14}")
        for name in names:
            for beam_size in beam_sizes:
                numbers = operations(name, beam_size, args.hidden_size)
                shown = "".join(f"{number:14,}" for number in numbers)
                print(f"{name:34}{beam_size:7}{shown}", flush=True)
    columns = ("batches", "shapes", "padding")
    print(f"\n{'batches of 200 sentences':26}{'planned':16}{''.join(f'{c:>9}' for c in columns)}")
    for name, plans in shapes().items():
        for planned, (batches, number, padding) in plans.items():
            print(f"{name:26}{planned:16}{batches:9}{number:9}{padding:9.2f}")
    return 0


def operations(name, beam_size, hidden_size=256, vocab_size=8000, shape=(16, 32)):
    """Return (number without XLA, number with XLA) of operations in the loops of a search."""
    import operations as training_operations
    import tensorflow as tf

    from ut_keras import hparams, models
    from ut_keras.decoding import generate, options

    depth = f"num_hidden_layers={STEPS}"
    if name != "transformer":
        depth = f"num_rec_steps={STEPS},act_max_steps={STEPS}"
    hp = hparams.get(
        f"{name}_base", f"hidden_size={hidden_size},filter_size={4 * hidden_size},{depth}"
    )
    sizes = {"inputs": vocab_size, "targets": vocab_size}
    model = models.get(name.removeprefix("adaptive_"), hp, vocab_sizes=sizes)
    search = options.Options(beam_size=beam_size, per_example_length=True)
    trace_options = generate.options_of_trace(search)
    plain = generate.traced_search(model, shape, trace_options).get_concrete_function()
    counts = training_operations.counted(plain.graph.as_graph_def())
    values = {name: tf.zeros([], dtype) for name, dtype in options.NUMBERS.items()}
    values = {**values, "seed": tf.zeros([2], tf.int32)}
    del values["decode_length"]
    rows = {
        "inputs": tf.zeros(shape, tf.int32),
        "forced_prefix": tf.zeros([shape[0], 1], tf.int32),
        "max_output_length": tf.zeros(shape[:1], tf.int32),
    }
    decode_length = search.decode_length
    compiled = generate.xla_search_function(model, trace_options, decode_length, rows, values)
    program = compiled.experimental_get_compiler_ir(rows, values)(stage="optimized_hlo")
    return sum(counts["loop"].values()), in_loops(program)


def in_loops(program):
    """Return the number of instructions in the bodies of all loops of an HLO program.

    Args:
        program: str, the text of the program.
    """
    bodies, number, is_body = set(re.findall(r"body=%?([\w.-]+)", program)), 0, False
    for line in program.splitlines():
        if start := re.match(r"(?:ENTRY )?%?([\w.-]+) .*\{$", line):
            is_body = start[1] in bodies
        elif is_body and (found := re.match(r"\s+(?:ROOT )?%?[\w.-]+ = .*? ([a-z-]+)\(", line)):
            number += found[1] not in _INVISIBLE
    return number


def shapes(sentences=SENTENCES, longest=LONGEST):
    """Return {program: {how the batches are planned: (batches, shapes, padding)}}."""
    import numpy as np

    from ut_keras.decoding import batch_plan
    from ut_keras.decoding.xla_search import LEAST_LENGTH, bucket, plan_powers

    lengths = np.random.default_rng(0).integers(1, longest + 1, sentences).tolist()
    limits_by_program = {
        "ut-decoder, 4 beams": (8192 // 4, 128),
        "ut-decoder, 1 beam": (8192, 128),
        "run.translate": (8192, 64),
        "one sentence at a time": (0, 1),
    }

    def shapes_of(batches):
        return [(len(batch), max(lengths[row] for row in batch)) for batch in batches]

    def padded(shapes):
        return [(bucket(size), bucket(length, LEAST_LENGTH)) for size, length in shapes]

    results = {}
    for name, limits in limits_by_program.items():
        plain = shapes_of(batch_plan.plan(lengths, *limits))
        plans = {
            "without XLA": plain,
            "padded": padded(plain),
            "for XLA": padded(shapes_of(plan_powers(lengths, *limits))),
        }
        least = sum(size * length for size, length in plain)
        results[name] = {
            planned: (len(found), len(set(found)), sum(a * b for a, b in found) / least)
            for planned, found in plans.items()
        }
    return results


if __name__ == "__main__":
    sys.exit(main())
