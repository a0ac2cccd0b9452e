"""A public function creates `Options` from its keyword arguments and checks them once."""

import numpy as np
import pytest

from tests.inference import export_models
from tests.models import examples
from ut_keras.decoding import batch_seed
from ut_keras.decoding import options as options_lib
from ut_keras.decoding.options import Options
from ut_keras.errors import UsageError
from ut_keras.inference import decode_hparams, saved_run
from ut_keras.inference.predictor import Predictor

INPUTS = np.array([[5, 3, 1], [4, 1, 0]], np.int32)


def test_from_keywords_uses_defaults_of_the_caller():
    found = options_lib.from_keywords({"beam_size": 3}, per_example_length=True)
    assert found == Options(beam_size=3, per_example_length=True)
    given = {"per_example_length": False}
    assert options_lib.from_keywords(given, per_example_length=True) == Options()


def test_from_keywords_accepts_old_name():
    with pytest.warns(DeprecationWarning, match="own_room.*per_example_length"):
        found = options_lib.from_keywords({"own_room": False}, per_example_length=True)
    assert found == Options()
    with pytest.raises(UsageError, match="per_example_length=True, own_room=False"):
        options_lib.from_keywords({"own_room": False, "per_example_length": True})


@pytest.mark.parametrize(
    ("name", "ours"), [("extra_length", "decode_length"), ("num_beams", "beam_size")]
)
def test_names_of_other_interfaces_are_explained(name, ours):
    with pytest.raises(TypeError, match=rf"Received: {name}=3\. Use {ours}\.$"):
        options_lib.from_keywords({name: 3})


def test_from_keywords_rejects_options():
    with pytest.raises(TypeError, match="beam_sise"):
        options_lib.from_keywords({"beam_sise": 2})
    with pytest.raises(ValueError, match="beam_size must be at least 1. Received: 0."):
        options_lib.from_keywords({"beam_size": 0})


def test_to_options_of_decode_hparams():
    values = decode_hparams.parse("extra_length=7,sampling_temp=0.5,beam_size=1,seed=3")
    seed = batch_seed.of_batch(3, 2)
    wanted = Options(
        decode_length=7, per_example_length=True, temperature=0.5, seed=seed, eos_penalty=0.0
    )
    assert decode_hparams.to_options(values, batch=2) == wanted
    batch_length = decode_hparams.parse("per_example_length=False,beam_size=1,extra_length=50")
    assert decode_hparams.to_options(batch_length) == Options()


@pytest.fixture
def made(monkeypatch):
    """Return (list of all `Options` that are created, list of the `Options` that are checked)."""
    made, checked, init, check = [], [], Options.__init__, Options.check

    def count(self, *args, **kwargs):
        made.append(self)
        init(self, *args, **kwargs)

    def count_check(self):
        checked.append(self)
        check(self)

    monkeypatch.setattr(Options, "__init__", count)
    monkeypatch.setattr(Options, "check", count_check)
    return made, checked


def test_options_are_made_once(made):
    """Each call creates `Options` once from its arguments and checks them.

    The search creates a second object for the graph, which contains nothing to check.
    """
    model = examples.make("transformer", "num_hidden_layers=1")
    bytes_model, encoders = export_models.build("bytes")
    run = saved_run.SavedRun(bytes_model, encoders)
    how = {"beam_size": 2, "decode_length": 1}
    calls = {
        "generate": lambda: model.generate({"inputs": INPUTS}, **how),
        "predictor": lambda: Predictor(model)([INPUTS[0]], **how),
        "run.generate": lambda: run.generate(["a"], **how),
        "run.translate": lambda: run.translate(["a"], **how),
    }
    for name, call in calls.items():
        for options in made:
            options.clear()
        call()
        assert [len(options) for options in made] == [2, 1], name
