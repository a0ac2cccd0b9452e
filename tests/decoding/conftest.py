"""Fixtures for tests of functions that XLA would compile on a GPU."""

import pytest

from ut_keras.ops import compiled, devices


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)


@pytest.fixture
def signatures(monkeypatch):
    """Trace functions without XLA, and return the signatures that XLA would compile."""
    found = []

    def without_xla(run, input_signature, jit_compile=False):
        if jit_compile:
            found.append(input_signature)
        return original(run, input_signature)

    original = compiled.function
    monkeypatch.setattr(compiled, "function", without_xla)
    return found
