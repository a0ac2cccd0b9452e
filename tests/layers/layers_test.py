"""The module `ut_keras.layers` exports layers by name."""

import pytest

import ut_keras.layers
from ut_keras.layers.depth import act


def test_unknown_layer_raises_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        ut_keras.layers.nothing  # noqa: B018


def test_exported_layers_are_importable():
    assert set(ut_keras.layers.__all__) <= set(dir(ut_keras.layers))
    for name in ut_keras.layers.__all__:
        assert getattr(ut_keras.layers, name).__name__ == name
    assert ut_keras.layers.AdaptiveComputationTime is act.AdaptiveComputationTime
