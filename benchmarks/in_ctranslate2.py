"""Compare the outputs and the speed of a `transformer` in ut_keras and in CTranslate2.

    python benchmarks/in_ctranslate2.py --output_dir=run --decode_from_file=test.en

Both libraries translate 200 sentences in batches of 32 with one thread, by greedy search and with 4
beams. The libraries are measured three times in turn. The fastest time of each library counts. In
beam search, alpha is 0, because the length penalties of the two libraries differ.
"""

import argparse
import os
import platform
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import ctranslate2
import tensorflow as tf

import ut_keras
from ut_keras import export
from ut_keras.inference import ctranslate2_export
from ut_keras.text.text_encoder_base import EOS, cut_at_eos

BATCH, EXTRA_LENGTH, ROUNDS = 32, 50, 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output_dir", required=True, help="output folder of a run of the model transformer"
    )
    parser.add_argument(
        "--decode_from_file", required=True, help="text file with one source sentence per line"
    )
    parser.add_argument("--sentences", type=int, default=200)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    run = ut_keras.load(args.output_dir)
    with open(args.decode_from_file, encoding="utf-8", newline="\n") as file:
        lines = [line.strip() for line in file][: args.sentences]
    sources = sorted(([*run.encoders["inputs"].encode(line), EOS] for line in lines), key=len)
    print(f"machine: {platform.machine()}, Python {platform.python_version()}, one thread")
    print(
        f"\n| {len(sources)} sentences | same as ut_keras | seconds | speed relative to ut_keras |"
    )
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        systems = {"ut_keras": lambda rows, beams: decode_with_ut_keras(run.model, rows, beams)}
        for quantize in ("", "float16", "int8"):
            path = os.path.join(folder, f"served{quantize}")
            export.export_ctranslate2(run.model, run.encoders, path, quantize)
            compute = "int8" if quantize == "int8" else "float32"
            translator = ctranslate2.Translator(path, intra_threads=1, compute_type=compute)
            name = f"CTranslate2, {quantize or 'float32'}"
            systems[name] = lambda rows, beams, translator=translator: decode_with_ctranslate2(
                translator, rows, beams
            )
        for beams in (1, 4):
            written, seconds = measure(systems, sources, beams)
            for name in systems:
                same = sum(a == b for a, b in zip(written[name], written["ut_keras"], strict=True))
                ratio = seconds["ut_keras"] / seconds[name]
                print(f"| {name}, {beams} beams | {same} | {seconds[name]:.2f} | {ratio:.2f} |")


def measure(systems, sources, beams):
    """Return ({name: output ids of each source}, {name: seconds})."""
    written, seconds = {}, {name: [] for name in systems}
    batches = [sources[at : at + BATCH] for at in range(0, len(sources), BATCH)]
    for round_number in range(ROUNDS + 1):  # round 0 includes tracing and is not measured
        for name, translate in systems.items():
            start = time.perf_counter()
            written[name] = [row for batch in batches for row in translate(batch, beams)]
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return written, {name: min(values) for name, values in seconds.items()}


def decode_with_ut_keras(model, rows, beams):
    """Return the output ids of ut_keras for a batch of source ids."""
    ids = tf.ragged.constant(rows, tf.int32).to_tensor()
    found = model.generate({"inputs": ids}, beams, 0.0, EXTRA_LENGTH)
    return [cut_at_eos(row) for row in found.ids[:, 0].numpy().tolist()]


def decode_with_ctranslate2(translator, rows, beams):
    """Return the output ids of CTranslate2 for a batch of source ids."""
    found = translator.translate_batch(
        [[str(i) for i in row] for row in rows],
        beam_size=beams,
        **ctranslate2_export.OPTIONS,
        max_decoding_length=max(map(len, rows)) + EXTRA_LENGTH,
    )
    return [[int(word) for word in result.hypotheses[0]] for result in found]


if __name__ == "__main__":
    main()
