"""Compile an update or a search for an H200 without a GPU, and show its memory and its kernels.

    pip install jax==0.10.2 jax-cuda12-plugin==0.10.2 jax-cuda12-pjrt==0.10.2
    pip install nvidia-cuda-nvcc-cu12==12.9.86
    python benchmarks/gpu_program.py --sizes=b
    python benchmarks/gpu_program.py --sizes=b --with_before=old_checkout
    python benchmarks/gpu_program.py --kernels=20       # also the kernels with the longest times
    python benchmarks/gpu_program.py --search=1,4       # searches with 1 and 4 beams

TensorFlow translates the update of the trainer into XLA's instructions. The version of XLA in JAX
compiles these instructions for a GPU. It needs only a description of this GPU. The models and the
sizes a and b are those of `operations.py`, in bfloat16 with dropout 0.1. A batch of size c has
4 x (2,048 + 2,048) tokens, and a batch of size l has 16,384 + 16,384 tokens. The columns are:

- GiB: memory of the weights, the optimizer and the update, as planned by XLA;
- kernels: kernels of one update or one search;
- GB: what these kernels read and write;
- compile, CPU s: CPU time in which XLA compiles the program, on all threads;
- ms, estimated: the sum of the times of all kernels. If a condition selects one of two branches,
  the sum contains only the branch that takes longer. The time of a kernel is 1.5 µs plus the
  larger of two times: its bytes at 4 TB/s, and its products at 650 TFLOP/s.

A search decodes the batch of its size, without dropout. Sources and outputs have 64 tokens, and the
search computes all 64 positions. With an adaptive model, all positions take all steps. The column
tokens/s is the number of output tokens per estimated second. Before each iteration of a loop, the
host waits for the loop's condition. This time is not included.

The times are estimates, not measurements. They contain the arithmetic of matrix products only, and
ignore all other arithmetic, such as that of dropout's random numbers. Without a GPU, XLA cannot
measure which form of a product is the fastest. TensorFlow may contain another version of XLA than
JAX.
"""

import argparse
import collections
import itertools
import json
import math
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from operations import MODELS, STEPS, trace_for_gpu
from operations import SIZES as SHORT_SIZES
from worker import Worker, add_with_before, make_model

_GPU = """
gpu_device_info {
  name: "NVIDIA H200" device_vendor: "NVIDIA Corporation" device_address_bits: 64
  cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES }
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 device_memory_size: 151397597184
  driver_version: "12.9.0" runtime_version: "12.9.0" compile_time_toolkit_version: "12.9.0"
  dnn_version: "9.10.0"
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 12 minor: 9 }
device_description_str: "NVIDIA H200"
"""
SIZES = {
    **SHORT_SIZES,
    "c": {"hidden": 512, "filter": 2048, "heads": 8, "vocab": 8192, "batch": 4, "length": 2048},
    "l": {"hidden": 512, "filter": 2048, "heads": 8, "vocab": 8192, "batch": 1, "length": 16384},
}
SEARCH_LENGTH = 64  # tokens of each source and each output of a search
_BYTES_PER_SECOND, _FLOP_PER_SECOND, _LAUNCH_SECONDS = 4.0e12, 650e12, 1.5e-6

_WIDTHS = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2}
_WIDTHS |= {"f32": 4, "s32": 4, "u32": 4, "f64": 8, "s64": 8, "u64": 8}
_SHAPE = re.compile(rf"({'|'.join(_WIDTHS)})\[([\d,]*)\]")
_HEAD = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\{$")
_LINE = re.compile(r"\s+(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*?)\)(.*)$")
_IN_PLACE = {"dynamic-update-slice": 1, "scatter": 2}  # the index of the operand with new values
_WITHOUT_KERNEL = {"parameter", "get-tuple-element", "tuple", "bitcast", "constant", "after-all"}

Instruction = collections.namedtuple("Instruction", "name shape kind operands rest")
Compiled = collections.namedtuple("Compiled", "gibibytes seconds kernels")
Kernel = collections.namedtuple("Kernel", "seconds times bytes flop name source")


def main(argv=None):
    """Print one line for each size and version."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_with_before(parser)
    parser.add_argument("--sizes", default="b", help=f"some of {', '.join(SIZES)}")
    parser.add_argument("--model", default=MODELS[0], choices=MODELS)
    parser.add_argument("--search", metavar="BEAMS", help="numbers of beams; 1 is greedy search")
    parser.add_argument("--kernels", type=int, default=0, help="number of kernels to show")
    parser.add_argument("--serve", metavar="CHECKOUT", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        return serve(args)
    checkouts = {"now": os.path.dirname(HERE)}
    if args.with_before:
        checkouts["before"] = os.path.abspath(args.with_before)
    sizes = args.sizes.split(",")
    if unknown := [size for size in sizes if size not in SIZES]:
        parser.error(f"--sizes must be some of {', '.join(SIZES)}. Received: {unknown[0]!r}.")
    for size, beams in itertools.product(sizes, args.search.split(",") if args.search else "0"):
        title, tokens = f"{size}, {args.model}", 0
        if args.search:
            title += f", search with {beams} beams"
            tokens = SIZES[size]["batch"] * SEARCH_LENGTH
        request = [size, int(beams), args.model]
        results = {side: _compiled(request, path) for side, path in checkouts.items()}
        print("\n".join(table(title, results, args.kernels, tokens)), flush=True)
    return 0


def _compiled(request, checkout):
    """Return the `Compiled` program of the ut_keras of one checkout.

    Args:
        request: [name of a size, number of beams or 0 for an update, name of a model].
        checkout: str, the folder of the checkout.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.hlo")
        command = [sys.executable, os.path.abspath(__file__), f"--serve={checkout}"]
        worker = Worker(command)
        worker.request(json.dumps([*request, path]))
        worker.close()
        # XLA does not know the numbers of iterations of some loops. An update has a loop over the
        # steps. A search has a loop over the positions, which contains a loop over the steps. In an
        # adaptive model, the loop over the steps contains a third loop. This third loop computes
        # missing steps of earlier positions. Here it has no iterations, because all positions take
        # all steps.
        iterations = (SEARCH_LENGTH, STEPS, 0) if request[1] else (STEPS,)
        return compile_for_gpu(path, iterations)


def table(title, results, shown=0, tokens=0):
    """Return the lines of a table.

    Args:
        title: str.
        results: dict from the name of a line to `Compiled`.
        shown: int, the number of kernels to list below each line.
        tokens: int, the number of tokens that a search writes. 0 for an update.
    """
    lines = [
        f"{title}:",
        f"{'':9}{'GiB':>7}{'kernels':>9}{'GB':>8}{'compile, CPU s':>16}{'ms, estimated':>15}"
        + (f"{'tokens/s':>11}" if tokens else ""),
    ]
    for side, (gibibytes, seconds, kernels) in results.items():
        count = sum(kernel.times for kernel in kernels)
        gigabytes = sum(kernel.times * kernel.bytes for kernel in kernels) / 1e9
        milliseconds = 1e3 * _seconds(kernels)
        lines.append(
            f"{side:9}{gibibytes:7.2f}{count:9,}{gigabytes:8.1f}{seconds:16.0f}{milliseconds:15.1f}"
            + (f"{tokens / max(milliseconds, 1e-9) * 1e3:11,.0f}" if tokens else "")
        )
        for kernel in sorted(kernels, key=lambda k: -k.times * k.seconds)[:shown]:
            lines.append(
                f"  {1e3 * kernel.times * kernel.seconds:.3f} ms, {kernel.times} x "
                f"{kernel.bytes / 1e6:.1f} MB, {kernel.name}, {kernel.source}"
            )
    return lines


def serve(args):
    """Write programs. Each request is one line, [size, number of beams or 0, model, path]."""
    sys.path.insert(0, args.serve)
    trace_for_gpu()
    for line in sys.stdin:
        size, beams, model, path = json.loads(line)
        program = search_of(model, SIZES[size], beams) if beams else update_of(model, SIZES[size])
        with open(path, "wb") as file:
            file.write(program)
        print("RESULT", "{}", flush=True)


def update_of(name, size, steps=STEPS, dtype="bfloat16"):
    """Return the update of a model as XLA's instructions, in their binary form."""
    import tensorflow as tf

    from ut_keras.training import train_step

    model, optimizer, strategy = make_model(name, size, steps, dtype)
    ids = tf.ones([size["batch"], size["length"]], tf.int32)
    batch = ({"inputs": ids, "targets": ids}, ids)
    step = train_step.make_train_step(model, optimizer, strategy, None, jit_compile=True)
    return step.experimental_get_compiler_ir(batch)(stage="hlo_serialized")


def search_of(name, size, beams, steps=STEPS, dtype="bfloat16"):
    """Return the search of a model as XLA's instructions, in their binary form."""
    import tensorflow as tf

    from ut_keras.decoding import generate, options

    model, _, _ = make_model(name, size, steps, dtype)
    # With decode_length 0, the outputs are as long as the sources.
    search = options.Options(beam_size=beams, per_example_length=True, decode_length=0)
    values = {name: tf.zeros([], dtype) for name, dtype in options.NUMBERS.items()}
    values["seed"] = tf.zeros([2], tf.int32)
    del values["decode_length"]
    rows = {
        "inputs": tf.zeros([size["batch"], SEARCH_LENGTH], tf.int32),
        "forced_prefix": tf.zeros([size["batch"], 1], tf.int32),
        "max_output_length": tf.zeros([size["batch"]], tf.int32),
    }
    function = generate.xla_search_function(
        model, generate.options_of_trace(search), search.decode_length, rows, values
    )
    return function.experimental_get_compiler_ir(rows, values)(stage="hlo_serialized")


def compile_for_gpu(path, iterations=(STEPS,)):
    """Return the `Compiled` form of a program in a file.

    Args:
        path: str, the file.
        iterations: as in `kernels_of`.
    """
    # XLA cannot measure forms of a product without a GPU.
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    gpu = topologies.get_topology_desc("", "cuda", target_config=_GPU, topology="1x1x1")
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    with mlir.make_ir_context(), open(path, "rb") as file:
        module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(file.read()))
        _remove_copies(module, ir)
        devices = _jax.DeviceList(tuple(gpu.devices))
        start = time.process_time()
        compiled = gpu.devices[0].client.compile(module, devices, options)
        seconds = time.process_time() - start
    memory = compiled.get_compiled_memory_stats()
    used = memory.argument_size_in_bytes + memory.temp_size_in_bytes
    used += memory.output_size_in_bytes - memory.alias_size_in_bytes
    program = compiled.hlo_modules()[0].to_string()
    return Compiled(used / 2**30, seconds, kernels_of(program, iterations))


def _remove_copies(module, ir):
    """Remove the operations mhlo.copy, which JAX's compiler does not support."""
    copies = []

    def visit(operation):
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for operation in copies:
        operation.results[0].replace_all_uses_with(operation.operands[0])
        operation.erase()


def kernels_of(program, iterations=(STEPS,)):
    """Return a list with the kernels of a program.

    Args:
        program: str, XLA's text form of a program after all passes.
        iterations: tuple of ints, the numbers of iterations of loops for which XLA does not know
            them. The first number is for loops that are not inside another loop. The second number
            is for loops inside one loop, and so on. The last number is also for all deeper loops.
    """
    functions, entry = _functions(program)

    def kernels_in(name, times, depth):
        found = []
        shapes = {each.name: each.shape for each in functions[name]}
        for each in functions[name]:
            if each.kind == "while":
                trips = re.search(r'known_trip_count":\{"n":"(\d+)"', each.rest)
                body = re.search(r"body=%?([\w.\-]+)", each.rest)[1]
                unknown = iterations[min(depth, len(iterations) - 1)]
                found += kernels_in(body, times * (int(trips[1]) if trips else unknown), depth + 1)
            elif each.kind == "conditional":
                branches = re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", each.rest)
                found += max(
                    (kernels_in(branch, times, depth) for branch in branches), key=_seconds
                )
            elif each.kind == "call":
                found += kernels_in(re.search(r"to_apply=%?([\w.\-]+)", each.rest)[1], times, depth)
            elif each.kind not in _WITHOUT_KERNEL:
                found.append(_kernel(each, times, shapes, functions))
        return found

    return kernels_in(entry, 1, 0)


def _seconds(kernels):
    return sum(kernel.times * kernel.seconds for kernel in kernels)


def _functions(program):
    """Return ({name: instructions}, name of the first function) of a program."""
    functions, entry, name = {}, "", ""
    for line in program.splitlines():
        if head := _HEAD.match(line):
            name = head[2]
            functions[name] = []
            entry = name if head[1] else entry
        elif name and (found := _LINE.match(line)):
            functions[name].append(Instruction(*found.groups()))
    return functions, entry


def _kernel(instruction, times, shapes, functions):
    called = re.search(r"calls=%?([\w.\-]+)", instruction.rest)
    inner = functions.get(called[1], []) if called else []
    moved = _written(instruction, inner)
    for number, operand in enumerate(_names(instruction.operands)):
        moved += _read(number, shapes.get(operand, ""), inner)
    flop = sum(_flop(each, inner) for each in inner if each.kind == "dot")
    seconds = max(moved / _BYTES_PER_SECOND, flop / _FLOP_PER_SECOND) + _LAUNCH_SECONDS
    source = re.search(r'op_name="([^"]*)"', instruction.rest)
    return Kernel(seconds, times, moved, flop, instruction.name, source[1] if source else "")


def _written(instruction, inner):
    """Return the bytes that an instruction writes.

    The update of a slice writes only this slice. A scatter writes only the rows that it changes.
    """
    written = _size(instruction.shape)
    shapes = {each.name: each.shape for each in inner}
    for each in inner:
        if each.kind in _IN_PLACE:
            written -= _size(each.shape) - _size(
                shapes[_names(each.operands)[_IN_PLACE[each.kind]]]
            )
    return max(written, 0)


def _read(number, shape, inner):
    """Return the bytes that a kernel reads from an operand: all bytes, or those of its slices."""
    name = next((x.name for x in inner if (x.kind, x.operands) == ("parameter", str(number))), None)
    users = [each for each in inner if name in _names(each.operands)]
    first = all(_names(each.operands)[0] == name for each in users)
    if users and first and all(each.kind in ("dynamic-slice", "slice", "gather") for each in users):
        return sum(_size(each.shape) for each in users)
    if users and first and all(each.kind in _IN_PLACE for each in users):
        return 0
    return _size(shape)


def _flop(dot, inner):
    shapes = {each.name: each.shape for each in inner}
    left = _sizes(_SHAPE.search(shapes[_names(dot.operands)[0]])[2])
    axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", dot.rest)[1]
    contracted = math.prod(left[axis] for axis in _sizes(axes))
    return 2 * math.prod(_sizes(_SHAPE.search(dot.shape)[2])) * contracted


def _names(operands):
    return re.findall(r"%([\w.\-]+)", operands)


def _size(shape):
    """Return the bytes of a shape such as "(f32[2,3]{1,0}, pred[])"."""
    return sum(math.prod(_sizes(sizes)) * _WIDTHS[kind] for kind, sizes in _SHAPE.findall(shape))


def _sizes(text):
    return [int(size) for size in text.split(",") if size]


if __name__ == "__main__":
    sys.exit(main())
