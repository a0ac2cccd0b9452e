"""Where the layers lie, and where they lay."""

import pytest

import ut_keras.layers
from ut_keras.layers.depth import act
from ut_keras.layers.halting import halting


def test_modules_are_found_where_they_were():
    with pytest.warns(DeprecationWarning, match="layers.act is in ut_keras.layers.depth.act now"):
        assert ut_keras.layers.act is act
    message = "layers.halting.ACTHalting is in ut_keras.layers.halting.halting now"
    with pytest.warns(DeprecationWarning, match=message):
        from ut_keras.layers import halting as room

        assert room.ACTHalting is halting.ACTHalting


@pytest.mark.parametrize("room", [ut_keras.layers, ut_keras.layers.halting])
def test_what_never_was(room):
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018


def test_layers_are_here_by_name():
    for name in ut_keras.layers.__all__:
        assert getattr(ut_keras.layers, name).__name__ == name
    assert ut_keras.layers.AdaptiveComputationTime is act.AdaptiveComputationTime
