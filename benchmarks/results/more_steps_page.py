"""Writes the summary and the picture of the table `depth_more_steps`."""

import statistics
from typing import NamedTuple

import blocks
from drawing import COLOURS, SOFT, Drawing

from results.more_steps import MULTIPLES, RECIPES, TRAINED

_LARGEST = 8  # the summary compares accuracies up to this multiple of the trained steps
_MOST_FALL, _LEARNED = 0.01, 0.9
_COLOURS = dict(zip(RECIPES, (*COLOURS, "#c0ca33"), strict=True))


class Curves(NamedTuple):
    """The accuracies of one recipe on one split of one task.

    Fields:
        row, recipe, name: str. `name` describes the examples.
        is_valid: bool. Whether this is the validation split.
        seeds: list of {multiple: accuracy}, one dict for each seed.
    """

    row: str
    recipe: str
    name: str
    is_valid: bool
    seeds: list

    @property
    def peak(self):
        """The mean over the seeds of the highest accuracy up to `_LARGEST` times N."""
        return statistics.mean(max(_compared(seed)) for seed in self.seeds)

    @property
    def fall(self):
        """The largest fall of a seed: its highest accuracy minus a later one."""
        return max(_fall(_compared(seed)) for seed in self.seeds)

    @property
    def is_learned(self):
        """Whether every seed reaches an accuracy of `_LEARNED`."""
        return all(max(_compared(seed)) >= _LEARNED for seed in self.seeds)


def curves(table, found):
    """Return the `Curves` of all runs that were evaluated with all multiples, by split and recipe.

    Args:
        table: `Table`.
        found: `Lines`.
    """
    every = []
    for cell in table.cells:
        lines = [x for x in found.steps if x["recipe"] == cell.recipe and not x["hparams"]]
        lines = [x for x in lines if found.has_steps(cell, x["seed"], table.steps)]
        row, recipe = cell.name.split("/")
        for score in cell.scores if lines else ():
            seeds = [
                {m: score.of(x["splits"][score.split][str(m * TRAINED)]) for m in MULTIPLES}
                for x in lines
            ]
            every.append(Curves(row, recipe, score.name, score.split == "valid", seeds))
    return every


def of_learned_tasks(every):
    """Return the `Curves` of the tasks that at least one recipe learns on the validation split.

    Args:
        every: list of `Curves`.
    """
    rows = {one.row for one in every if one.is_valid and one.is_learned}
    return [one for one in every if one.row in rows]


def summary(every):
    """Return the summary as a Markdown table: one line for each recipe, one column for each split.

    Args:
        every: list of `Curves`.
    """
    columns = list(dict.fromkeys((one.row, one.name) for one in every))
    lines = [["recipe", *(f"{row}: {name}" for row, name in columns), "seeds", "stable"]]
    for recipe in RECIPES:
        of = {(one.row, one.name): one for one in every if one.recipe == recipe}
        if of:
            shown = [_shown(of.get(column)) for column in columns]
            lines.append([recipe, *shown, _seeds(of), _verdict(of)])
    return blocks.table(lines)


def _compared(seed):
    return [accuracy for multiple, accuracy in seed.items() if multiple <= _LARGEST]


def _fall(accuracies):
    falls = (max(accuracies[: n + 1]) - value for n, value in enumerate(accuracies))
    return round(max(falls), 6)  # the lines have six digits


def _shown(one):
    if one is None:
        return ""
    return f"{100 * one.fall:.1f} ({100 * one.peak:.1f})"


def _seeds(of):
    """Return the numbers of seeds."""
    return _by_task({one.row: str(len(one.seeds)) for one in of.values()})


def _verdict(of):
    """Return whether a recipe is stable on the validation split of each task."""
    valid = [one for one in of.values() if one.is_valid]
    stable = {one.row: "yes" if one.fall <= _MOST_FALL else "no" for one in valid}
    learned = {one.row: one.is_learned for one in valid}
    return _by_task({row: stable[row] if learned[row] else "not learned" for row in stable})


def _by_task(values):
    """Return the value of all tasks. If the tasks have several values, also name the tasks."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{row}: {value}" for row, value in values.items())


# --- The picture ----------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _TOP, _LEFT, _GAP, _COLUMNS = 340, 190, 44, 46, 64, 2
_PLACES = {multiple: multiple.bit_length() - 1 for multiple in MULTIPLES}  # on a logarithmic axis


def picture(every):
    """Draw a panel for each split: the mean and the range of the seeds of each recipe.

    Args:
        every: list of `Curves`.
    """
    panels = list(dict.fromkeys((one.row, one.name) for one in every))
    step = _HEIGHT + 96
    bottom = _TOP + -(-len(panels) // _COLUMNS) * step
    recipes = {one.recipe for one in every}
    width = max(_LEFT + _COLUMNS * (_WIDTH + _GAP), _LEFT + 112 * len(recipes))
    drawing = Drawing(width, bottom + 10, "Accuracy by multiples of the trained number of steps")
    for number, (row, name) in enumerate(panels):
        left = _LEFT + number % _COLUMNS * (_WIDTH + _GAP)
        top = _TOP + number // _COLUMNS * step
        shown = [one for one in every if (one.row, one.name) == (row, name)]
        _panel(drawing, left, top, f"{row}: {name}", shown)
    drawing.legend(_LEFT, bottom - 12, {k: v for k, v in _COLOURS.items() if k in recipes})
    return drawing.finish()


def _panel(drawing, left, top, title, shown):
    end = max(_PLACES.values())
    at = drawing.panel(left, top, (_WIDTH, _HEIGHT), title, end, (), (0, 0.25, 0.5, 0.75, 1))
    for multiple, place in _PLACES.items():
        x, y = at(place, 0)
        drawing.text(x, y + 18, str(multiple), color=SOFT, size=11)
    label = "steps, as a multiple of the trained steps"
    drawing.text(left + _WIDTH / 2, top + _HEIGHT + 36, label, size=12)
    for number, one in enumerate(shown):
        colour, shift = _COLOURS[one.recipe], number - (len(shown) - 1) / 2
        points = []
        for multiple, place in _PLACES.items():
            values = [seed[multiple] for seed in one.seeds]
            (x, low), (_, high) = at(place, min(values)), at(place, max(values))
            x += 1.5 * shift
            drawing.line(x, low, x, high, False, colour)
            points.append((x, at(place, statistics.mean(values))[1]))
        drawing.curve(points, colour)
