"""Defines the classes that describe the tables of papers, and loads the tables.

Each file in benchmarks/results/tables describes a table. The docstring of the file is the text
above the table on the page. The variable `TABLE` contains the cells. A cell consists of one command
of the trainer and the corresponding numbers of the paper. This module does not import TensorFlow.
"""

import dataclasses
import functools
import glob
import hashlib
import importlib.util
import json
import os
from collections.abc import Callable

from ut_keras import hparams
from ut_keras.errors import DataError

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the folder `benchmarks`
FOLDER = os.path.join(HERE, "results", "tables")
PACKAGE_FLAG = "--t2t_usr_dir="


@dataclasses.dataclass(frozen=True)
class Score:
    """A number of a cell, which is one line on the page.

    Fields:
        metric: str, the name in metrics.jsonl.
        paper: str. The paper's number in its printed form, or "".
        name: str. The name on the page, which is shown if a cell has several scores.
        percent: bool. Whether the number is shown multiplied by 100.
        split: str, "test" or "valid".
    """

    metric: str
    paper: str = ""
    name: str = ""
    percent: bool = False
    split: str = "test"

    def of(self, values):
        """Return the value of this score from a dict {metric: value}."""
        if self.metric not in values:
            raise DataError(f"A line must have {self.metric!r}. Received: {', '.join(values)}.")
        return values[self.metric] * (100 if self.percent else 1)

    def show(self, value, digits=None):
        """Return a number as text.

        Only the exact numbers 0, 1 and 100 are shown as 0, 1 and 100. Other numbers are never
        rounded to them.
        """
        if self.metric == "failed_tasks":
            return f"{value:.3g}"
        if digits is None:
            digits = 1 if self.percent or abs(value) >= 10 else 3
        ends = (0, 100) if self.percent else (0, 1)
        while digits < 6 and float(f"{value:.{digits}f}") in ends and value not in ends:
            digits += 1
        return f"{value:.{digits}f}"


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a table: how to train a model, and which scores to show.

    Fields:
        name: str. The name "ROW/MODEL", which is unique in the table.
        problem, model, hparams_set: str, registered names.
        updates: int.
        every: int. Updates between evaluations on the validation split.
        valid: str. The validation metric that selects the checkpoint and the best seed.
        scores: tuple of `Score`.
        decode: str. The value of `--decode_hparams`, used if a metric requires decoding.
        eval_steps: int. Number of batches in each validation. 0 means the complete split.
        flags: tuple of str. Additional flags for training.
        hparams: str. Values that replace the values of the hparams set.
        package: str. The folder of the package that defines the problem, relative to the root of
            the checkout. "" means that ut_keras defines the problem.
    """

    name: str
    problem: str
    model: str
    hparams_set: str
    updates: int
    every: int
    valid: str
    scores: tuple[Score, ...]
    decode: str = ""
    eval_steps: int = 0
    flags: tuple[str, ...] = ()
    hparams: str = ""
    package: str = ""

    def training(self, seed):
        """Return the trainer's arguments for training, without the folder arguments."""
        decodes = self.valid.startswith("decode/")
        return [
            *self._what(),
            "--generate_data",
            f"--hparams_set={self.hparams_set}",
            *([f"--hparams={self.hparams}"] if self.hparams else []),
            f"--schedule={'train_eval_and_decode' if decodes else 'continuous_train_and_eval'}",
            f"--train_steps={self.updates}",
            f"--local_eval_frequency={self.every}",
            f"--eval_steps={self.eval_steps}",
            "--keep_checkpoint_max=2",
            f"--eval_early_stopping_metric={self.valid}",
            f"--random_seed={seed}",
            *([f"--decode_hparams={self.decode}"] if decodes else []),
            *self.flags,
        ]

    def testing(self):
        """Return the trainer's arguments that evaluate the best checkpoint on the test split."""
        decodes = any(score.metric.startswith("decode/") for score in self.scores)
        return [
            *self._what(),
            f"--schedule={'evaluate_and_decode' if decodes else 'evaluate'}",
            "--eval_use_test_set",
            "--eval_steps=0",
            *([f"--decode_hparams={self.decode}"] if decodes else []),
        ]

    def metrics(self, split):
        """Return the names of the metrics that a split, "test" or "valid", requires."""
        chosen_by = [self.valid] if split == "valid" else []
        return [*chosen_by, *(score.metric for score in self.scores if score.split == split)]

    def _what(self):
        package = [f"{PACKAGE_FLAG}{self.package}"] if self.package else []
        return [*package, f"--problem={self.problem}", f"--model={self.model}"]

    @property
    def set_values(self):
        """The hparams that differ from the defaults of their class, as a dict {name: value}."""
        return _set_values(self.hparams_set, self.hparams)

    @property
    def recipe(self):
        """A hash of eight characters over all settings of a run, except the seed and the code.

        The hash depends on the values of the hparams set and not on its name. If a set is edited,
        the cell gets a new recipe. Then finished runs of the old recipe no longer belong to the
        cell.
        """
        left_out = ("name", "hparams_set", "hparams", "scores", "package")
        content = {k: v for k, v in vars(self).items() if k not in left_out}
        text = json.dumps({**content, "set": self.set_values}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a page.

    Fields:
        title: str.
        cells: tuple of `Cell`.
        averages: dict from MODEL, the second part of a cell's name, to the paper's mean in percent.
            This mean is over the first scores of the model's cells for all 20 tasks.
        raw: tuple of str, patterns for the names of raw files that cannot be downloaded.
        prepare: function of (raw, tmp_dir) that makes raw files from other files. Optional.
        page, block: str. The page in docs and the block on this page. The block "small" contains
            the tables that use only a small part of the data.
        steps: tuple of int. Every finished run is also evaluated with these numbers of steps.
        is_wide: bool. Whether each score is a column on the page, as in the paper's table. By
            default, each score is a row. The page shows no numbers of the paper in a wide table.
        name, text: str. The name and the docstring of the table's file, which `load` sets.
    """

    title: str
    cells: tuple[Cell, ...]
    averages: dict = dataclasses.field(default_factory=dict)
    raw: tuple[str, ...] = ()
    prepare: Callable | None = None
    page: str = "results"
    block: str = "tables"
    steps: tuple[int, ...] = ()
    is_wide: bool = False
    name: str = ""
    text: str = ""


@functools.cache  # the function is cached, because several cells use the same set
def _set_values(hparams_set, overrides):
    values, before = hparams.get(hparams_set, overrides).to_dict(), defaults(hparams_set)
    return {name: value for name, value in values.items() if value != before[name]}


def defaults(hparams_set):
    """Return the defaults of the class of an hparams set, as a dict {name: value}."""
    return type(hparams.get(hparams_set))().to_dict()


def names():
    """Return the names of all tables, in the order of the page."""
    return [name for name in _ORDER if name in _found()] + sorted(_found() - set(_ORDER))


def load(name):
    """Return the `Table` that the file with this name describes."""
    path = os.path.join(FOLDER, f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"paper_table_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dataclasses.replace(module.TABLE, name=name, text=module.__doc__.strip())


def _found():
    return {os.path.basename(path).removesuffix(".py") for path in glob.glob(f"{FOLDER}/*.py")}


# The order on the page. Tables that are not in this list come last.
_ORDER = (
    "babi_10k_single",
    "babi_1k_single",
    "babi_joint_10k",
    "babi_joint_1k",
    "algorithmic",
    "lte",
    "scan",
    "multi30k",
    "lambada",
    "wmt14",
    "sva",
    "lambada_part",
    "wsj",
    "wikitext2",
    "variations",
    "depth_addition",
    "depth_parity",
    "depth_ctl",
    "depth_listops",
    "depth_sudoku",
    "depth_router",
    "depth_more_steps",
)
