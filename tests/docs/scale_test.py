"""The page about scale says what its numbers say, and they fit the models."""

import importlib.util
import json
import math
import os

import pytest

from ut_keras import hparams

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")


def _load():
    spec = importlib.util.spec_from_file_location("scale_numbers", f"{DOCS}/scale_numbers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NUMBERS = _load()


def _measured():
    with open(NUMBERS.MEASURED, encoding="utf-8") as file:
        return json.load(file)


def test_page_is_up_to_date():
    with open(NUMBERS.PAGE, encoding="utf-8") as file:
        page = file.read()
    assert page == NUMBERS.blocks.fill(page, NUMBERS.texts()), "run: python docs/scale_numbers.py"


def test_a_page_without_a_block_is_refused():
    with pytest.raises(ValueError, match="Received: 0 of it"):
        NUMBERS.blocks.fill("", NUMBERS.texts())


@pytest.mark.parametrize("overrides", ["", "hidden_size=32,filter_size=40,num_hidden_layers=3"])
def test_weights_are_those_of_the_model(overrides):
    from ut_keras import models

    hp = hparams.get("transformer_tiny", overrides)
    model = models.get("transformer", hp, vocab_sizes={"inputs": 50, "targets": 50})
    weights = sum(math.prod(weight.shape) for weight in model.trainable_variables)
    assert NUMBERS.num_weights(hp, vocabulary=50) == weights


def test_arithmetic_is_mostly_six_operations_a_weight_and_token():
    """The rule of thumb; what is left out of it on either side is small here."""
    hp = hparams.get("transformer_base")
    flop = NUMBERS.step_flop(hp, tokens=1000, length=32)
    assert 0.95 < flop / (6 * 1000 * NUMBERS.num_weights(hp)) < 1.05
    assert NUMBERS.step_flop(hp, 1000, 256) > flop


def test_a_ring_sends_all_gradients_nearly_twice():
    hp = hparams.get("transformer_base")
    gradients = 4 * NUMBERS.num_weights(hp)
    assert NUMBERS.wire_bytes(hp, 1) == 0
    assert NUMBERS.wire_bytes(hp, 2) == gradients
    assert 1.96 * gradients < NUMBERS.wire_bytes(hp, 64) < 2 * gradients


def test_activations_fit_the_measured_peaks():
    measured = _measured()
    base = hparams.get("transformer_base")
    points = measured["memory"]["points"]
    for length in {point["length"] for point in points}:
        few, many = sorted(
            (point["sequences"] * length, point["bytes"])
            for point in points
            if point["length"] == length
        )
        more = NUMBERS.activation_bytes(base, many[0] - few[0], length, measured)
        assert more == pytest.approx(many[1] - few[1], rel=0.1)
    big = hparams.get("transformer_big")
    assert NUMBERS.activation_bytes(big, 1024, 64, measured) > NUMBERS.activation_bytes(
        base, 1024, 64, measured
    )


def test_weights_of_the_measured_model_are_the_formulas():
    base = hparams.get("transformer_base")
    for point in _measured()["memory"]["points"]:
        assert point["weights"] == NUMBERS.num_weights(base)
