import pytest

from ut_keras import hparam
from ut_keras.bin import decode_hparams, flags


def test_defaults_are_those_of_tensor2tensor():
    assert decode_hparams.parse("") == {
        "beam_size": 4,
        "alpha": 0.6,
        "extra_length": 100,
        "batch_size": 0,
        "num_samples": -1,
    }


def test_values_are_converted():
    values = decode_hparams.parse("beam_size=1, alpha=1,num_samples=20,return_beams=False")
    assert (values["beam_size"], values["alpha"], values["num_samples"]) == (1, 1.0, 20)
    assert "return_beams" not in values


@pytest.mark.parametrize(
    "text, message",
    [
        ("beam_sise=1", "beam_size"),
        ("beam_size=one", "must be of type int. Received: 'one'"),
        ("beam_size=0", "at least 1. Received: 0"),
        ("return_beams=True", "return_beams is not supported yet. Received: return_beams=True"),
    ],
)
def test_mistakes_are_told_in_one_line(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        decode_hparams.parse(text)
    assert "\n" not in str(caught.value)


def test_malformed():
    with pytest.raises((hparam.HParamError, flags.UsageError), match="beam_size"):
        decode_hparams.parse("beam_size")
