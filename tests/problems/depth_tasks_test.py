"""Tests of the targets and splits of the problems that require depth."""

import collections
import functools

import numpy as np
import pytest

from ut_keras import problems
from ut_keras.problems import formal_languages, generated_classes, sudoku, table_lookup

NAMES = [
    *("addition10", "ctl_backward", "ctl_backward_iid", "ctl_forward", "ctl_forward_iid"),
    *("ctl_backward_11", "ctl_forward_11"),
    *("dyck40", "listops", "listops_iid", "parity10", "parity40"),
]


def _draw(name, split, count):
    problem = problems.get(name)
    problem.sizes = dict.fromkeys(problem.splits, count)
    return list(problem.generate_samples(split, None, None, seed=5))


@functools.cache
def _samples(name, split, count=400):
    return _draw(name, split, count)


def _split(sample):
    return sample["inputs"].split(), sample["targets"]


@pytest.mark.parametrize("name", NAMES)
def test_splits_do_not_overlap(name):
    train = {sample["inputs"] for sample in _samples(name, "train", 3000)}
    for split in ("dev", "test"):
        for sample in _samples(name, split):
            assert sample["inputs"] not in train


@pytest.mark.parametrize("name", [*NAMES, "sudoku6"])
def test_samples_are_encoded_and_reproducible(name):
    encoders = problems.get(name).feature_encoders()
    samples = _samples(name, "train", 50)
    assert samples == _draw(name, "train", 50)
    for sample in samples:
        assert (
            encoders["inputs"].decode(encoders["inputs"].encode(sample["inputs"]))
            == (sample["inputs"])
        )
        assert (
            encoders["targets"].decode(encoders["targets"].encode(sample["targets"]))
            == (sample["targets"])
        )


@pytest.mark.parametrize("name, order", [("ctl_forward", 1), ("ctl_backward", -1)])
def test_table_lookup_composes_functions(name, order):
    for split, depths in problems.get(name).depths.items():
        single, seen = {}, set()
        for words, label in map(_split, _samples(name, split)):
            symbol, *functions = words[::order]
            seen.add(len(functions))
            symbol = int(symbol)
            for function in functions:
                symbol = table_lookup.TABLES[ord(function) - ord("a")][symbol]
            assert label == str(symbol)
            if len(functions) == 1:
                assert single.setdefault(tuple(words), label) == label
        assert seen == set(range(depths[0], depths[1] + 1))
    assert table_lookup.TABLES[0].tolist() == [2, 4, 3, 6, 5, 0, 1, 7]
    assert all(sorted(table) == list(range(8)) for table in table_lookup.TABLES)
    assert len({tuple(table) for table in table_lookup.TABLES}) == 8


@pytest.mark.parametrize("name, order", [("ctl_forward_11", 1), ("ctl_backward_11", -1)])
def test_published_table_lookup(name, order):
    """The tables give the labels, and the numbers of samples match the authors' code."""
    tables = table_lookup.PUBLISHED_TABLES
    random = np.random.RandomState(0x12345678)
    np.testing.assert_array_equal(tables, [random.permutation(8) for _ in range(11)])
    for split, depths in (("train", (1, 5)), ("dev", (6, 8)), ("test", (9, 10))):
        samples = list(problems.get(name).generate_samples(split, None, None, seed=5))
        counts = collections.Counter()
        for (start, *words), label in map(_split, samples):
            symbol, *functions = words[::order]
            symbol = int(symbol)
            for function in functions:
                symbol = tables["abcdefghijk".index(function), symbol]
            assert (start, label) == ("<s>", str(symbol))
            assert len(functions) == 1 or set(functions) <= set("abcdefghi")
            counts[len(functions)] += 1
        assert (min(counts), max(counts)) == depths
        if split == "train":
            assert counts.pop(1) == 9 * 8 + 2 * 8 * 31
            assert counts.total() == 9**2 * (9**4 - 1) // 8 * 8 // 10 == 53_136
            assert len({sample["inputs"] for sample in samples}) == 11 * 8 + 53_136


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_addition_has_digits_of_the_sum(split):
    shortest, longest = problems.get("addition10").lengths[split]
    lengths, travelled = set(), collections.Counter()
    for columns, targets in map(_split, _samples("addition10", split)):
        first, second = (int("".join(column[at] for column in columns)) for at in (0, 2))
        assert columns[0] == "0+0"
        assert targets.split() == list(f"{first + second:0{len(columns)}}")
        lengths.add(len(columns) - 1)
        travelled[_farthest_carry(columns)] += 1
    assert lengths == set(range(shortest, longest + 1))
    assert set(travelled) >= set(range(longest // 2))  # longer distances also occur


def _farthest_carry(columns):
    """Return the largest number of successive columns that pass a carry on."""
    farthest = distance = 0
    is_carried = False
    for column in reversed(columns):
        total = int(column[0]) + int(column[2])
        is_handed_on = is_carried and total == 9
        distance = distance + 1 if is_handed_on else 0
        farthest = max(farthest, distance)
        is_carried = is_handed_on or total > 9
    return farthest


def _evaluate(words):
    """Evaluate a ListOps expression with a stack, independently of problems/."""
    stack = [[]]
    for word in words:
        if word == "]":
            operation, *values = stack.pop()
            values.sort()
            middle = values[(len(values) - 1) // 2] + values[len(values) // 2]
            stack[-1].append(
                {
                    "[MAX": values[-1],
                    "[MIN": values[0],
                    "[MED": middle // 2,
                    "[SM": sum(values) % 10,
                }[operation]
            )
        elif word.startswith("["):
            stack.append([word])
        else:
            stack[-1].append(int(word))
    ((value,),) = stack
    return value


def _depth(words):
    depth = deepest = 0
    for word in words:
        depth += word.startswith("[") - (word == "]")
        deepest = max(deepest, depth)
    return deepest


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_listops_evaluates_nested_lists(split):
    shallowest, deepest = problems.get("listops").depths[split]
    depths = collections.Counter()
    for words, label in map(_split, _samples("listops", split)):
        assert label == str(_evaluate(words))
        assert len(words) <= 50
        depths[_depth(words)] += 1
    assert set(depths) == set(range(shallowest, deepest + 1))


@pytest.mark.parametrize("longest", [10, 40])
def test_parity_counts_ones(longest):
    lengths = set()
    for split in ("train", "test"):
        for words, label in map(_split, _samples(f"parity{longest}", split)):
            assert (words.count("1") % 2 == 1) == (label == "odd")
            lengths.add((split, len(words)))
    assert {length for split, length in lengths if split == "test"} == {2 * longest}
    assert max(length for split, length in lengths if split == "train") == longest


def test_dyck_has_balanced_and_unbalanced_strings():
    counts = collections.Counter()
    for words, label in map(_split, _samples("dyck40", "test", 1000)):
        assert len(words) == 80
        assert formal_languages.is_balanced(words) == (label == "yes")
        assert words.count("(") == words.count(")")
        counts[label] += 1
    assert min(counts.values()) > 400
    # There are two balanced strings of four brackets, with equal probability.
    short = collections.Counter(
        sample["inputs"]
        for sample in _samples("dyck40", "train", 20_000)
        if len(sample["inputs"]) == 7 and sample["targets"] == "yes"
    )
    assert set(short) == {"( ) ( )", "( ( ) )"}
    assert 0.8 < short["( ) ( )"] / short["( ( ) )"] < 1.25


_GROUPS = (  # each group of cells holds 1 to 6
    [[6 * row + column for column in range(6)] for row in range(6)]
    + [[6 * row + column for row in range(6)] for column in range(6)]
    + [
        [6 * (top + row) + left + column for row in range(2) for column in range(3)]
        for top in (0, 2, 4)
        for left in (0, 3)
    ]
)


def _numbers_left(cells, place):
    seen = {cells[other] for group in _GROUPS if place in group for other in group}
    return [number for number in "123456" if number not in seen]


def _solutions(cells):
    """Return all solutions, by trying all numbers in the first empty cell."""
    if "." not in cells:
        return [cells]
    place = cells.index(".")
    return [
        solution
        for number in _numbers_left(cells, place)
        for solution in _solutions([*cells[:place], number, *cells[place + 1 :]])
    ]


def _steps(cells):
    """Return the number of steps until all cells are filled, independently of problems/."""
    steps = 0
    while "." in cells:
        left = {place: _numbers_left(cells, place) for place in range(36) if cells[place] == "."}
        cells = [
            left[place][0] if cell == "." and len(left[place]) == 1 else cell
            for place, cell in enumerate(cells)
        ]
        steps += 1
    return steps


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_sudoku_has_unique_solutions(split):
    shallowest, deepest = problems.get("sudoku6").depths[split]
    depths = collections.Counter()
    for sample in _samples("sudoku6", split, 20):
        puzzle, solution = sample["inputs"].split(), sample["targets"].split()
        assert all(sorted(solution[cell] for cell in group) == list("123456") for group in _GROUPS)
        assert _solutions(puzzle) == [solution]
        depths[_steps(puzzle)] += 1
    assert set(depths) == set(range(shallowest, deepest + 1))


def test_sudoku_splits_have_different_solutions():
    for split in ("train", "dev", "test"):
        for sample in _samples("sudoku6_iid", split, 20):
            assert generated_classes.is_held_out(sample["targets"]) == (split != "train")


def test_unsolvable_puzzle_has_no_steps():
    assert sudoku.steps_to_solve([0] * 36) is None
    solution = sudoku.sample_solution(np.random.default_rng(0))
    assert sudoku.steps_to_solve(solution) == 0
    assert sudoku.dig(np.random.default_rng(0), solution, 30) is None
