"""What a run is told once when it does badly in a way that has a known cure."""

from collections.abc import Mapping

_AFTER_STEPS = 1000  # before that, neither speed nor ponder times have settled
_FEW_STEPS = 2.5
_LONG_WAIT = 0.3  # of the time
_BUSY = 0.1


class Advice:
    """Looks at the averages of a run; says each thing once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def lines(self, step: int, averages: Mapping[str, float]) -> list[str]:
        """What is new to say.

        Args:
            step: int.
            averages: those of `Progress`.

        Returns:
            list of str.
        """
        if step < _AFTER_STEPS:
            return []
        found = {"ponder": _ponder(averages), "input": _input(averages)}
        new = {name: line for name, line in found.items() if line and name not in self._said}
        self._said.update(new)
        return list(new.values())


def _ponder(averages):
    ponder = averages.get("ponder_time")
    if ponder is None or ponder >= _FEW_STEPS:
        return None
    return (
        f"Warning: positions ponder {ponder:.2f} steps on average, so most of the depth is never "
        "used. Begin with a lower halting probability: --hparams=act_halting_bias_init=-3.0, or a "
        "set whose name ends in _deepstart (T2T's bias of 1 halts after about 2 steps)."
    )


def _input(averages):
    waited = averages.get("input_wait", 0.0)
    # A device that is still at work when its results are asked for does not wait.
    if waited < _LONG_WAIT or averages.get("device_wait", 0.0) > _BUSY:
        return None
    return (
        f"Warning: {waited:.0%} of the time goes into waiting for the next batch: the input "
        "pipeline is the bottleneck. Put --data_dir on a fast disk, give the process more cores, "
        "or do more per update (a larger batch_size)."
    )
