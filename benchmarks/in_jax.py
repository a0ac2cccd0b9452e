"""Train a cell of a results table with JAX, on GPUs that TensorFlow does not support.

    python benchmarks/in_jax.py write FOLDER --table=babi_joint_10k --only=joint/universal
    python benchmarks/in_jax.py train FOLDER              on the GPU machine; needs only JAX
    python benchmarks/in_jax.py read FOLDER --table=… --only=… --where="H200, JAX"
    python benchmarks/results/run.py --table=… --only=…   evaluates the run and adds its result

A cell is one line of a table in docs/results.md: a model that is trained on a problem. `write`
exports the trainer's own update, including dropout, optimizer and learning rate schedule. For each
shape of a batch, `write` exports one program, which TensorFlow would compile with XLA. `train` runs
these programs with JAX. `read` makes a run of ut_keras from the trained weights.

Training differs from the trainer in three points:

- The order of the examples is different.
- All batches are full, because the examples that remain at the end of an epoch are used in the next
  epoch.
- Only the last weights are validated. The trainer would keep the weights of the best validation.

`--data_dir` is the folder with the data of `ut-datagen`. If `--seconds` stops the training, a
second call of `train` resumes the training at the beginning of a new epoch.
"""

import argparse
import concurrent.futures
import json
import math
import os
import re
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
# An operation that the compiler for GPUs does not support.
_COPY = re.compile(r"mhlo\.copy (%\S+) : (tensor<\S+>)")
# A mask with eight values per byte.
_BITS = re.compile(r'dense<"0x([0-9A-F]+)"> : tensor<([0-9x]+)xi1>')
_SCALARS = ("loss", "correct", "sequences")


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("write", "train", "read"))
    parser.add_argument("folder", help="folder that is copied to the other machine and back")
    parser.add_argument("--table")
    parser.add_argument("--only", help="name of the cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop training after this time"
    )
    parser.add_argument("--where", default="JAX", help="name of the machine, for the results")
    parser.add_argument("--data_dir", default="runs/paper/data")
    parser.add_argument("--runs_dir", default="runs/paper")
    args = parser.parse_args(argv)
    if args.command != "write" and not os.path.exists(os.path.join(args.folder, "plan.json")):
        sys.exit(f"The folder must be one that `write` has made. Received: {args.folder}.")
    if args.command == "train":
        return train(args)
    sys.path[:0] = [os.path.dirname(HERE), HERE]
    from ut_keras.bin import command

    return command.run(lambda _: (write if args.command == "write" else read)(args), argv)


def _read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def _write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def _state(folder):
    """Read (arrays, step, seconds) of the saved training state."""
    with np.load(os.path.join(folder, "state.npz")) as file:
        arrays = [file[name] for name in file.files if name.startswith("arr_")]
        return arrays, int(file["step"]), float(file["seconds"])


def _save(folder, arrays, step, seconds):
    path = os.path.join(folder, "state.npz")
    np.savez(f"{path}.tmp.npz", *arrays, step=step, seconds=seconds)
    os.replace(f"{path}.tmp.npz", path)


# Functions that use TensorFlow.


def write(args):
    """Write the updates, the initial state and all examples to the folder."""
    import tensorflow as tf

    from ut_keras.training import train_step

    cell, problem, hp, model, optimizer = _make_cell(args)
    variables = _variables(model, optimizer)
    update = train_step.make_train_step(
        model, optimizer, tf.distribute.get_strategy(), None, jit_compile=True
    ).python_function
    updates = []

    def update_and_read_state(batch):
        result = update(batch)
        state = [variable.read_value() for variable in variables]
        return [getattr(result, name) for name in _SCALARS] + state

    with _new_folder(args.folder) as folder:
        for number, (leaves, size, structure) in enumerate(_examples(problem, hp, args.data_dir)):
            batch = tf.nest.map_structure(
                lambda x, n=size: tf.constant(x[:1].repeat(n, 0)), structure
            )
            compiled = tf.function(update_and_read_state, jit_compile=True, autograph=False)
            captured = compiled.get_concrete_function(batch).captured_inputs
            order = [[v.handle is handle for v in variables].index(True) for handle in captured]
            module = compiled.experimental_get_compiler_ir(batch)(stage="stablehlo")
            module = _COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", module)
            _write(folder, f"update-{number}.mlir", _BITS.sub(_mask_as_list, module))
            np.savez_compressed(os.path.join(folder, f"examples-{number}.npz"), *leaves)
            updates.append({"size": size, "order": order})
            shape = leaves[0].shape[1:]
            print(f"{len(leaves[0]):,} examples of {shape}, {size} per update", flush=True)
        _save(folder, [variable.numpy() for variable in variables], step=0, seconds=0.0)
        plan = {
            "updates": updates,
            "last": cell.updates,
            "every": cell.every,
            **_run_identity(cell, args),
        }
        _write(folder, "plan.json", json.dumps(plan))


def _new_folder(path):
    """Return a context that creates a new folder atomically."""
    from ut_keras.files import whole_file

    if os.path.exists(path):
        sys.exit(f"The folder must not exist yet. Received: {path}.")
    return whole_file.writing_folder(path)


def _examples(problem, hp, data_dir):
    """Return a list of (arrays [N, ...], examples per update, the arrays as a batch).

    The list has one item for each shape of a batch.
    """
    import tensorflow as tf

    def batches(static_shapes):
        for batch in problem.dataset("train", data_dir, hp, seed=0, static_shapes=static_shapes):
            yield tf.nest.map_structure(lambda x: x.numpy(), batch)

    sizes, found = {}, {}
    for batch in batches(static_shapes=True):
        leaves = tf.nest.flatten(batch)
        shape = tuple(leaf.shape[1:] for leaf in leaves)
        sizes[shape] = max(len(leaves[0]), sizes.get(shape, 0))
    for batch in batches(static_shapes=False):
        leaves = tf.nest.flatten(batch)
        shape = min(shape for shape in sizes if _fits(leaves, shape))
        padded = [
            np.pad(
                leaf, [(0, 0), *((0, n - m) for n, m in zip(target, leaf.shape[1:], strict=True))]
            )
            for leaf, target in zip(leaves, shape, strict=True)
        ]
        found.setdefault(shape, []).append(padded)
    result = []
    for shape, parts in sorted(found.items()):
        leaves = [_trim_padding(np.concatenate(arrays)) for arrays in zip(*parts, strict=True)]
        result.append((leaves, sizes[shape], tf.nest.pack_sequence_as(batch, leaves)))
    return result


def _trim_padding(leaf):
    """Remove positions that are padding in all examples.

    The length of a bucket may be much larger than the length of its longest example.
    """
    used = leaf.reshape(*leaf.shape[:2], -1).any(axis=(0, 2))
    return leaf[:, : 1 + used.nonzero()[0].max(initial=0)]


def _mask_as_list(match):
    """Return a mask as a list of values instead of hexadecimal digits.

    Newer compilers would read hexadecimal digits with one byte per value.
    """
    digits, shape = bytes.fromhex(match[1]), [int(size) for size in match[2].split("x")]
    bits = np.unpackbits(np.frombuffer(digits, np.uint8), bitorder="little")
    values = bits[: math.prod(shape)].astype(bool).reshape(shape)
    return f"dense<{json.dumps(values.tolist())}> : tensor<{match[2]}xi1>"


def _fits(leaves, shape):
    return all(
        all(n >= m for n, m in zip(target, leaf.shape[1:], strict=True))
        for leaf, target in zip(leaves, shape, strict=True)
    )


def read(args):
    """Make a run from the trained state, for `results/run.py`.

    The files are the same as in a run that `results/run.py` stopped after the last update.
    """
    from results import cell_runner

    from ut_keras.checkpoints import checkpoint
    from ut_keras.training import epochs

    cell, problem, hp, model, optimizer = _make_cell(args)
    state, step, seconds = _state(args.folder)
    plan, identity = json.loads(_read(args.folder, "plan.json")), _run_identity(cell, args)
    if other := {name: plan.get(name) for name in identity if plan.get(name) != identity[name]}:
        sys.exit(f"The folder must belong to {identity}. Received: {other}.")
    if step != cell.updates:
        sys.exit(f"Training must have made {cell.updates:,} updates. Received: {step:,}.")
    for variable, value in zip(_variables(model, optimizer), state, strict=True):
        variable.assign(value)
    directory = cell_runner.run_directory(args.runs_dir, cell, args.seed)
    batches = problem.training_batches(args.data_dir, hp, lambda number: number)
    position = epochs.Epochs(lambda number: batches, None)
    position.write_position()
    with _new_folder(directory) as folder:
        checkpoint.Checkpoints(folder, model, optimizer, position.position).save()
        cell_runner.Record(folder).write(seconds=seconds, where=args.where)
    print(directory)


def _make_cell(args):
    """Return (cell, problem, hparams, model, optimizer)."""
    import keras
    from results import definitions

    from ut_keras import hparams, models, optimizers, problems
    from ut_keras.registry import unknown_name_message

    if args.table not in definitions.names():
        sys.exit(unknown_name_message("table", args.table, definitions.names()))
    cells = {cell.name: cell for cell in definitions.load(args.table).cells}
    if args.only not in cells:
        sys.exit(unknown_name_message("cell", args.only, list(cells)))
    cell = cells[args.only]
    # This module selects the last weights, like the flag --eval_early_stopping_metric=step.
    if others := set(cell.flags) - {"--eval_early_stopping_metric=step"}:
        sys.exit(
            f"The cell must not have flags that change training. Received: {' '.join(others)}."
        )
    keras.utils.set_random_seed(args.seed)
    hp, problem = hparams.get(cell.hparams_set, cell.hparams), problems.get(cell.problem)
    model = models.get(cell.model, hp, problem, args.data_dir)
    optimizer = optimizers.get(hp, cell.updates)
    optimizer.build(model.trainable_variables)
    return cell, problem, hp, model, optimizer


def _run_identity(cell, args):
    """Return the values that identify a run, in the form that `results/run.py` records."""
    from results import cell_runner

    return {"recipe": cell.recipe, "seed": args.seed, "commit": cell_runner.commit()}


def _variables(model, optimizer):
    return [variable.value for variable in (*model.variables, *optimizer.variables)]


# Functions that use JAX.


def train(args):
    """Update the state until the last update, or until the time limit."""
    import jax
    import jax.numpy as jnp

    start = time.monotonic()
    jax.config.update("jax_enable_x64", True)  # random states and the step are 64-bit ints

    plan = json.loads(_read(args.folder, "plan.json"))
    state, first_step, before = _state(args.folder)
    state, total = [jnp.asarray(value) for value in state], jnp.zeros(len(_SCALARS))
    examples = []
    for number in range(len(plan["updates"])):
        with np.load(os.path.join(args.folder, f"examples-{number}.npz")) as file:
            examples.append([jnp.asarray(file[name]) for name in file.files])
    steps = _compiled_updates(args.folder, plan["updates"], state, total, examples)
    print(f"compiled for {jax.devices()[0]} in {time.monotonic() - start:.0f} s", flush=True)

    counts = [len(leaves[0]) for leaves in examples]
    sizes = [entry["size"] for entry in plan["updates"]]
    order = _batches(list(zip(counts, sizes, strict=True)), (plan["seed"], first_step))
    started, shown = time.monotonic(), first_step
    for step in range(first_step + 1, plan["last"] + 1):
        number, chosen = next(order)
        state, total = steps[number](state, total, examples[number], chosen)
        if step % 50 == 0:
            total.block_until_ready()  # without this call, too many updates would be waiting
        is_time_over = step % 50 == 0 and time.monotonic() - start > args.seconds
        if step % plan["every"] == 0 or step == plan["last"] or is_time_over:
            loss, correct, sequences = np.asarray(total)
            seconds = time.monotonic() - started
            speed = f"{1e3 * seconds / (step - first_step):.2f} ms per update"
            loss = f"loss {loss / (step - shown):.4f}"
            print(f"{step}: {loss}, {1 - correct / sequences:.4f} wrong, {speed}", flush=True)
            _save(args.folder, map(np.asarray, state), step, before + seconds)
            total, shown = jnp.zeros(len(_SCALARS)), step
        if is_time_over:
            return


def _compiled_updates(folder, entries, state, total, examples):
    """Return a compiled update for each shape of a batch.

    An update maps (state, total, arrays of all examples, indices of the batch) to (state, total).

    Args:
        folder: str, the folder that `write` has made.
        entries: list of dict, the entry "updates" of plan.json.
        state: list of arrays, the variables.
        total: array, the sum of the scalars of the updates.
        examples: list with the arrays of all examples for each shape.
    """
    import jax
    import jax.numpy as jnp

    def compiled(number):
        entry = entries[number]
        update = _as_jax(_read(folder, f"update-{number}.mlir"), entry["order"], state)

        def step(state, total, leaves, chosen):
            scalars, state = update(state, [leaf[chosen] for leaf in leaves])
            return state, total + jnp.stack(scalars)

        chosen = jax.ShapeDtypeStruct((entry["size"],), np.int32)
        function = jax.jit(step, donate_argnums=(0, 1))
        return function.lower(state, total, examples[number], chosen).compile()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(compiled, range(len(entries))))


def _batches(sizes, seed):
    """Yield batches (index of the shape, indices of the examples) without end.

    Examples that remain at the end of an epoch are used first in the next epoch. `sizes` has
    (number of examples, examples per update) for each shape.
    """
    rng = np.random.default_rng(seed)
    left = [np.zeros(0, np.int32) for _ in sizes]
    while True:
        batches = []
        for shape, (count, size) in enumerate(sizes):
            numbers = np.concatenate([left[shape], rng.permutation(count).astype(np.int32)])
            num_complete = len(numbers) // size * size
            batches += [(shape, part) for part in numbers[:num_complete].reshape(-1, size)]
            left[shape] = numbers[num_complete:]
        for i in rng.permutation(len(batches)):
            yield batches[i]


def _as_jax(module, order, state):
    """Return the update as a JAX function that maps (state, batch) to (scalars, state)."""
    from jax.core import ShapedArray
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    call = Primitive("update")
    call.multiple_results = True
    shapes = [((), np.float32)] * len(_SCALARS) + [(x.shape, x.dtype) for x in state]
    call.def_abstract_eval(lambda *_: [ShapedArray(*shape) for shape in shapes])

    def lower(context, *arguments):
        inner = mlir.ir.Module.parse(module)
        results = mlir.ir.SymbolTable(inner.operation)["main"].type.results
        outer = context.module_context
        name = mlir.merge_mlir_modules(outer.module, "update", inner, dst_symtab=outer.symbol_table)
        callee = {"callee": mlir.ir.FlatSymbolRefAttr.get(name)}
        called = mlir.ir.Operation.create("func.call", results, arguments, callee)
        return called.results[: len(shapes)]

    mlir.register_lowering(call, lower)

    def update(state, batch):
        results = call.bind(*batch, *[state[i] for i in order])
        return results[: len(_SCALARS)], results[len(_SCALARS) :]

    return update


if __name__ == "__main__":
    sys.exit(main())
