"""Measure the CPU time of greedy and beam search by the length of the output.

    python benchmarks/long_output.py
    python benchmarks/long_output.py --with_before=old_checkout --with_ctranslate2
    python benchmarks/long_output.py --with_before=old_checkout --dtype=bfloat16

By default, the model has hidden size 256, filter size 1024, 4 heads, 6 layers or steps, a
vocabulary of 2000 and random weights. It decodes 2 sentences of 32 tokens with one thread. To
prevent EOS, the vector of EOS in the tied embedding is zero.

Each version of ut_keras and CTranslate2 runs in its own process, called a side. The sides take
turns of one search each. The first two searches of each side are not measured, because they trace
the graph. The benchmark stops with an error if a side writes fewer tokens than the requested
length. The exponent says how the CPU time grows: if the output has n times as many tokens, the
search takes n^exponent times as long.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from worker import Worker, add_with_before, rounds

MODELS = {
    "transformer": ("transformer_base", "num_hidden_layers=6"),
    "universal_transformer": ("universal_transformer_base", "num_rec_steps=6"),
}
BATCH, SOURCE, VOCAB, EOS = 2, 32, 2000, 1
WARM_UP = 2  # number of searches that are not measured


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument(
        "--with_ctranslate2", action="store_true", help="compare with CTranslate2, in float32"
    )
    parser.add_argument("--model", default="transformer", choices=MODELS)
    parser.add_argument("--hidden_size", type=int, default=256)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--beams", default="1,4", help="numbers of beams; 1 is greedy")
    parser.add_argument("--lengths", default="64,256,1024", help="numbers of tokens of an output")
    parser.add_argument("--rounds", type=rounds, default=3)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(**json.loads(args.worker))
        return
    # This import puts the current checkout first in sys.path. A worker process does not import the
    # module, because the worker may measure another version of ut_keras.
    from train_step import cpu_name

    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    settings = {"name": args.model, "hidden_size": args.hidden_size, "dtype": args.dtype}
    shown = f"{args.model}, hidden size {args.hidden_size}, {args.dtype}"
    print(f"{shown}, one thread, median of {args.rounds} turns")
    sides = {"ut_keras": start(ROOT, settings)}
    if args.with_before:
        sides["older version"] = start(os.path.abspath(args.with_before), settings)
    if args.with_ctranslate2:
        sides["CTranslate2"] = start(ROOT, settings, in_ctranslate2=True)
    lengths = [int(length) for length in args.lengths.split(",")]
    for beams in args.beams.split(","):
        compare(sides, int(beams), lengths, args.rounds)


def compare(sides, beams, lengths, number_of_rounds):
    """Measure all sides and lengths for one number of beams, and print a table."""
    seconds = {name: {length: [] for length in lengths} for name in sides}
    for length in [min(lengths)] * WARM_UP:
        for side in sides.values():
            side.request(json.dumps({"beams": beams, "length": length}))
    for length in lengths * number_of_rounds:
        for name, side in sides.items():
            result = side.request(json.dumps({"beams": beams, "length": length}))
            if result["written"] != length:
                raise SystemExit(f"{name} must write {length} tokens. Received: {result}.")
            seconds[name][length].append(result["cpu"])
    print(f"\n{'greedy' if beams == 1 else f'beam {beams}'}\n  tokens  CPU seconds, ratios")
    for length in lengths:
        columns = []
        for name in sides:
            text = f"{name} {statistics.median(seconds[name][length]):.3f}"
            if name != "ut_keras":
                pairs = zip(seconds["ut_keras"][length], seconds[name][length], strict=True)
                ratio = statistics.median(ours / other for ours, other in pairs)
                text += f" (ut_keras / {name}: {ratio:.2f})"
            columns.append(text)
        print(f"  {length:6}  {'; '.join(columns)}", flush=True)
    for name in sides:
        for first, last in zip(lengths, lengths[1:], strict=False):
            cpu = [statistics.median(seconds[name][length]) for length in (first, last)]
            exponent = math.log(cpu[1] / cpu[0]) / math.log(last / first)
            print(f"  {name}: exponent {exponent:.2f} from {first} to {last}", flush=True)


def start(checkout, settings, in_ctranslate2=False):
    """Return a side, which is a process that runs one search per request with one thread.

    Args:
        settings: dict, the arguments of `make_model`.
    """
    environment = {"PYTHONPATH": checkout, "OMP_NUM_THREADS": "1"}
    environment |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    variables = [f"{name}={value}" for name, value in environment.items()]
    worker = json.dumps({"settings": settings, "in_ctranslate2": in_ctranslate2})
    script = os.path.abspath(__file__)
    return Worker(["env", *variables, sys.executable, script, "--worker", worker])


def work(settings, in_ctranslate2):
    """Run one search for each line of the standard input."""
    import numpy as np

    made = make_model(**settings)
    search = _ctranslate2_search(made) if in_ctranslate2 else _search(made)
    sources = np.random.RandomState(1).randint(2, VOCAB, size=(BATCH, SOURCE)).astype("int32")
    for line in sys.stdin:
        request = json.loads(line)
        started = time.process_time()
        ids = search(sources, **request)
        cpu = time.process_time() - started
        print("RESULT " + json.dumps({"cpu": cpu, "written": min(map(len, ids))}), flush=True)


def make_model(name, hidden_size, dtype):
    """Return the model that all sides run. The model has the same weights in every process."""
    import tensorflow as tf

    from ut_keras import hparams, models

    tf.keras.utils.set_random_seed(1)
    hparams_set, depth = MODELS[name]
    model = models.get(
        name,
        hparams.get(
            hparams_set,
            f"hidden_size={hidden_size},filter_size={4 * hidden_size},num_heads=4,"
            f"activation_dtype={dtype},{depth}",
        ),
        vocab_sizes={"inputs": VOCAB, "targets": VOCAB},
    )
    table = model.softmax.embedding.numpy()
    table[EOS] = 0
    model.softmax.embedding.assign(table)
    return model


def _search(model):
    def search(sources, beams, length):
        found = model.generate(
            {"inputs": sources}, beam_size=beams, alpha=0.0, decode_length=length - SOURCE
        )
        return found.ids[:, 0].numpy()

    return search


def _ctranslate2_search(model):
    import ctranslate2

    from ut_keras import export
    from ut_keras.inference import ctranslate2_export
    from ut_keras.text.text_encoder import IntegerTextEncoder

    words = IntegerTextEncoder(VOCAB)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "served")
        export.export_ctranslate2(model, {"inputs": words, "targets": words}, path)
        translator = ctranslate2.Translator(
            path, inter_threads=1, intra_threads=1, compute_type="float32"
        )

    def search(sources, beams, length):
        rows = [list(map(str, row)) for row in sources]
        found = translator.translate_batch(
            rows, beam_size=beams, **ctranslate2_export.OPTIONS, max_decoding_length=length
        )
        return [result.hypotheses[0] for result in found]

    return search


if __name__ == "__main__":
    main()
