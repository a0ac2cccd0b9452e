"""Reads and writes `run.json`, which describes the run in its folder.

{"problem": "translate_ende_wmt32k", "model": "transformer", "hparams_set": "transformer_base",
 "hparams": "", "random_seed": 17, "trained_with": {"num_replicas": 1, …}}

When a run resumes, `ut_keras.bin.training_conditions` compares "trained_with" with the current
settings. The entry "hparams" of "trained_with" holds the hparams that differed from their defaults
when the run was last trained.
"""

import os
from typing import Any

from ut_keras.errors import DataError
from ut_keras.files import json_file
from ut_keras.hparam_schema import limits

FILENAME = "run.json"
_TEXTS = ("problem", "model", "hparams_set", "hparams")


def read(directory: str) -> dict[str, Any]:
    """Return the record of a folder, or {} if the folder has no `run.json`.

    Raises:
        DataError: if the file is invalid, for example if random_seed is not a valid seed.
    """
    path = os.path.join(directory, FILENAME)
    if not os.path.exists(path):
        return {}
    record = json_file.read(path, DataError)
    wrong = [name for name in _TEXTS if not isinstance(record.get(name, ""), str | None)]
    if not isinstance(record.get("trained_with", {}), dict):
        wrong.append("trained_with")
    seed = record.get("random_seed", 0)
    if type(seed) is not int or limits.unmet_limit(seed, 0, limits.LARGEST_SEED):
        wrong.append("random_seed")
    if wrong:
        raise DataError(
            f"{path} must be as ut-trainer writes it. Received: {wrong[0]}={record[wrong[0]]!r}."
        )
    return record


def write(directory: str, **record: Any) -> None:
    """Write the record of a folder."""
    json_file.write(os.path.join(directory, FILENAME), record)
