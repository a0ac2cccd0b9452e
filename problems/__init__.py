"""All datasets by name, each as a `Problem`.

    problem = problems.get("algorithmic_reverse_decimal40")
    problem.generate_data(data_dir, tmp_dir)
    train = problem.dataset("train", data_dir, hp)

Importing this package registers all datasets. It does not import TensorFlow. problems/problem.py
describes how to add a dataset.
"""

import importlib
import pkgutil
from typing import Any

from ut_keras.problems import reversal
from ut_keras.problems.problem import Problem
from ut_keras.problems.registration import REGISTRY, register
from ut_keras.process import short_names
from ut_keras.registry import UnsupportedNameError

__all__ = ["Problem", "get", "names", "register"]


def names() -> list[str]:
    """Return the sorted names of all problems."""
    return REGISTRY.names()


def get(name: str) -> Problem:
    """Return the `Problem` that is registered as `name`.

    Args:
        name: str. A registered name, optionally followed by `_rev`, `_copy` or both (see
            reversal.py).

    Raises:
        UnknownNameError: if there is no such problem. The message lists similar names.
        DataError: if an attribute of the problem has a wrong type or range.
    """
    is_base = name in REGISTRY or not isinstance(name, str)
    if not is_base:
        _check_is_one_name(name)
    base, reverse, copy = (name, False, False) if is_base else reversal.parse(name)
    problem = REGISTRY.get(base)()
    problem.name = base
    problem.check()
    if not (reverse or copy):
        return problem
    derived: Any = reversal.Derived(problem, reverse, copy)  # has all attributes of a `Problem`
    return derived


def _check_is_one_name(name):
    """Raise `UnsupportedNameError` for names joined by "-", as in T2T before 1.6."""
    parts = name.split("-")
    if len(parts) > 1 and all(reversal.parse(part)[0] in REGISTRY for part in parts):
        raise UnsupportedNameError(
            f"problem must be one name. Received: {name!r}, {len(parts)} names as in T2T before "
            "1.6. Train each problem in its own run, or combine the problems with "
            "multi_problem.MultiProblem in a package."
        )


for _module in pkgutil.iter_modules(__path__, "ut_keras.problems."):
    importlib.import_module(_module.name)
short_names.alias(__name__)
