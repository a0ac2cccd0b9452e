"""Waiting that has an end, whatever is waited for: a name, a connection, a server that drips."""

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def call(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """Calls a function that waits for others, and for no more than some seconds in all.

    It runs in a thread, which is left behind if it takes longer: nothing else ends, for instance,
    the look-up of an address.

    Args:
        seconds: float.
        function: what to call.
        *arguments: its arguments.
    Returns:
        What the function returns.
    Raises:
        TimeoutError: if it takes longer.
        What the function raises.
    """
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run():
        try:
            answers.put((function(*arguments), None))
        except BaseException as error:  # raised where it is waited for
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return value
