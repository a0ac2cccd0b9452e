"""The datasets by name. Importing registers all of them and loads no TensorFlow.

    problem = problems.get("algorithmic_reverse_decimal40")
    problem.generate_data(data_dir, tmp_dir)
    train = problem.dataset("train", data_dir, hp)

A new dataset registers itself: see problems/problem.py.
"""

from problems.problem import REGISTRY, Problem, register

# Each of these registers its problems.
from problems import learning_to_execute, scan  # noqa: F401  isort: skip
from problems import algorithmic, babi_qa, text2text_tsv  # noqa: F401  isort: skip
from problems import lambada, subject_verb_agreement, wsj_parsing  # noqa: F401  isort: skip

__all__ = ["Problem", "get", "names", "register"]


def names():
    """Returns the names of all problems, sorted."""
    return REGISTRY.names()


def get(name):
    """Returns the `Problem` that is registered as `name`.

    Raises:
        UnknownNameError: if there is none; the message lists the nearest names.
    """
    problem = REGISTRY.get(name)()
    problem.name = name
    return problem
