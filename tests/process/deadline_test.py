import threading

import pytest

from ut_keras.process import deadline


def test_what_is_there_in_time():
    assert deadline.call(30, max, 1, 2) == 2
    with pytest.raises(ZeroDivisionError):
        deadline.call(30, divmod, 1, 0)


def test_what_waits_without_end():
    with pytest.raises(TimeoutError, match="no answer within 0.01 s"):
        deadline.call(0.01, threading.Event().wait)
