"""T2T's problems: `problems.problem(name)`."""

from ut_keras.t2t.registry import list_problems as available  # noqa: F401
from ut_keras.t2t.registry import problem  # noqa: F401
