"""Measure size, speed and quality of a model in LiteRT, with 32, 16 and 8 bits per weight.

    python benchmarks/on_device.py
    python benchmarks/on_device.py --output_dir=run --decode_from_file=test.en \\
      --decode_reference=test.de --source_length=64 --extra_length=50

Without a run, the benchmark trains an adaptive model for some hundred steps to reverse strings of
up to 10 digits. The quality is then the share of correct outputs for 300 strings of the dev split.
With a run, the quality is sacreBLEU's BLEU.

The interpreter decodes the ids of one sentence at a time by greedy search with one thread. The time
is the median over the sentences. "TensorFlow" means `model.generate` on the same sentences, also
one at a time with one thread. All variants decode a sentence before the next sentence begins. The
size is the size of the file.
"""

import argparse
import os
import platform
import statistics
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from ut_keras import export
from ut_keras.text.text_encoder import EOS
from ut_keras.text.text_encoder_base import cut_at_eos

try:
    from ai_edge_litert.interpreter import Interpreter
except ImportError:
    Interpreter = tf.lite.Interpreter


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output_dir", help="output folder of a run (default: train a small model)"
    )
    parser.add_argument("--decode_from_file", help="text file with one source per line")
    parser.add_argument("--decode_reference", help="text file with the reference outputs")
    parser.add_argument("--source_length", type=int, default=11)
    parser.add_argument("--extra_length", type=int, default=2)
    parser.add_argument("--train_steps", type=int, default=800)
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    model, sources, quality, quality_name = (
        load_run(args) if args.output_dir else train_model(args.train_steps)
    )
    sources = [[*ids[: args.source_length - 1], EOS] for ids in sources]
    print(f"machine: {platform.machine()}, Python {platform.python_version()}, one thread")
    print(f"weights: {4 * sum(np.prod(v.shape) for v in model.trainable_variables) / 1e6:.2f} MB")
    print(f"\n| | MB | ms per sentence | {quality_name} |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        systems = {"TensorFlow": by_tensorflow(model, args)}
        sizes = {}
        for quantize in ("", "float16", "int8"):
            name, length = quantize or "float32", args.source_length
            path = os.path.join(folder, f"{name}.tflite")
            export.export_litert(model, path, length, args.extra_length, quantize=quantize)
            systems[name], sizes[name] = by_litert(path, length), os.path.getsize(path)
        outputs, seconds = measure(systems, sources)
    for name in systems:
        size = f"{sizes[name] / 1e6:.2f}" if name in sizes else ""
        print(f"| {name} | {size} | {1e3 * seconds[name]:.1f} | {quality(outputs[name])} |")


def measure(systems, sources):
    """Return ({name: output ids of each source}, {name: seconds})."""
    outputs, times = {name: [] for name in systems}, {name: [] for name in systems}
    for decode in systems.values():
        decode(sources[0])  # the first call includes tracing and is not measured
    for ids in sources:
        for name, decode in systems.items():
            start = time.perf_counter()
            result = decode(ids)
            times[name].append(time.perf_counter() - start)
            outputs[name].append(cut_at_eos(result))
    return outputs, {name: statistics.median(values) for name, values in times.items()}


def by_tensorflow(model, args):
    """Return a function that converts source ids to output ids with `model.generate`."""

    def decode(ids):
        found = model.generate({"inputs": np.int32([ids])}, decode_length=args.extra_length)
        return found.ids[0, 0].numpy()

    return decode


def by_litert(path, length):
    """Return a function that converts source ids to output ids with a LiteRT file."""
    run = Interpreter(path, num_threads=1).get_signature_runner("generate")

    def decode(ids):
        padded = np.zeros([1, length], np.int32)
        padded[0, : len(ids)] = ids
        return run(inputs=padded)["outputs"][0, 0]

    return decode


def train_model(steps):
    """Train a model, and return (model, sources, quality function, name of the quality)."""
    import keras

    from ut_keras import hparams, models, optimizers, problems

    keras.utils.set_random_seed(1)
    problem = problems.get("algorithmic_reverse_decimal40_held_out")
    hp = hparams.get("adaptive_universal_transformer_quick", "max_length=11,batch_size=512")
    with tempfile.TemporaryDirectory() as folder:
        problem.generate_data(folder, folder)
        model = models.get("universal_transformer", hp, problem, folder)
        model.compile(optimizers.get(hp, train_steps=steps))
        train = problem.dataset("train", folder, hp).repeat()
        model.fit(train, steps_per_epoch=steps, shuffle=False, verbose=2)
        rows = []
        for features, *_ in problem.dataset("dev", folder, hp):
            rows += [cut_at_eos(row) for row in features["inputs"].numpy().tolist()]
    sources = [row for row in rows if 1 <= len(row) <= 10][:300]

    def quality(outputs):
        correct = sum(source == found[::-1] for source, found in zip(sources, outputs, strict=True))
        return f"{correct / len(sources):.1%}"

    return model, sources, quality, f"correct of {len(sources)}"


def load_run(args):
    """Load a run and its files, and return the same values as `train_model`."""
    import ut_keras
    from ut_keras import problems
    from ut_keras.inference import run_json
    from ut_keras.text import sacre_bleu, text_lines

    run = ut_keras.load(args.output_dir)
    name = run_json.read(args.output_dir).get("problem", "")
    languages = problems.get(name).feature_languages() if name else {}
    bleu = sacre_bleu.metric(language=languages.get("targets", ""))
    lines = map(str.strip, text_lines.lines(args.decode_from_file))
    sources = [run.encoders["inputs"].encode(line) for line in lines]
    references = [line.strip() for line in text_lines.lines(args.decode_reference)]

    def quality(outputs):
        texts = [run.encoders["targets"].decode(ids) for ids in outputs]
        return f"{bleu.corpus_score(texts, [references]).score:.2f}"

    return run.model, sources, quality, "BLEU"


if __name__ == "__main__":
    main()
