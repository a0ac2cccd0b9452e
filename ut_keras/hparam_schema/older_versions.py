"""Hparams of older T2T versions, with the values that mean the same in T2T 1.15.

    to_current({"learning_rate_schedule": "warmup_and_decay", "optimizer": "Adam", …})
        ->  {"learning_rate_schedule": "legacy", "optimizer": "adam", …}

The learning rate of a resumed run depends on these values. T2T 1.15 itself does not convert them.

- Before 1.5.3, the schedule had other names. Before 1.4.4, there was no such field.
- Before 1.13, T2T multiplied the rate of the optimizer "Adam" by 0.002. Since then, it does so only
  if the name of the optimizer contains "adam" in lower case.

References: tensor2tensor/utils/optimize.py in T2T 1.4.2 and 1.5.2, and tensor2tensor/utils/
learning_rate.py in T2T 1.5.3, 1.12 and 1.15.
"""

from collections.abc import Mapping
from typing import Any

from ut_keras.hparam_schema import older_universal
from ut_keras.hparam_schema.field import HParamError
from ut_keras.registry import camelcase_to_snakecase

_SCHEDULE, _SCHEME, _LEGACY = "learning_rate_schedule", "learning_rate_decay_scheme", "legacy"
_NO_SCHEDULE = "warmup_and_decay"  # T2T before 1.4.4 has no other schedule
_OLD_SCHEDULES = (_NO_SCHEDULE, "linear_warmup_rsqrt_decay")
# Every set of T2T 1.13 and later has this field, and no set of an earlier version has it.
_FIELD_SINCE_1_13 = "split_targets_chunk_length"
_FIELD_SINCE_1_4_3 = "learning_rate_decay_staircase"
_SAME_BEFORE_1_4_3 = ("noam", "none", "sqrt")

_EXP = (
    "T2T 1.4.3 removed it. Use learning_rate_decay_scheme='exp' with learning_rate_decay_steps and "
    "learning_rate_decay_rate"
)
# The values that a command of an older T2T version may contain, each with a remedy.
REMOVED_SCHEDULES = (
    ("warmup_and_decay", "T2T 1.5.3 renamed it. Use 'legacy'"),
    (
        "linear_warmup_rsqrt_decay",
        "T2T 1.5.3 renamed it. Use 'legacy' with learning_rate_decay_scheme='noam'",
    ),
)
REMOVED_SCHEMES = tuple((name, _EXP) for name in ("exp10k", "exp50k", "exp100k", "exp500k"))


def to_current(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a T2T hparams.json with the values of T2T 1.15.

    Args:
        values: dict from name to value, from a file of any T2T version. The function returns the
            content of a file of T2T 1.13 or later unchanged.

    Raises:
        HParamError: if T2T 1.15 cannot compute the outputs or the learning rates of the file.
    """
    values = older_universal.hparams_to_current(values)
    if _FIELD_SINCE_1_13 in values:
        return values
    current = {**values, **_current_schedule(values)}
    optimizer = current.get("optimizer")
    if isinstance(optimizer, str) and "Adam" in optimizer:
        current["optimizer"] = camelcase_to_snakecase(optimizer)
    return current


def _current_schedule(values):
    """Return the fields that describe the schedule of an older file in T2T 1.15."""
    schedule, scheme = values.get(_SCHEDULE, _NO_SCHEDULE), values.get(_SCHEME)
    # Every file of these versions has a scheme. A dict without it is not such a file.
    if _SCHEME not in values or schedule not in _OLD_SCHEDULES:
        return {}
    is_older = _SCHEDULE not in values and _FIELD_SINCE_1_4_3 not in values
    if is_older and scheme not in (*_SAME_BEFORE_1_4_3, *dict(REMOVED_SCHEMES)):
        raise HParamError(
            f"{_SCHEME} must be one of {', '.join(map(repr, _SAME_BEFORE_1_4_3))} in a file of T2T "
            f"before 1.4.3. Received: {scheme!r}. T2T 1.15 has another formula for this value. To "
            f"resume with another schedule, add {_SCHEDULE}='constant', for example, to the file."
        )
    if values.get("optimizer") == "Adafactor":
        raise HParamError(
            "optimizer must not be 'Adafactor' in a file of T2T before 1.5.3. Its Adafactor "
            "is another algorithm. Received: optimizer='Adafactor'. To load the weights alone, set "
            "optimizer='adam' in the file and call t2t_import.load_checkpoint."
        )
    return {_SCHEDULE: _LEGACY, _SCHEME: "noam" if schedule == _OLD_SCHEDULES[1] else scheme}


def adam_note(optimizer: str, learning_rate_schedule: str) -> str:
    """Return a note if the optimizer's name raises the learning rate, or "".

    Packages and commands that were written for T2T before 1.13 contain names such as "Adam".
    """
    factors = [factor.strip() for factor in learning_rate_schedule.split("*")]
    if _LEGACY not in factors or "Adam" not in optimizer:
        return ""
    name = camelcase_to_snakecase(optimizer)
    return (
        f"with optimizer={optimizer}, the learning rate is 500 times as high as with "
        f"optimizer={name}. As in T2T 1.13 to 1.15, the schedule 'legacy' reduces the rate only if "
        "the name contains 'adam' in lower case. T2T before 1.13 reduces the rate for both names. "
        f"To use the reduced rate, set optimizer={name}."
    )
