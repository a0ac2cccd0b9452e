"""Looks, before the first update, at what an evaluation would only find out after many."""

from collections.abc import Callable
from typing import Any

from ut_keras.training.early_stopping import EarlyStopping


def check_metric(
    stopping: EarlyStopping,
    evaluator: Any,
    decoder: Any,
    make_eval_dataset: Callable[..., Any],
) -> None:
    """Checks that evaluations give the metric to stop by.

    Most names are known beforehand; where this one is not, a batch is evaluated, and decoded, which
    compiles what is needed later anyway. All workers must call it.

    Args:
        stopping: `EarlyStopping`.
        evaluator: `Evaluator`.
        decoder: `FreeDecoder`; None where nothing is decoded, or another worker does it.
        make_eval_dataset: as for a schedule.

    Raises:
        MetricError: with the names that there are.
    """
    names = set(evaluator.names)
    if stopping.metric in names:
        return
    dataset = make_eval_dataset().take(1)
    if not stopping.metric.startswith("decode/"):
        names |= evaluator(dataset).keys()
    elif decoder is None:
        return
    if decoder is not None and stopping.metric not in names and decoder.can_decode(dataset):
        names |= decoder(dataset)[0].keys()
    stopping.check(names)
