"""Which rows are decoded together: those of like length, the longest first.

    plan([3, 9, 2, 8], tokens=20, most_rows=64)  ->  [[1, 3], [0, 2]]

Like lengths waste no work on padding, and if memory is too small, the first batch tells.
"""

from collections.abc import Sequence


def plan(
    lengths: Sequence[int], tokens: int, most_rows: int, same_length: bool = False
) -> list[list[int]]:
    """Groups rows into batches.

    Args:
        lengths: list of int, of the rows.
        tokens: int. A batch, padded to its longest row, has at most so many positions, unless it
            is a single row. 0 for any number.
        most_rows: int. Rows of a batch.
        same_length: bool. Only rows of equal length go together, so that none is padded.
    Returns:
        list of lists of indices into `lengths`: every row once.
    """
    batches: list[list[int]] = []
    # Rows of one length stay in their order: the same rows give the same batches.
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        batch = batches[-1] if batches else []
        longest = lengths[batch[0]] if batch else 0
        fits = batch and len(batch) < most_rows
        fits = fits and (not tokens or (len(batch) + 1) * longest <= tokens)
        if fits and (not same_length or lengths[row] == longest):
            batch.append(row)
        else:
            batches.append([row])
    return batches
