"""Small trained runs that ship with the package.

    ut_keras.load("reverse40").translate(["3 1 4 1 5"], decode_length=2)
    pretrained.names()               ->  ["reverse40", …]
    pretrained.folder("reverse40")   ->  its folder, which commands take as --output_dir

Weights are stored in 16 bits, without the state of the optimizer. README.md in each folder
describes the training data, the command, the scores and the limits of the run. `t2t_checkpoint` is
not such a run: it was written by T2T, for notebooks/03_from_t2t.ipynb.
"""

import glob
import os

from ut_keras.process import short_names

_HERE = os.path.dirname(os.path.abspath(__file__))


def names() -> list[str]:
    """Return the sorted names of the runs."""
    runs = glob.glob("*/run.json", root_dir=_HERE)
    return sorted(os.path.dirname(path) for path in runs)


def folder(name: str) -> str:
    """Return the folder of a run.

    Raises:
        ValueError: if there is no run with this name.
    """
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}. Received: {name!r}.")
    return os.path.join(_HERE, name)


short_names.alias(__name__)
