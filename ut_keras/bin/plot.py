"""ut-plot: draws the loss and other metrics of several runs.

    ut-plot --runs=runs/small,runs/big --metrics=loss,accuracy_per_sequence --output=curves.png

reads the metrics.jsonl of each run. A run may be given as NAME=FOLDER; its name stands in the
legend.
"""

import os
import sys

from ut_keras import visualize
from ut_keras.bin import command, flags
from ut_keras.errors import UsageError
from ut_keras.files import metrics_file
from ut_keras.registry import unknown_name_message

FORMATS = (".png", ".svg", ".pdf")


@command.of(flags.PLOT, "ut-plot", __doc__)
def main(args: command.Args) -> None:
    runs = _named_runs(args.runs)
    metrics = list(dict.fromkeys(filter(None, args.metrics.split(","))))
    if not metrics:
        raise UsageError("--metrics must name a metric. Received: none.")
    output = _checked_output(args.output)
    if not visualize.has_matplotlib():
        raise UsageError(visualize.MATPLOTLIB_MISSING)
    curves = {name: metrics_file.read_curves(folder) for name, folder in runs.items()}
    known = sorted({metric for found in curves.values() for _, metric in found})
    for metric in metrics:
        if metric not in known:
            raise UsageError(unknown_name_message("metric of these runs", metric, known))
    from ut_keras.visualize import figures

    figures.save(figures.curves(curves, metrics), output)
    print(f"Wrote {output}")


def _named_runs(text):
    """{name: folder}; a name is the folder's, or the whole path where two folders share it."""
    parts = list(filter(None, (text or "").split(",")))
    if not parts:
        raise UsageError("--runs must be given: folders with a metrics.jsonl, joined by commas.")
    runs = []
    for part in parts:
        name, is_named, folder = part.partition("=")
        if not is_named or os.path.exists(part):
            name, folder = "", part
        runs.append((name, os.path.expanduser(folder)))
    short = [name or _last_name(folder) for name, folder in runs]
    named = {}
    for (_, folder), name in zip(runs, short, strict=True):
        name = name if short.count(name) == 1 else folder
        if name in named:
            raise UsageError(f"--runs must differ. Received: {name!r} twice.")
        named[name] = folder
    return named


def _last_name(folder):
    path = os.path.abspath(folder)
    if os.path.basename(path) == metrics_file.FILENAME:
        path = os.path.dirname(path)
    return os.path.basename(path)


def _checked_output(path):
    if not path:
        raise UsageError("--output must be given: the file to write.")
    path = os.path.expanduser(path)
    if os.path.splitext(path)[1].lower() not in FORMATS:
        raise UsageError(f"--output must end in one of {', '.join(FORMATS)}. Received: {path!r}.")
    if not os.path.isdir(os.path.dirname(path) or ".") or os.path.isdir(path):
        raise UsageError(f"--output must be a file in a folder that exists. Received: {path!r}.")
    return path


if __name__ == "__main__":
    sys.exit(main())
