"""The thirteen lines on top of docs/results.md: the papers, the best other public attempt, ours.

An attempt is one that tells its numbers; a dash stands where none was found.
"""

import re
import shlex
import statistics
from collections.abc import Callable
from typing import NamedTuple

import blocks

from tables import babi, means


class Headline(NamedTuple):
    """A line: of the cell ROW/MODEL, or, as */MODEL, of the mean of a model's cells.

    `paper` is for what the cell's score does not say. `other` is Markdown, or a function of the
    numbers of the tasks that have run.
    """

    what: str
    table: str
    cell: str
    metric: str = "mean_error"
    paper: str = ""
    other: str | Callable = "—"


class Row(NamedTuple):
    """A line as it is shown; `points` is {"paper", "other", "ours": list of percent right}."""

    what: str
    paper: str
    other: str
    ours: str
    seeds: str
    command: str
    points: dict


def _public_single(tasks):
    """The best of ten runs each, with ACT, over the tasks that have run here, or all."""
    errors = list(map(float, babi.PUBLIC.split()))
    mean = statistics.mean(errors[task - 1] for task in tasks or range(1, 1 + len(errors)))
    where = f"[andreamad8]({_GITHUB}andreamad8/Universal-Transformer-Pytorch)"
    return f"{mean:.2f}, best of ten ({where})"


_GITHUB = "https://github.com/"
_JOINT = (
    "about 40, the authors' code without halting, stopped early "
    f"([bAbI-T2T #7]({_GITHUB}MostafaDehghani/bAbI-T2T/issues/7))"
)
_STRINGS = "decode/accuracy_per_sequence"
_SUMS = f"0.99, 20 digits a number to 100 ([McLeish et al. 2024]({_GITHUB}mcleish7/arithmetic))"
_CAPTIONS = f"41.02, lower-cased ([LividWo]({_GITHUB}LividWo/Revisit-MMT))"
_SCAN, _NDR = "1.00 (Csordás et al. 2021)", "1.00 (Csordás et al. 2022)"
HEADLINES = (
    Headline(
        "bAbI 10k, joint: error", "babi_joint_10k", "joint/adaptive_large_batch", other=_JOINT
    ),
    Headline("bAbI 10k, single†: error", "babi_10k_single", "*/adaptive", other=_public_single),
    Headline("bAbI 1k, joint: error", "babi_joint_1k", "joint/adaptive"),
    Headline("bAbI 1k, single: error", "babi_1k_single", "*/adaptive"),
    Headline("Copy, 40 digits to 400*: strings", "algorithmic", "copy/coupled", _STRINGS, "0.35"),
    Headline("Reverse, 40 to 400*: strings", "algorithmic", "reverse/coupled", _STRINGS, "0.46"),
    Headline(
        "Addition, 40 to 400*: sums", "algorithmic", "addition/coupled", _STRINGS, "0.02", _SUMS
    ),
    Headline("Learning to Execute: programs", "lte", "program/universal_small_batch", _STRINGS),
    Headline("SCAN, length over 26", "scan", "length 26/universal_50k", _STRINGS, _SCAN),
    Headline("Table lookup (our tables), forward", "depth_ctl", "forward/ndr", "accuracy", _NDR),
    Headline("Table lookup (our tables), backward", "depth_ctl", "backward/ndr", "accuracy", _NDR),
    Headline(
        "Table lookup (11 tables), backward", "depth_ctl", "backward/published", "accuracy", _NDR
    ),
    Headline("Multi30k: BLEU", "multi30k", "test2016/universal", "decode/bleu", "", _CAPTIONS),
)


_FEWEST_TASKS = 10  # of a mean on top: a few tasks of twenty say little of all


def rows(every, found):
    """A `Row` for each line, of all tables and `Lines`."""
    named = {table.name: table for table in every}
    return [_row(headline, named[headline.table], found) for headline in HEADLINES]


def table(rows):
    """The lines as Markdown."""
    heads = ("", "paper", "best other public attempt", "ours, mean ± sd", "seeds", "command")
    return blocks.table([heads, *([*row[:-2], f"`{row.command}`"] for row in rows)])


def _row(headline, table, found):
    what, other, model = headline.what, headline.other, headline.cell.split("/")[1]
    cells = [cell for cell in table.cells if cell.name == headline.cell]
    if cells:
        [cell], only = cells, shlex.quote(headline.cell)
        [score] = [x for x in cell.scores if (x.metric, x.split) == (headline.metric, "test")]
        paper = headline.paper or score.paper
        values = [score.of(line["test"]) for line in found.of(cell)]
        ours, seeds = means.spread(score, values) if values else "", [len(values)]
    else:
        score, only = table.cells[0].scores[0], model
        mean = means.over_cells(table, model, found)
        if len(mean.tasks) < _FEWEST_TASKS:
            mean = means.Mean()
        paper = mean.paper or table.averages[model]
        ours, values, seeds = mean.all, mean.values, mean.seeds
        what += f" ({mean.what})" if values and not mean.is_whole else ""
        other = other(mean.tasks) if callable(other) else other
    points = {"paper": _numbers(paper.split(";")[-1]), "other": _numbers(other), "ours": values}
    return Row(
        what,
        paper or "—",
        other,
        ours or "—",
        " to ".join(map(str, sorted({min(seeds), max(seeds)}))) if values else "",
        f"--table={table.name} --only={only}",
        {kind: [_right(score, value) for value in of] for kind, of in points.items()},
    )


def _numbers(text):
    """The first number in a text, if there is one."""
    return [float(number) for number in re.findall(r"[\d.]*\d", text)[:1]]


def _right(score, value):
    if "error" in score.metric:
        return 100 - value
    return value if score.metric == "decode/bleu" else 100 * value
