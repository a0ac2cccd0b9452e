"""What a table of a paper is made of, and the tables themselves, which lie in benchmarks/paper.

A table is a file: its docstring is the page's text above the table, `TABLE` its cells. A cell is
one command of the trainer and the numbers that the paper has for it. No TensorFlow.
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

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # benchmarks
FOLDER = os.path.join(HERE, "paper")


@dataclasses.dataclass(frozen=True)
class Score:
    """A number of a cell, one line on the page.

    Fields:
        metric: str, as named in metrics.jsonl.
        paper: str. What the paper has, as it stands there; "" for nothing.
        name: str. What to call it, where a cell has several.
        percent: bool. Whether to show it times 100.
        split: str, "test" or "valid".
    """

    metric: str
    paper: str = ""
    name: str = ""
    percent: bool = False
    split: str = "test"

    def of(self, values):
        """The number, of {metric: value}."""
        if self.metric not in values:
            raise DataError(f"A line must have {self.metric!r}. Received: {', '.join(values)}.")
        return values[self.metric] * (100 if self.percent else 1)

    def show(self, value, digits=None):
        """A number as text: what is not 0, 1 or 100 does not look so."""
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
    """A cell: how to train, and what to read off.

    Fields:
        name: str. "ROW/MODEL"; no other cell of the table has it.
        problem, model, hparams_set: str, registered names.
        updates: int.
        every: int. Updates between evaluations on the validation split.
        valid: str. The metric, on validation, that the weights and the seed are chosen by.
        scores: tuple of `Score`.
        decode: str. `--decode_hparams`, if anything is to be decoded freely.
        eval_steps: int. Batches of a validation; 0 takes the whole split.
        flags: tuple of str. Further flags of training.
        hparams: str. Overrides: only of settings that are tried.
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

    def training(self, seed):
        """The trainer's arguments, but for the folders."""
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
        """The trainer's arguments to read the test split, in the folder of the best weights."""
        decodes = any(score.metric.startswith("decode/") for score in self.scores)
        return [
            *self._what(),
            f"--schedule={'evaluate_and_decode' if decodes else 'evaluate'}",
            "--eval_use_test_set",
            "--eval_steps=0",
            *([f"--decode_hparams={self.decode}"] if decodes else []),
        ]

    def metrics(self, split):
        """The names of what has to be known of a split, "test" or "valid"."""
        chosen_by = [self.valid] if split == "valid" else []
        return [*chosen_by, *(score.metric for score in self.scores if score.split == split)]

    def _what(self):
        return [f"--problem={self.problem}", f"--model={self.model}"]

    @property
    def set_values(self):
        """{hparam: value} where the set differs from the defaults of its class."""
        return _set_values(self.hparams_set, self.hparams)

    @property
    def recipe(self):
        """Eight letters that stand for all that a run depends on, but for the seed and our code.

        What the set is called does not count, its values do: editing a set makes another recipe,
        and runs of the one before are none of this cell's.
        """
        left_out = ("name", "hparams_set", "hparams", "scores")
        content = {k: v for k, v in vars(self).items() if k not in left_out}
        text = json.dumps({**content, "set": self.set_values}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Fields:
        title: str.
        cells: tuple of `Cell`.
        averages: dict from MODEL, the end of cells' names, to what the paper has for the mean of
            their first scores, in percent, over all 20 tasks.
        raw: tuple of patterns of names: the raw files, if they are put there by hand.
        prepare: function (raw, tmp_dir) that writes raw files which are made of others. Optional.
        page, block: str. Where it stands in docs; "small" is for scraps of the data.
        name, text: str. The file's name and docstring, filled in by `load`.
    """

    title: str
    cells: tuple[Cell, ...]
    averages: dict = dataclasses.field(default_factory=dict)
    raw: tuple[str, ...] = ()
    prepare: Callable | None = None
    page: str = "results"
    block: str = "tables"
    name: str = ""
    text: str = ""


@functools.cache  # cells share their sets
def _set_values(hparams_set, overrides):
    values, before = hparams.get(hparams_set, overrides).to_dict(), defaults(hparams_set)
    return {name: value for name, value in values.items() if value != before[name]}


def defaults(hparams_set):
    """{hparam: value} of the class of a set."""
    return type(hparams.get(hparams_set))().to_dict()


def names():
    """The names of all tables, in the order of the page."""
    return [name for name in _ORDER if name in _found()] + sorted(_found() - set(_ORDER))


def load(name):
    """Returns the `Table` of a file."""
    path = os.path.join(FOLDER, f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"paper_table_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dataclasses.replace(module.TABLE, name=name, text=module.__doc__.strip())


def _found():
    return {os.path.basename(path).removesuffix(".py") for path in glob.glob(f"{FOLDER}/*.py")}


# The paper's; a new file stands after them.
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
    "wsj",
    "wikitext2",
)
