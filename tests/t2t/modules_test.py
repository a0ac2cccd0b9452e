import importlib
import os

import pytest

from ut_keras.t2t import modules
from ut_keras.t2t.missing import Missing

_PAGE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
    "docs",
    "t2t_package.md",
)


def test_every_stand_in_is_there_and_on_the_page():
    with open(_PAGE, encoding="utf-8") as file:
        page = file.read()
    for name, ours in modules.STAND_INS.items():
        assert importlib.import_module(f"ut_keras.t2t.{ours}").__doc__
        assert f"`{name}`" in page
        assert modules.find(name) is modules.find(name)


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("data_generators.lm1b", "problems.lm1b"),
        ("data_generators.image_utils", "a Text2TextProblem of your own"),
        ("models.vanilla_gan", "ut_keras.models"),
        ("no.such", "docs/t2t.md"),
    ],
)
def test_the_nearest_thing(name, nearest):
    with pytest.raises(Missing, match=f"tensor2tensor.{name}, which .* the nearest: {nearest}."):
        modules.find(name)


def test_what_only_models_use_can_be_imported_and_not_called():
    layers = modules.find("layers").common_layers
    dense = layers.dense
    with pytest.raises(Missing, match="keras.layers and ut_keras.layers"):
        dense(1)
    assert not hasattr(layers, "__path__")
