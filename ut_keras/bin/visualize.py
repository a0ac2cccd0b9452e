"""ut-visualize: plot a model's attention, ponder times and steps for one input.

    ut-visualize --output_dir=run --data_dir=data --input="Zwei Hunde spielen." --visualize_dir=out

The command writes PNG files with the attention weights of every step and type, and with the ponder
times. With --steps, another file shows what the model would predict if it stopped after each step.
The model decodes the input greedily, and the pictures show this decoding. Separate the sentences of
a story by "|". The question must be the last sentence.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence

from ut_keras.bin import command, command_line, decoder_setup, flags
from ut_keras.errors import UsageError
from ut_keras.files import whole_file
from ut_keras.inference import line_encoding
from ut_keras.process import extras


def main(argv: Sequence[str] | None = None) -> int:
    """Run ut-visualize and return the exit code."""
    return command.run_with_flags(_main, flags.VISUALIZE, "ut-visualize", __doc__, argv)


def _main(args: command.Args) -> None:
    run = decoder_setup.check_run(args)
    _check_flags(args, run)
    from ut_keras.visualize import figures

    directory = args.visualize_dir
    figures.check_only_own_files(directory)
    command.load_tensorflow(run.run_dir)
    seen = _observe(args, run)
    print(f"Output: {seen.outputs}")
    print(f"Wrote {', '.join(figures.save_all(seen, directory))}", flush=True)


def _check_flags(args, run):
    """Check the flags and the installation as far as possible without TensorFlow."""
    if not args.input.strip():
        raise UsageError("--input is required: the input of the model.")
    encoder = run.encoders["targets" if run.is_language_model else "inputs"]
    # The input is encoded once before the model is loaded, so that errors appear early.
    line_encoding.sources("--input", args.input.split("|"), encoder)
    command_line.require(args, "visualize_dir", what="the folder to write to")
    if args.steps and not hasattr(run.hp, "recurrence_type"):
        raise UsageError(
            "--steps requires a model with a recurrence in depth, such as universal_transformer. "
            f"Received: {run.model_name}."
        )
    directory = args.visualize_dir
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UsageError(f"--visualize_dir must be a folder. Received: {directory!r}, a file.")
    whole_file.check_writable(directory)
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            f"ut-visualize requires matplotlib. Received: none. {extras.install_hint('plot')}"
        )


def _observe(args, run):
    """Load the model and return its `Observation` for the input of the flags."""
    from ut_keras.inference import saved_run

    model, checkpoint = run.load_model()
    print(f"Weights: {checkpoint}", flush=True)
    try:
        saved = saved_run.SavedRun(model, run.encoders, run.prefixes)
    except ValueError as error:  # an encoder of the user's package may have no TensorFlow version
        raise UsageError(f"{run.problem.name} cannot be visualized: {error}") from error
    seen = saved.observe(args.input, steps=args.steps)
    if not seen.maps and not seen.ponder:
        raise UsageError(
            "ut-visualize requires a model with attention or ponder times. "
            f"Received: {run.model_name}, which has neither."
        )
    if args.steps and not seen.steps:
        raise UsageError(
            "--steps requires a recurrence in depth that records its steps. "
            f"Received: {run.model_name}, which records none."
        )
    return seen


if __name__ == "__main__":
    sys.exit(main())
