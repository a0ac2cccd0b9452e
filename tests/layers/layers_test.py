"""Where the layers lie."""

import pytest

import ut_keras.layers
from ut_keras.layers.depth import act


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ut_keras.layers.nothing  # noqa: B018


def test_layers_are_here_by_name():
    assert set(ut_keras.layers.__all__) <= set(dir(ut_keras.layers))
    for name in ut_keras.layers.__all__:
        assert getattr(ut_keras.layers, name).__name__ == name
    assert ut_keras.layers.AdaptiveComputationTime is act.AdaptiveComputationTime
