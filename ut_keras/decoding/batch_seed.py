"""Seeds of the batches of a sampled search.

The batches of a call need different seeds. Otherwise equal prompts in two batches would have equal
samples. The seeds of two batches must not differ by 1, because the user's next call often has the
next seed. Then batch 1 of the call with seed 1 would have the samples of batch 0 of the call with
seed 2.
"""

from typing import Any

_NUM_SEEDS = 2**31
# Steps between the seeds of neighbouring batches and groups: _NUM_SEEDS divided by the plastic
# number and by its square (the R2 sequence). No sum of few steps is near a multiple of _NUM_SEEDS.
# Therefore different pairs of a small seed and a small number give different seeds.
_BATCH_STEP = 1621087445
_GROUP_STEP = 1223722707


def of_batch(seed: Any, number: Any) -> Any:
    """Return the seed of a batch, in [0, 2^31).

    Args:
        seed: int, or int64 scalar tensor. The seed of the call, and, modulo 2^31, of batch 0.
        number: int, or int64 scalar tensor, below 2^31. The index of the batch in the call.
    """
    return _moved(seed, number, _BATCH_STEP)


def of_group(seed: Any, number: Any) -> Any:
    """Return the seed of a group of examples inside a batch, in [0, 2^31).

    Args:
        seed: int, or int64 scalar tensor. The seed of the batch, and, modulo 2^31, of group 0.
        number: int, or int64 scalar tensor, below 2^31. A number that no other group of the batch
            has.
    """
    return _moved(seed, number, _GROUP_STEP)


def _moved(seed, number, step):
    # The sum fits into 64 bits, also in a tensor.
    return (seed % _NUM_SEEDS + number * step) % _NUM_SEEDS
