"""Count the TensorFlow operations of one update, by type.

    python benchmarks/operations.py
    python benchmarks/operations.py --form=gpu                       # as traced on a GPU
    python benchmarks/operations.py --with_before=old_checkout       # an older version, too

On a GPU, the number of operations limits the speed of a small model, because each operation
launches at least one kernel. The update is traced, not run, so this program needs no GPU. Some
functions have one form for GPUs and another form for CPUs. With --form=gpu, they use the form for
GPUs.

The models are Universal Transformers with 6 steps. A batch of size a has 16 x (32 source + 32
target) tokens, with hidden size 256 and a vocabulary of 8000. A batch of size b has 64 x (128 +
128) tokens, with hidden size 1024 and a vocabulary of 32,768. The column "once" is the number of
operations outside of loops. The column "loop" is the number of operations in the bodies of all
loops. An operation in a loop counts once, not once per iteration. TensorFlow's own optimizations of
the graph are not included.

Some operations copy data between the GPU and the host. StatelessRandomGetKeyCounter reads the seed
of a random mask on the host, and the host waits for the GPU until it has the seed.
"""

import argparse
import collections
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from worker import Worker, add_with_before, make_model

SIZES = {
    "a": {"hidden": 256, "filter": 1024, "heads": 4, "vocab": 8000, "batch": 16, "length": 32},
    "b": {"hidden": 1024, "filter": 4096, "heads": 16, "vocab": 32768, "batch": 64, "length": 128},
}
STEPS = 6
MODELS = ("universal_transformer", "adaptive_universal_transformer", "transformer")
FORMS = ("cpu", "gpu")
# Types that the table always shows. --types shows all types.
SHOWN = (
    "StatelessRandomGetKeyCounter",
    "StatelessRandomUniformFullIntV2",
    "BiasAddGrad",
    "ArgMax",
    "MatMul",
    "Cast",
)
_LOOPS = ("While", "StatelessWhile")
_INVISIBLE = ("Placeholder", "Const", "NoOp", "Identity", "_Arg", "_Retval")


def main(argv=None):
    """Print one table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument("--sizes", default=",".join(SIZES), help="a, b or a,b")
    parser.add_argument("--model", default=MODELS[0], choices=MODELS)
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    parser.add_argument("--form", default="cpu", choices=FORMS, help="device to trace for")
    parser.add_argument("--types", action="store_true", help="show all types of operations")
    parser.add_argument("--serve", metavar="CHECKOUT", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    sizes = args.sizes.split(",")
    if unknown := [size for size in sizes if size not in SIZES]:
        parser.error(f"--sizes must be some of {', '.join(SIZES)}. Received: {unknown[0]!r}.")
    if args.serve:
        return serve(args)
    checkouts = {"now": os.path.dirname(HERE)}
    if args.with_before:
        checkouts["before"] = os.path.abspath(args.with_before)
    for size in sizes:
        counts = {side: _count_in_process(size, path, args) for side, path in checkouts.items()}
        print("\n".join(table(f"{size}, {args.model}, {args.dtype}", counts, args.types)))
    return 0


def _count_in_process(size, checkout, args):
    """Count the operations with the ut_keras of one checkout, in another process."""
    options = [f"--model={args.model}", f"--dtype={args.dtype}", f"--form={args.form}"]
    command = [sys.executable, os.path.abspath(__file__), f"--serve={checkout}", *options]
    worker = Worker(command)
    counts = worker.request(size)
    worker.close()
    return counts


def serve(args):
    """Serve requests. Each request is the name of a size."""
    sys.path.insert(0, args.serve)
    for line in sys.stdin:
        counts = operations(args.model, SIZES[line.strip()], args.dtype, args.form)
        print("RESULT", json.dumps(counts), flush=True)


def operations(model, size, dtype, form):
    """Return {"once": {type: number}, "loop": {type: number}} of an update."""
    import tensorflow as tf

    from ut_keras.training import train_step

    if form == "gpu":
        trace_for_gpu()
    built, optimizer, strategy = make_model(model, size, STEPS, dtype)
    ids = tf.TensorSpec([size["batch"], size["length"]], tf.int32)
    spec = ({"inputs": ids, "targets": ids}, ids)
    step = train_step.make_train_step(built, optimizer, strategy, spec)
    return counted(step.get_concrete_function().graph.as_graph_def())


def trace_for_gpu():
    """Make all functions that are traced later use their form for GPUs."""
    try:
        from ut_keras.ops import devices
    except ImportError:  # an older version has only one form
        return
    devices.has_gpu = lambda: True


def counted(definition):
    """Count the operations of a graph and of all functions that it calls.

    Args:
        definition: `GraphDef`.
    """
    functions = {function.signature.name: function for function in definition.library.function}
    counts = {"once": collections.Counter(), "loop": collections.Counter()}

    def add(nodes, where):
        for node in nodes:
            if node.op not in _INVISIBLE:
                counts[where][node.op] += 1
            inner = "loop" if node.op in _LOOPS else where
            for name, attribute in node.attr.items():
                called = [attribute.func.name, *(f.name for f in attribute.list.func)]
                if name.startswith("_"):  # for example, the function of a custom gradient
                    continue
                for function in filter(None, called):
                    add(functions[function].node_def, inner)

    add(definition.node, "once")
    return {where: dict(found) for where, found in counts.items()}


def table(title, counts, all_types=False):
    """Return the lines of a table.

    Args:
        title: str.
        counts: dict from "now" and, optionally, "before" to the result of `operations`.
        all_types: bool. Whether to show all types of operations.
    """
    sides = list(counts)
    totals = {
        side: {where: sum(found.values()) for where, found in counts[side].items()}
        for side in sides
    }
    types = set().union(*(found for side in counts.values() for found in side.values()))
    if all_types:
        frequency = collections.Counter(counts["now"]["once"]) + collections.Counter(
            counts["now"]["loop"]
        )
        shown = sorted(types, key=lambda name: (-frequency[name], name))
    else:
        shown = SHOWN
    head = "".join(f"{side + ' once':>14}{side + ' loop':>14}" for side in sides)
    lines = [f"size {title}:", f"{'':34}{head}"]

    def line(name, numbers):
        return f"{name:34}" + "".join(f"{number:14,}" for number in numbers)

    places = [(side, where) for side in sides for where in ("once", "loop")]
    lines.append(line("all operations", [totals[side][where] for side, where in places]))
    lines += [
        line(name, [counts[side][where].get(name, 0) for side, where in places]) for name in shown
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
