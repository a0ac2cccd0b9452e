"""The summary of docs/results.md: the paper, other public results, and ut_keras.

A public result is a number that the author of another implementation has published. A dash means
that no public result was found.
"""

import re
import shlex
import statistics
from collections.abc import Callable
from typing import NamedTuple

import blocks

from results import babi, means


class Headline(NamedTuple):
    """A row of the summary.

    Fields:
        what: str. The task.
        table: str. The name of the table.
        cell: str. The cell "ROW/MODEL", or "*/MODEL" for the mean over the cells of a model.
        metric: str. The name of the metric in metrics.jsonl.
        measure: str. The quantity that the number describes, such as "strings correct".
        paper: str. The paper's number, if the score of the cell does not contain it.
        other: str or function. The best other public result, in Markdown. A function returns this
            text for a list of finished tasks.
    """

    what: str
    table: str
    cell: str
    metric: str = "mean_error"
    measure: str = ""
    paper: str = ""
    other: str | Callable = "—"


class Row(NamedTuple):
    """A row of the summary, in which all entries are texts.

    `points` has the keys "paper", "other" and "ut_keras". Each value is a list of percentages of
    correct outputs.
    """

    what: str
    measure: str
    paper: str
    other: str
    ours: str
    seeds: str
    command: str
    points: dict


def _public_single(tasks):
    """Return the public mean error with ACT over `tasks`, or over all tasks if `tasks` is empty."""
    errors = list(map(float, babi.PUBLIC.split()))
    mean = statistics.mean(errors[task - 1] for task in tasks or range(1, 1 + len(errors)))
    where = f"[andreamad8]({_GITHUB}andreamad8/Universal-Transformer-Pytorch)"
    return f"{mean:.2f}, the best of ten runs ({where})"


_GITHUB = "https://github.com/"
_JOINT = (
    "about 40; a run of the authors' code without halting that was stopped early "
    f"([bAbI-T2T #7]({_GITHUB}MostafaDehghani/bAbI-T2T/issues/7))"
)
_STRINGS = "decode/accuracy_per_sequence"
_SUMS = (
    "0.99 on numbers of 100 digits, after training on 20 digits "
    f"([McLeish et al. 2024]({_GITHUB}mcleish7/arithmetic))"
)
_CAPTIONS = f"41.02 on lower-cased text ([LividWo]({_GITHUB}LividWo/Revisit-MMT))"
_SCAN, _NDR = "1.00 (Csordás et al. 2021)", "1.00 (Csordás et al. 2022)"
_OF_STRINGS, _OF_SUMS = "strings correct", "sums correct"
_OF_ANSWERS, _OF_COMMANDS = "answers correct", "commands correct"
_FORWARD, _BACKWARD = (f"Table lookup‡, 8 tables, {order}" for order in ("forward", "backward"))
HEADLINES = (
    Headline("bAbI 10k, joint", "babi_joint_10k", "joint/adaptive_large_batch", other=_JOINT),
    Headline("bAbI 10k, single task†", "babi_10k_single", "*/adaptive", other=_public_single),
    Headline("bAbI 1k, joint", "babi_joint_1k", "joint/adaptive"),
    Headline("bAbI 1k, joint, with copies§", "babi_joint_1k", "joint/permuted_no_dropout"),
    Headline("bAbI 1k, single task", "babi_1k_single", "*/adaptive"),
    Headline("bAbI 1k, single task, with copies§", "babi_1k_single", "*/permuted"),
    Headline(
        "Copy, 40 digits to 400*", "algorithmic", "copy/coupled", _STRINGS, _OF_STRINGS, "0.35"
    ),
    Headline(
        "Reverse, 40 digits to 400*",
        "algorithmic",
        "reverse/coupled",
        _STRINGS,
        _OF_STRINGS,
        "0.46",
    ),
    Headline(
        "Addition, 40 digits to 400*",
        "algorithmic",
        "addition/coupled",
        _STRINGS,
        _OF_SUMS,
        "0.02",
        _SUMS,
    ),
    Headline(
        "Learning to Execute", "lte", "program/universal_small_batch", _STRINGS, "programs correct"
    ),
    Headline(
        "SCAN, length over 26", "scan", "length 26/universal_50k", _STRINGS, _OF_COMMANDS, _SCAN
    ),
    Headline(_FORWARD, "depth_ctl", "forward/ndr", "accuracy", _OF_ANSWERS, _NDR),
    Headline(_BACKWARD, "depth_ctl", "backward/ndr", "accuracy", _OF_ANSWERS, _NDR),
    Headline(
        "Table lookup, 11 tables, backward",
        "depth_ctl",
        "backward/published",
        "accuracy",
        _OF_ANSWERS,
        _NDR,
    ),
    Headline(
        "Multi30k, English to German",
        "multi30k",
        "test2016/universal",
        "decode/bleu",
        "BLEU",
        "",
        _CAPTIONS,
    ),
)


_FEWEST_TASKS = 10  # a mean over fewer tasks than this number is not shown


def rows(every, found):
    """Return a `Row` for each headline, computed from all tables and the `Lines`."""
    named = {table.name: table for table in every}
    return [_row(headline, named[headline.table], found) for headline in HEADLINES]


def table(rows):
    """Return the rows in Markdown: first a table of errors, then a table of scores."""
    errors = [("bAbI", "paper, mean ± SD", "ut_keras, mean ± SD", "seeds")]
    scores = [("task", "measure", "paper", "ut_keras, mean ± SD", "seeds")]
    for row in rows:
        if row.measure:
            scores.append((row.what, row.measure, row.paper, row.ours, row.seeds))
        else:
            errors.append((row.what, row.paper.partition("; ")[2], row.ours, row.seeds))
    return (
        "This table shows the error in percent, averaged over the tasks. **Lower is better.** The\n"
        "number of failed tasks (error above 5 %) is in parentheses.\n\n"
        f"{blocks.table(errors)}\n"
        "This table shows accuracies (0 to 1) and BLEU. **Higher is better.**\n\n"
        f"{blocks.table(scores)}"
    )


def commands(rows):
    """Return a table with the other public results, and the arguments that repeat each row."""
    lines = [("task", "paper, best of 10 seeds", "best other public result", "arguments")]
    for row in rows:
        best = "" if row.measure else row.paper.partition("; ")[0]
        lines.append((row.what, best, row.other, f"`{row.command}`"))
    return blocks.table(lines)


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
    points = {"paper": _numbers(paper.split(";")[-1]), "other": _numbers(other), "ut_keras": values}
    return Row(
        what,
        headline.measure,
        paper or "—",
        other,
        ours or "—",
        " to ".join(map(str, sorted({min(seeds), max(seeds)}))) if values else "",
        f"--table={table.name} --only={only}",
        {kind: [_right(score, value) for value in of] for kind, of in points.items()},
    )


def _numbers(text):
    """Return a list with the first number in a text, or an empty list."""
    return [float(number) for number in re.findall(r"[\d.]*\d", text)[:1]]


def _right(score, value):
    if "error" in score.metric:
        return 100 - value
    return value if score.metric == "decode/bleu" else 100 * value
