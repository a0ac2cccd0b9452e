"""Decides whether XLA compiles the update of ut-trainer (--xla_compile).

The function `choose` imports TensorFlow. The import of this module does not.
"""

from typing import Any, NamedTuple

from ut_keras.bin.command_line import AUTO

# The largest number of batch shapes with --xla_compile=auto.
MOST_SHAPES = 6
# A compilation takes tens of seconds per shape, and an update becomes tens of milliseconds faster.
# On an H200, six compilations pay off after 3,000 to 6,000 updates: see docs/performance.md.
LEAST_STEPS = 5000


class Compilation(NamedTuple):
    """The options with which the update is compiled."""

    jit_compile: bool  # whether XLA compiles the update
    jit_fallback: bool  # whether training continues without XLA if XLA cannot compile the update
    static_shapes: bool  # whether the update is traced for every batch shape
    most_shapes: int  # the largest number of batch shapes; 0 means one shape for each bucket


def choose(setup: Any) -> Compilation:
    """Return the `Compilation` for the flags and the devices.

    If --xla_compile is "auto" and XLA is not used although there is a GPU, the function prints the
    reason.

    Args:
        setup: `trainer_setup.Setup`.
    """
    from ut_keras.ops import devices

    args = setup.args
    if args.xla_compile != AUTO:
        return Compilation(args.xla_compile, False, args.xla_compile or args.use_tpu, 0)
    if args.use_tpu:
        return Compilation(False, False, True, 0)
    off = Compilation(False, False, False, 0)
    if not (devices.has_gpu() and args.worker_gpu and setup.trains):
        return off
    if reason := _why_not(setup):
        print(f"note: --xla_compile=auto does not use XLA: {reason}.", flush=True)
        return off
    return Compilation(True, True, True, MOST_SHAPES)


def of_search(args: Any, num_replicas: int) -> bool | str:
    """Return the value of `jit_compile` for the search that decodes during training.

    The value is never True, so training never fails if XLA cannot compile the search.

    Args:
        args: the flags.
        num_replicas: int. The number of replicas of all workers.
    """
    may_compile = args.xla_compile and args.worker_gpu and not args.use_tpu and num_replicas == 1
    return AUTO if may_compile else False


def _why_not(setup):
    """Return the reason why XLA must not or should not compile the update, or ""."""
    problem = setup.problem
    if setup.cluster is not None:
        return "the workers might not agree whether XLA can compile the update"
    if setup.args.train_steps < LEAST_STEPS:
        return (
            f"the compilation pays off after about {LEAST_STEPS:,} updates, and --train_steps is "
            f"{setup.args.train_steps}"
        )
    if problem.has_own_dataset or problem.with_hparams(setup.hp, "train").preprocess_needs_hparams:
        return "the problem may change the lengths of its examples, so the batch shapes vary"
    return ""
