"""The table that a search ends with."""

from typing import Any

from ut_keras.training.tuning import search_record

_SHOWN_REASON = 60


def table(record: search_record.SearchRecord) -> str:
    """All trials as text: the best one first, then the failed and the unfinished ones.

    Args:
        record: `SearchRecord`.
    """
    best = record.best()
    others = [trial for trial in record.trials if trial.state != search_record.COMPLETE]
    names = list(dict.fromkeys(name for trial in record.trials for name in trial.hparams))
    rows = [["trial", record.identity["autotune_objective"], "step", *names]]
    for trial in best + others:
        state = number(trial.value) if trial in best else trial.state
        step = "" if trial.step is None else str(trial.step)
        values = [number(trial.hparams.get(name, "")) for name in names]
        rows.append([f"trial-{trial.number}", state, step, *values])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += [
        f"trial-{trial.number} failed: {_shortened(trial.reason)}"
        for trial in others
        if trial.state == search_record.FAILED
    ]
    return "\n".join(lines)


def assignments(trial: search_record.Trial) -> str:
    """What a trial tries, in one line."""
    return " ".join(f"{name}={number(value)}" for name, value in trial.hparams.items())


def number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _shortened(text):
    return text if len(text) <= _SHOWN_REASON else text[: _SHOWN_REASON - 1] + "…"
