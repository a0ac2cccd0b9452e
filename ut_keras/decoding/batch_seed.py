"""Seeds of the batches of a sampled search.

Several batches of one call need different seeds, or equal prompts in two batches would have equal
samples. Seeds that differ by 1 are not sufficient, because the user's next call often has the next
seed: batch 1 of seed 1 would have the samples of batch 0 of seed 2.
"""

from typing import Any

_NUM_SEEDS = 2**31
# Steps between the seeds of neighbouring batches and groups: _NUM_SEEDS divided by the plastic
# number and by its square (the R2 sequence). No sum of few steps is near a multiple of _NUM_SEEDS,
# so small seeds and small numbers do not meet.
_BATCH_STEP = 1621087445
_GROUP_STEP = 1223722707


def of_batch(seed: Any, number: Any) -> Any:
    """Return the seed of a batch, in [0, 2^31).

    Args:
        seed: int, or int64 scalar tensor. Batch 0 has this seed.
        number: int, or int64 scalar tensor, below 2^31. The number of the batch in a call.
    """
    return _moved(seed, number, _BATCH_STEP)


def of_group(seed: Any, number: Any) -> Any:
    """Return the seed of a group of examples inside a batch, in [0, 2^31).

    Args:
        seed, number: as for `of_batch`. The seed is the seed of the batch.
    """
    return _moved(seed, number, _GROUP_STEP)


def _moved(seed, number, step):
    # The sum fits into 64 bits, also in a tensor.
    return (seed % _NUM_SEEDS + number * step) % _NUM_SEEDS
