"""Compare ut_keras' training step with a matrix product, T2T's step and PyTorch libraries' steps.

    python benchmarks/train_step.py
    python benchmarks/train_step.py --with_t2t=t2t_env/bin/python      # see t2t/requirements.txt
    python benchmarks/train_step.py --with_torch=peers_env/bin/python  # see peers/requirements.txt
    python benchmarks/train_step.py --with_before=old_checkout         # an older version

The models have hidden size 256, filter size 1024, 4 heads, 6 steps and a vocabulary of 8000. A
batch has 16 x (32 source + 32 target) tokens. Dropout is 0.1, and the optimizer is Adam. For each
model, the libraries take turns of two training steps, so that other load on the machine affects all
of them. One turn of every library is a round. The printed ratio is the median over the rounds.

"of matmul" compares two numbers of operations per second from the same run: the number for the
training step, and the number for a 2048 x 2048 float32 matrix product. The operations of a training
step are counted by the textbook formulas, for the number of steps in depth that a model really
takes. The Universal Transformer of ut_keras needs slightly fewer operations, because it projects
the encoder's output only once for all steps in depth.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from worker import Worker, add_with_before, rounds

SHAPE = {
    "hidden": 256,
    "filter": 1024,
    "heads": 4,
    "steps": 6,
    "vocab": 8000,
    "batch": 16,
    "source": 32,
    "target": 32,
    "dropout": 0.1,
    "halting_bias": -3.0,  # with this bias, all models compute the full depth with any weights
    "dtype": "float32",
}
MODELS = ("transformer", "universal_transformer", "adaptive_universal_transformer")
TORCH = ("x_transformers", "nn_transformer", "marian")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with_t2t", metavar="PYTHON", help="Python of T2T's environment")
    parser.add_argument("--with_torch", metavar="PYTHON", help="Python of PyTorch's environment")
    add_with_before(parser)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=rounds, default=24)
    parser.add_argument("--steps_per_round", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=SHAPE["dropout"])
    parser.add_argument("--dtype", default=SHAPE["dtype"], choices=("float32", "bfloat16"))
    parser.add_argument("--jit_compile", action="store_true")
    parser.add_argument("--serve", metavar="CHECKOUT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    SHAPE["dropout"], SHAPE["dtype"] = args.dropout, args.dtype
    if args.serve:
        return serve(args)
    print(f"machine: {cpu_name()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for model in args.models.split(","):
        if args.with_before:
            compare_with_before(model, args)
        else:
            compare(model, args)


def compare_with_before(model, args):
    """Measure this version and an older version in turn, each in its own process."""
    options = [f"--models={model}", f"--dropout={args.dropout}", f"--dtype={args.dtype}"]
    options += ["--jit_compile"] * args.jit_compile
    sides = {
        name: Worker([sys.executable, os.path.abspath(__file__), f"--serve={checkout}", *options])
        for name, checkout in (("now", os.path.dirname(HERE)), ("before", args.with_before))
    }
    seconds = {name: [] for name in sides}
    for number in range(args.rounds + 1):
        for name, side in sides.items():
            turn = side.request(args.steps_per_round)
            if number:  # round 0 is a warm-up and is not measured
                seconds[name].append(turn)
    print(f"\n{model}, {SHAPE['dtype']}:")
    for quantity in ("wall", "cpu"):
        now, before = ([turn[quantity] for turn in seconds[name]] for name in ("now", "before"))
        ratios = [a / b for a, b in zip(now, before, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        milliseconds = 1e3 * statistics.median(now) / args.steps_per_round
        print(
            f"  {quantity:4} {milliseconds:6.0f} ms per step, ratio to the older version "
            f"{middle:.3f} (quartiles {low:.3f}, {high:.3f})",
            flush=True,
        )
    for side in sides.values():
        side.close()


def serve(args):
    """Serve requests of `compare_with_before` with the ut_keras of one checkout."""
    sys.path.insert(0, os.path.abspath(args.serve))
    step = OurStep(args.models, args.jit_compile)
    for line in sys.stdin:
        cpu = time.process_time()
        wall = sum(step.run(int(line)))
        print("RESULT", json.dumps({"wall": wall, "cpu": time.process_time() - cpu}), flush=True)


def compare(model, args):
    """Measure one model of ut_keras and of other libraries in turn, and print a line for each."""
    matmul, our_step = make_matmul(), OurStep(model, args.jit_compile)
    others = {}
    if args.with_t2t:
        others["T2T"] = worker(args.with_t2t, "t2t", model)
    for name in TORCH if args.with_torch else ():
        others[name] = worker(args.with_torch, "peers", name)
    seconds = {side: [] for side in ("matmul", "ut_keras", *others)}
    ratios = {side: [] for side in others}
    for number in range(args.rounds + 1):
        times = {
            "matmul": time_matmul(matmul, 3),
            "ut_keras": our_step.run(args.steps_per_round),
        }
        for name, other in others.items():
            times[name] = other.request(args.steps_per_round)
        if number:  # round 0 is a warm-up and is not measured
            for side, values in times.items():
                seconds[side] += values
            for side in others:
                ratios[side].append(sum(times[side]) / sum(times["ut_keras"]))
    matmul_rate = 2 * 2048**3 / statistics.median(seconds.pop("matmul"))
    work = step_flop(our_step.encoder_steps, our_step.decoder_steps)
    print(
        f"\n{model}, {SHAPE['dtype']}: {work / 1e9:.1f} GFLOP per step "
        f"(steps of encoder and decoder: {our_step.encoder_steps} + "
        f"{our_step.decoder_steps}), matmul {matmul_rate / 1e9:.0f} GFLOP/s, "
        f"first step {our_step.first_step:.1f} s"
    )
    for side, values in seconds.items():
        print_line(side, values, work, matmul_rate)
    for side, other in others.items():
        low, middle, high = statistics.quantiles(ratios[side], n=4)
        print(f"  speed of ut_keras / {side}: {middle:.2f} (quartiles {low:.2f}, {high:.2f})")
        other.close()


def print_line(side, seconds, work, matmul_rate):
    median = statistics.median(seconds)
    tokens = SHAPE["batch"] * (SHAPE["source"] + SHAPE["target"]) / median
    print(
        f"  {side:14} {median * 1e3:6.0f} ms (min {min(seconds) * 1e3:.0f}, "
        f"max {max(seconds) * 1e3:.0f}, n {len(seconds)})  {tokens:6.0f} tokens/s  "
        f"{work / median / matmul_rate:4.0%} of matmul",
        flush=True,
    )


class OurStep:
    """The trainer's step on one fixed batch."""

    def __init__(self, name, jit_compile):
        import numpy as np
        import tensorflow as tf

        from ut_keras import hparams, models, optimizers
        from ut_keras.training import train_step

        tf.keras.utils.set_random_seed(1)
        strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        rng = np.random.RandomState(1)
        with strategy.scope():
            model = models.get(
                "transformer" if name == "transformer" else "universal_transformer",
                hparams.get(
                    "transformer_base" if name == "transformer" else name + "_base",
                    self._overrides(name),
                ),
                vocab_sizes={"inputs": SHAPE["vocab"], "targets": SHAPE["vocab"]},
            )
            optimizer = optimizers.get(model.hparams)
            optimizer.build(model.trainable_variables)
        features = {
            "inputs": self._ids(rng, SHAPE["source"]),
            "targets": self._ids(rng, SHAPE["target"]),
        }
        self.batch = (features, features["targets"])
        spec = tf.nest.map_structure(
            tf.TensorSpec.from_tensor, self.batch
        )  # the shapes are fixed, as in T2T
        self.step = train_step.make_train_step(model, optimizer, strategy, spec, jit_compile)
        start = time.perf_counter()
        float(self.step(self.batch).loss)
        self.first_step = time.perf_counter() - start
        output = model.forward(features, training=True)
        self.encoder_steps = self._depth(output.encoder)
        self.decoder_steps = self._depth(output.decoder)

    def run(self, steps):
        seconds = []
        for _ in range(steps):
            start = time.perf_counter()
            float(self.step(self.batch).loss)
            seconds.append(time.perf_counter() - start)
        return seconds

    @staticmethod
    def _overrides(name):
        steps = SHAPE["steps"]
        depth = f"num_hidden_layers={steps}"
        if name != "transformer":
            depth = f"num_rec_steps={steps},act_max_steps={steps}"
            depth += f",act_halting_bias_init={SHAPE['halting_bias']}"
        drop = SHAPE["dropout"]
        return (
            f"hidden_size={SHAPE['hidden']},filter_size={SHAPE['filter']},"
            f"num_heads={SHAPE['heads']},{depth},layer_prepostprocess_dropout={drop},"
            f"attention_dropout={drop},relu_dropout={drop},activation_dtype={SHAPE['dtype']}"
        )

    @staticmethod
    def _ids(rng, length):
        import tensorflow as tf

        ids = rng.randint(2, SHAPE["vocab"], size=(SHAPE["batch"], length)).astype("int32")
        ids[:, -1] = 1
        return tf.constant(ids)

    @staticmethod
    def _depth(stack):
        if stack.ponder_times is None:
            return SHAPE["steps"]
        return int(stack.ponder_times.numpy().max())


def worker(python, folder, name):
    """Return the `Worker` that measures the training step of another library."""
    file = os.path.join(HERE, folder, "train_worker.py")
    return Worker([python, file, name, json.dumps(SHAPE)])


def make_matmul():
    """Return a function that computes a product of 2048 x 2048 matrices."""
    import tensorflow as tf

    a = tf.random.normal([2048, 2048])
    return tf.function(lambda: tf.reduce_sum(tf.matmul(a, a)))


def time_matmul(matmul, count):
    """Return the seconds of each of `count` calls of `matmul`."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        float(matmul())
        seconds.append(time.perf_counter() - start)
    return seconds


def step_flop(encoder_steps, decoder_steps):
    """Return the number of operations of a forward and backward pass.

    A multiply-add counts as two operations.
    """
    d, f, batch = SHAPE["hidden"], SHAPE["filter"], SHAPE["batch"]
    s, t = SHAPE["source"], SHAPE["target"]
    encoder = s * (4 * d * d + 2 * d * f) + 2 * s * s * d
    decoder = t * (6 * d * d + 2 * d * f) + s * 2 * d * d + 2 * t * t * d + 2 * t * s * d
    logits = t * d * SHAPE["vocab"]
    forward = batch * (encoder * encoder_steps + decoder * decoder_steps + logits)
    return 3 * 2 * forward


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
