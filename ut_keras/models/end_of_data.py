"""What Keras says at the end of a dataset, corrected."""

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def expected(steps: int | None) -> Iterator[None]:
    """Context without Keras' warning that data ran out, where no number of steps was given.

    Keras warns at the end of every dataset that does not know its number of batches, and says that
    training was interrupted.

    Raises:
        ValueError: for a dataset without a batch, which `predict` of Keras cannot handle.
    """
    with contextlib.ExitStack() as stack:
        if steps is None:
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", message="Your input ran out of data")
        try:
            yield
        except UnboundLocalError as error:
            if "batch_outputs" not in str(error):  # Keras' own variable, of its first batch
                raise
            raise ValueError("x must contain at least one batch. Received: none.") from error
