"""Small trained runs that come along.

    ut_keras.load("reverse40").translate(["3 1 4 1 5"], decode_length=2)
    pretrained.names()               ->  ["reverse40", …]
    pretrained.folder("reverse40")   ->  its folder, which commands take as --output_dir

Weights are stored in 16 bits, without the optimizer's state. README.md in each folder says what it
was trained on, by which command, how good it is, and what it cannot do. `t2t_checkpoint` is none of
them: a run as T2T wrote it, for notebooks/03_from_t2t.ipynb.
"""

import glob
import os

from ut_keras.process import short_names

_HERE = os.path.dirname(os.path.abspath(__file__))


def names() -> list[str]:
    """The names of the runs, sorted."""
    runs = glob.glob("*/run.json", root_dir=_HERE)
    return sorted(os.path.dirname(path) for path in runs)


def folder(name: str) -> str:
    """The folder of a run.

    Raises:
        ValueError: if there is none of this name.
    """
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}. Received: {name!r}.")
    return os.path.join(_HERE, name)


short_names.alias(__name__)
