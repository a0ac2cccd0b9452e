import numpy as np
import pytest

from ut_keras import hparams, models
from ut_keras.hparam.field import HParamError
from ut_keras.models import size

SIZES = {"inputs": 30, "targets": 40}


@pytest.mark.parametrize(
    "name, set_name, overrides",
    [
        ("transformer", "transformer_tiny", ""),
        ("transformer", "transformer_tiny", "attention_key_channels=8,num_heads=4,ffn_layer=sru"),
        ("universal_transformer", "universal_transformer_tiny", ""),
        ("universal_transformer_encoder", "adaptive_universal_transformer_tiny", ""),
        ("lstm_seq2seq", "lstm_seq2seq", "hidden_size=16"),
    ],
)
def test_no_model_has_fewer_weights(name, set_name, overrides):
    hp = hparams.get(set_name, overrides)
    model = models.get(name, hp, vocab_sizes=SIZES)
    weights = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert weights / 10 < size.least_weights(hp, model.specs) <= weights


def test_too_large_a_model_is_not_begun():
    hp = hparams.get("transformer_tiny", "hidden_size=4000000")
    with pytest.raises(HParamError, match="must fit in memory, .* hidden_size=4000000"):
        models.get("transformer", hp, vocab_sizes=SIZES)
