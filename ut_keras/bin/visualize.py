"""ut-visualize: draws where a model's heads look while it reads or writes, and how long it ponders.

    ut-visualize --output_dir=run --data_dir=data --input="Zwei Hunde spielen." --visualize_dir=out
    ut-visualize --output_dir=run --data_dir=data --example=0 --visualize_dir=out

writes out/index.html, one page that needs nothing besides itself and lets you pick step, head and
layer, and PNG files where matplotlib is installed. Without --target the model writes by itself
(greedily) and is watched while it does.
"""

import os
import sys
from typing import Any

import numpy as np

from ut_keras import visualize
from ut_keras.bin import command, decode_setup, flags, run_setup, visualize_input
from ut_keras.errors import UsageError
from ut_keras.files import whole_file


@command.of(flags.VISUALIZE, "ut-visualize", __doc__)
def main(args: command.Args) -> None:
    run = decode_setup.check_run(args)
    visualize_input.check(run)
    split = run_setup.eval_split(args, run.problem) if args.example >= 0 else None
    directory = _checked_directory(args.visualize_dir)
    features: Any = None if split else visualize_input.from_text(run)
    command.load_tensorflow(run.run_dir)
    if split:
        features = visualize_input.from_split(run, split)
    model, checkpoint = run.load_model()
    print(f"Weights: {checkpoint}", flush=True)
    seen = visualize.observe(model, features, run.encoders)
    if not seen.maps and not seen.ponder:
        raise UsageError(
            "The model must have attention or ponder times to be shown. "
            f"Received: {run.model_name}, which has neither."
        )
    about: dict[str, Any] = {
        "model": run.model_name,
        "problem": run.problem.name,
        "weights": checkpoint,
    }
    if split:
        about["target"] = run.to_text("targets", np.asarray(features["targets"][0]))
    paths = visualize.write_observation(seen, directory, about)
    print(f"Output: {seen.outputs}")
    print(f"Wrote {', '.join(paths)}", flush=True)
    if not visualize.has_matplotlib():
        print(f"note: the page only. {visualize.MATPLOTLIB_MISSING}")


def _checked_directory(directory):
    """The folder, made if it is not there; before long work starts."""
    if not directory:
        raise UsageError("--visualize_dir must be given: the folder to write to.")
    directory = os.path.expanduser(directory)
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UsageError(f"--visualize_dir must be a folder. Received: {directory!r}, a file.")
    whole_file.check_writable(directory)
    visualize.check_is_free(directory)
    return directory


if __name__ == "__main__":
    sys.exit(main())
