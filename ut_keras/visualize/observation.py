"""What is to be seen of one example: attention weights and ponder times, labelled. No TensorFlow.

    seen.maps["encoder"].weights        [N, H, S, S]
    seen.ponder["encoder"].times        [S]

Padding is left out: of a story of bAbI, the empty rows before the question.
"""

from typing import NamedTuple

import numpy as np

KINDS = {
    "encoder": "encoder",
    "decoder": "decoder",
    "memory": "decoder to encoder",
}


class Place(NamedTuple):
    """Where in depth something attends."""

    step: str  # "1", "2", … of a recurrence; "before" and "after" it; "1" without one
    layer: int  # from 1


class Map(NamedTuple):
    """Attention of one kind; N places in depth, H heads."""

    kind: str  # of `KINDS`
    places: tuple  # of N `Place`s
    weights: np.ndarray  # [N, H, T, S] float32
    queries: list  # T str
    keys: list  # S str
    steps_taken: np.ndarray | None  # [T], ponder times of the queries

    def __repr__(self) -> str:
        shape = list(self.weights.shape)
        return f"Map({self.kind}: weights {shape} of steps, heads, queries, keys)"


class PonderTimes(NamedTuple):
    """How long the positions of a stack pondered."""

    labels: list  # S str
    times: np.ndarray  # [S] float32, in steps

    def __repr__(self) -> str:
        of_each = zip(self.labels, self.times, strict=True)
        return " ".join(f"{label}:{time:.3g}" for label, time in of_each)


class Observation(NamedTuple):
    """What is to be seen of one example."""

    maps: dict  # from kind to `Map`
    ponder: dict  # from "encoder" and "decoder" to `PonderTimes`
    inputs: str  # "" for a language model
    outputs: str  # the targets, given or written; of a classifier, what it answers
    is_story: bool  # whether the source's positions are sentences

    def __repr__(self) -> str:
        """Few lines, for whoever looks at it in a notebook; the numbers are in its parts."""
        ponder = (f"steps of the {stack}: {times!r}" for stack, times in self.ponder.items())
        lines = (f"{self.inputs!r} -> {self.outputs!r}", *ponder, *map(repr, self.maps.values()))
        return "\n".join(lines)
