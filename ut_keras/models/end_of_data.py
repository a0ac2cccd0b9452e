"""Correct Keras' warning and error at the end of a dataset."""

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def expected(steps: int | None) -> Iterator[None]:
    """Return a context that suppresses Keras' warning that the data ran out.

    At the end of every dataset of unknown size, Keras warns that training was interrupted. The
    context suppresses this warning if the caller gave no number of steps.

    Args:
        steps: int, the number of steps that the caller gave, or None.

    Raises:
        ValueError: if the dataset has no batches. Keras' `predict` has no check for this case.
    """
    with contextlib.ExitStack() as stack:
        if steps is None:
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Your input ran out of data")
        try:
            yield
        except UnboundLocalError as error:
            # Keras assigns its variable `batch_outputs` only in the first batch. So without a
            # batch, Python raises an error that names this variable.
            if "batch_outputs" not in str(error):
                raise
            raise ValueError("x must contain at least one batch. Received: none.") from error
