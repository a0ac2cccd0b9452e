import os

import pytest

from ut_keras import process


def test_overlapping_contexts_restore_stderr(capfd):
    """Two threads may leave the context in another order than they entered it."""
    first, second = process.silent_stderr(), process.silent_stderr()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    os.write(2, b"hidden\n")
    second.__exit__(None, None, None)
    os.write(2, b"shown\n")
    assert capfd.readouterr().err == "shown\n"


def test_stderr_is_restored_after_an_error(capfd):
    with pytest.raises(ZeroDivisionError), process.silent_stderr():
        os.write(2, b"hidden\n")
        _ = 1 / 0
    os.write(2, b"shown\n")
    assert capfd.readouterr().err == "shown\n"
