"""Ranges with names from T2T have T2T's values, which this file copies from T2T's source."""

import pytest

from ut_keras import hparams
from ut_keras.hparam_schema.ranged_hparams import check_hparams, ignored_notes
from ut_keras.registry import UnknownNameError

_RATE = "learning_rate in [0.3, 3.0] (log scale)"
_OPTIMIZER = [
    "learning_rate_warmup_steps in {1000, 2000, 4000, 8000, 16000}",
    "initializer_gain in [0.5, 2.0]",
    "optimizer_adam_beta1 in [0.85, 0.95]",
    "optimizer_adam_beta2 in [0.97, 0.99]",
]
_UNIVERSAL = [
    "hidden_size in {1024, 2048, 4096}",
    "filter_size in {2048, 4096, 8192}",
    "num_heads in {8, 16, 32}",
    "transformer_ffn_type in {sepconv, fc}",
    _RATE,
    "weight_decay in [0.0, 2.0]",
]
_T2T = {
    "transformer_base_range": [_RATE, *_OPTIMIZER, "weight_decay in [0.0, 0.0001]"],
    "transformer_tpu_range": [_RATE, *_OPTIMIZER, "weight_decay in [0.0, 2.0]"],
    "transformer_tiny_tpu_range": [_RATE, "weight_decay in [0.0, 2.0]"],
    "universal_transformer_base_range": ["num_rec_steps in {6, 8, 10}", *_UNIVERSAL],
    "adaptive_universal_transformer_base_range": [
        "act_max_steps in {8, 16, 32}",
        "act_loss_weight in [0.0, 0.5]",
        *_UNIVERSAL,
    ],
}


@pytest.mark.parametrize("name", _T2T)
def test_range_matches_t2t(name):
    assert [str(item) for item in hparams.get_range(name)] == _T2T[name]


@pytest.mark.parametrize("name", [*_T2T, "adaptive_universal_transformer_quick_range"])
def test_range_fits_the_set_of_its_name(name):
    set_name = name.removesuffix("_range").replace("transformer_tpu", "transformer_base")
    set_name = set_name.replace("tiny_tpu", "tiny")
    hp = hparams.get(set_name)
    ranges = hparams.get_range(name)
    check_hparams(ranges, hp)
    vain = [line.split()[0] for line in ignored_notes(ranges, hp)]
    assert vain == ([] if name.endswith("_quick_range") else ["learning_rate"])


def test_unknown_range_lists_nearest_names():
    with pytest.raises(UnknownNameError, match="transformer_base_range"):
        hparams.get_range("transformer_bas_range")
