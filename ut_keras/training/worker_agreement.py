"""Workers of one run must be started alike; what differs is told before the first update.

    worker_agreement.check({"host0:2222": {"train_steps": 9}, "host1:2222": {"train_steps": 8}}, 0)

raises, on either of them: All workers must have the same flags, hparams and data. Received:
train_steps=9 on host0:2222 and 8 on host1:2222.
"""

from collections.abc import Mapping
from typing import Any

from ut_keras.training.cluster import ClusterError

_MOST_SHOWN = 5


def check(statements: Mapping[str, Mapping[str, Any]], index: int) -> None:
    """Compares what all workers state with what one of them does.

    Args:
        statements: dict from every worker's address to a dict from name to value.
        index: int. Which worker this is.

    Raises:
        ClusterError: names what differs, and where; all workers raise it, if one does.
    """
    here = list(statements)[index]
    # Those that differ from the chief, or, on the chief, from it.
    chief = next(iter(statements))
    for other in [chief, here, *statements]:
        differing = _differing(statements[chief], statements[other])
        if differing:
            shown = ", ".join(
                f"{name}={statements[chief].get(name)!r} on {chief} and "
                f"{statements[other].get(name)!r} on {other}"
                for name in differing[:_MOST_SHOWN]
            )
            more = len(differing) - _MOST_SHOWN
            raise ClusterError(
                "All workers must have the same flags, hparams and data. Received: "
                f"{shown}{f', and {more} more' if more > 0 else ''}."
            )


def _differing(one, other):
    """The names of values that differ, in order."""
    return [name for name in one | other if one.get(name) != other.get(name)]
