import pytest

from ut_keras import hparam_schema
from ut_keras.decoding import batch_seed
from ut_keras.errors import UsageError
from ut_keras.inference import decode_hparams


def test_parse_defaults_match_t2t():
    values = decode_hparams.parse("")
    assert {name: values.pop(name) for name in ("beam_size", "alpha", "extra_length")} == {
        "beam_size": 4,
        "alpha": 0.6,
        "extra_length": 100,
    }
    assert (values.pop("batch_size"), values.pop("num_samples")) == (0, -1)
    assert values.pop("per_example_length")  # T2T has no such option
    ours = decode_hparams.search_options(decode_hparams.parse(""))
    # With their default values, the other fields have no effect.
    assert set(ours) == {"beam_size", "alpha", "decode_length"}


def test_parse_converts_values():
    values = decode_hparams.parse("beam_size=1, alpha=1,num_samples=20,return_beams=False")
    assert (values["beam_size"], values["alpha"], values["num_samples"]) == (1, 1.0, 20)
    assert "return_beams" not in values


@pytest.mark.parametrize("word, value", [("True", True), ("true", True), ("1", True), ("0", False)])
def test_parse_accepts_t2t_booleans(word, value):
    values = decode_hparams.parse(f"return_beams={word}", decode_hparams.DECODER)
    assert values["return_beams"] is value


def test_parse_accepts_older_t2t_hparam_without_effect():
    for value in ("True", "False"):
        values = decode_hparams.parse(f"beam_size=2,use_last_position_only={value}")
        assert values == decode_hparams.parse("beam_size=2")


@pytest.mark.parametrize(
    "text, message",
    [
        ("use_last_position_only=2", "must be of type bool. Received: '2'"),
        ("problem_idx=1", "problem_idx is not supported; --problem selects one problem"),
        ("beam_sise=1", "beam_size"),
        ("block_siz=1", "Unknown .* nearest names?: batch_size"),  # block_size is not supported
        ("beam_size=one", "must be of type int. Received: 'one'"),
        ("beam_size=0", "at least 1. Received: 0"),
        ("alpha=-0.1", "alpha must be at least 0. Received: -0.1"),
        ("alpha=nan", "alpha must be finite. Received: nan"),
        ("return_beams=True", "return_beams .*ut-decoder.* Received: return_beams=True"),
        ("shards=2", "shards is not supported yet. Received: shards=2"),
        ("mlperf_threshold=20", "mlperf_threshold is not supported yet. Received: .*=20.0"),
        ("min_length_ratio=0.5", "min_length_ratio is not supported; .*min_length"),
    ],
)
def test_parse_rejects_trainer_hparams(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        decode_hparams.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ("write_beam_scores=True", "write_beam_scores requires return_beams=True"),
        (
            "sampling_temp=0.7",
            "beam_size must be 1 .*Received: sampling_temp=0.7, beam_size=4",
        ),
        ("top_k=3", "sampling_temp must be above 0 .*Received: sampling_temp=0, top_k=3"),
        ("seed=3", "sampling_temp must be above 0 .*Received: seed=3, sampling_temp=0"),
        ("beam_size=1,sampling_temp=1,top_p=1.5", "top_p must be at most 1. Received: 1.5"),
        ("beam_size=1,sampling_temp=1,top_p=0", "top_p must be above 0"),
        ("sampling_tmp=1", "sampling_temp"),
        ("num_steps=-1", "num_steps must be at least 0. Received: -1"),
        ("num_decodes=3", "num_decodes is not supported yet"),
    ],
)
def test_parse_rejects_decoder_hparams(text, message):
    with pytest.raises(UsageError, match=message) as caught:
        decode_hparams.parse(text, decode_hparams.DECODER)
    assert "\n" not in str(caught.value)


def test_search_options_omits_defaults():
    def options(text, batch=0):
        return decode_hparams.search_options(
            decode_hparams.parse(text, decode_hparams.DECODER), batch
        )

    assert options("") == {"beam_size": 4, "alpha": 0.6, "decode_length": 100}
    text = "beam_size=2,extra_length=5,min_length=3,eos_penalty=0.5,no_repeat_ngram_size=3"
    assert options(text) == {
        "beam_size": 2,
        "alpha": 0.6,
        "decode_length": 5,
        "min_length": 3,
        "eos_penalty": 0.5,
        "no_repeat_ngram_size": 3,
    }
    assert options("per_example_length=False")["per_example_length"] is False
    text = "beam_size=1,sampling_temp=0.5,top_k=9,top_p=0.9"
    sampling = {"temperature": 0.5, "top_k": 9, "top_p": 0.9}
    assert options(text).items() >= sampling.items() and "seed" not in options(text)
    # Each batch gets its own seed, so the samples of two batches differ.
    assert options(f"{text},seed=7", batch=2)["seed"] == batch_seed.of_batch(7, 2)


def test_parse_rejects_malformed_text():
    with pytest.raises((hparam_schema.HParamError, UsageError), match="beam_size"):
        decode_hparams.parse("beam_size")


def test_parse_own_room_is_an_alias():
    with pytest.warns(DeprecationWarning, match="own_room.*per_example_length"):
        values = decode_hparams.parse("own_room=False")
    assert values == decode_hparams.parse("per_example_length=False")
    with pytest.raises(UsageError, match="per_example_length=True, own_room=False"):
        decode_hparams.parse("own_room=False,per_example_length=True")
