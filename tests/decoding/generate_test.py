"""Tests of `model.generate`.

Some tests compare it with the original T2T (tests/testdata/t2t/README.md).
"""

import dataclasses
import functools
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests import t2t_golden_test as t2t
from tests.models import examples
from ut_keras import hparams, models, t2t_import
from ut_keras.decoding import parallel_batch, sampling
from ut_keras.decoding.options import Options

EOS = 1
_QUICK = ("transformer_prenorm.a", "ut_basic_fc.a", "aut_basic.a", "aut_lm.a", "lstm_seq2seq.a")
BEAM_RUNS = ("beam4_alpha0.6_top4", "beam4_alpha1_top4")


def _some_slow(quick):
    """Return the names of T2T's golden searches as test parameters; most of them are slow."""
    return [
        name if name in quick else pytest.param(name, marks=pytest.mark.slow)
        for name in t2t._configurations("decode")
    ]


@functools.cache
def _golden(name):
    """Return (model with T2T's weights, golden arrays of T2T, decode_length)."""
    with open(os.path.join(t2t.FOLDER, "decode", name + ".json"), encoding="utf-8") as file:
        decode_length = json.load(file)["decode_length"]
    setting, arrays = t2t._load("model", name)
    golden = t2t.golden.load(os.path.join(t2t.FOLDER, "decode", name + ".npz"))
    variables = {**t2t._group(arrays, "var/"), **t2t._group(golden, "changed_var/")}
    return t2t._model(setting, variables), golden, decode_length


def _up_to_eos(symbols):
    symbols = np.ravel(symbols).tolist()
    return symbols[: symbols.index(EOS) + 1] if EOS in symbols else symbols


def _without_padding(symbols):
    return np.trim_zeros(np.asarray(symbols), "b").tolist()


# In the default run, beam search covers the other models of `_QUICK`.
@pytest.mark.parametrize("name", _some_slow(("aut_basic.a", "aut_lm.a", "lstm_seq2seq.a")))
def test_greedy_search_matches_t2t(name):
    model, golden, decode_length = _golden(name)
    got = model.generate({"inputs": golden["inputs"]}, decode_length=decode_length)
    for row, expected in enumerate(golden["greedy/outputs"]):
        # T2T continues after EOS until all examples have ended.
        assert _without_padding(got.ids[row, 0]) == _without_padding(_up_to_eos(expected))
    one = _up_to_eos(golden["greedy_one/outputs"])
    assert _without_padding(got.ids[0, 0]) == _without_padding(one)
    if "greedy/scores" in golden:
        np.testing.assert_allclose(got.scores[:, 0], golden["greedy/scores"], rtol=1e-4)


@pytest.mark.parametrize("name", _some_slow(_QUICK))
def test_beam_search_matches_t2t(name):
    if name.removesuffix(".a").endswith("_lm"):
        pytest.skip("T2T's beams of language models read a wrong prompt, or none (QUIRKS.md)")
    model, golden, decode_length = _golden(name)
    for run in BEAM_RUNS:
        alpha = float(run.split("_")[1].removeprefix("alpha"))
        got = model.generate(
            {"inputs": golden["inputs"]}, beam_size=4, alpha=alpha, decode_length=decode_length
        )
        expected = golden[run + "/outputs"]
        width = max(got.ids.shape[-1], expected.shape[-1])
        padded = [
            np.pad(ids, [(0, 0), (0, 0), (0, width - ids.shape[-1])])
            for ids in (got.ids.numpy(), expected)
        ]
        np.testing.assert_array_equal(*padded, err_msg=run)
        np.testing.assert_allclose(got.scores, golden[run + "/scores"], rtol=1e-4, err_msg=run)


# The tests below do not use golden numbers of T2T.

INPUTS = np.array([[5, 3, 7, 2, 1], [4, 6, 1, 0, 0], [9, 1, 0, 0, 0]], "int32")
SMALL = "hidden_size=16,filter_size=32,num_heads=2"


@functools.cache
def _small(name):
    seeds.set_seed(0)  # the weights do not depend on the order of the tests
    if name == "language_model":
        hp = hparams.get("transformer_tiny", SMALL)
        return _shaken(models.get("transformer", hp, vocab_sizes={"targets": 12}))
    hp = hparams.get("adaptive_universal_transformer_tiny", SMALL + ",act_max_steps=3")
    return _shaken(
        models.get("universal_transformer", hp, vocab_sizes={"inputs": 12, "targets": 12})
    )


def _shaken(model):
    """Enlarge the weights, so that EOS is neither too likely nor too unlikely."""
    random = np.random.RandomState(0)
    for variable in model.trainable_variables:
        variable.assign_add(0.3 * random.normal(size=variable.shape))
    return model


def _log_probs(model, features):
    logits = np.float64(model(features, training=False))
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_generate_scores_match_forward(beam_size):
    """A forward pass gives the outputs the scores that `generate` returns.

    Greedy search takes the token with the highest log probability.
    """
    model = _small("universal_transformer")
    got = model.generate({"inputs": INPUTS}, beam_size, alpha=0.6, decode_length=3)
    assert got.ids.shape[:2] == (3, beam_size)
    assert 2 < got.ids.shape[2] <= INPUTS.shape[1] + 3
    for beam in range(beam_size):
        ids = got.ids[:, beam].numpy()
        log_probs = _log_probs(model, {"inputs": INPUTS, "targets": ids})
        for row in range(3):
            if got.scores[row, beam] < -1e6:  # this beam is empty
                continue
            symbols = _up_to_eos(ids[row])
            gained = sum(log_probs[row, i, symbol] for i, symbol in enumerate(symbols))
            if beam_size > 1 and EOS in symbols:
                gained /= ((5 + len(symbols)) / 6) ** 0.6
            np.testing.assert_allclose(got.scores[row, beam], gained, rtol=1e-4)
            if beam_size == 1:
                best = log_probs[row].argmax(-1)[: len(symbols)]
                np.testing.assert_array_equal(symbols, best)
            assert not np.any(ids[row, len(symbols) :])


@pytest.mark.parametrize("beam_size", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    "name", ["universal_transformer", pytest.param("language_model", marks=pytest.mark.slow)]
)
def test_generate_in_parallel_parts_matches_one_batch(name, beam_size, monkeypatch):
    model = _small(name)
    features = {"inputs": np.concatenate([INPUTS, INPUTS[::-1] % 7])}
    prefix = np.array([[3, EOS], [3, 0], [5, 4], [0, 0], [EOS, 0], [7, EOS]])

    def searched():
        free = model.generate(features, beam_size, decode_length=9)
        forced = model.generate(features, beam_size, decode_length=9, forced_prefix=prefix)
        drawn = model.generate(features, decode_length=9, temperature=1.0, seed=1)
        return free, forced, drawn

    together = searched()
    lengths = [len(_up_to_eos(ids)) for ids in together[1].ids[:, 0].numpy()]
    assert max(lengths[4:]) < max(lengths)  # the last part has shorter outputs than other parts
    monkeypatch.setattr(parallel_batch, "number_of_parts", lambda batch_size: 4)
    for expected, got in zip(together, searched(), strict=True):
        np.testing.assert_array_equal(got.ids, expected.ids)
        np.testing.assert_allclose(got.scores, expected.scores, rtol=1e-5)
    compiled = model.compiled_functions.of_decoding().values()
    assert all(search.experimental_get_tracing_count() == 1 for search in compiled)


def test_score_in_parallel_parts_matches_one_batch(monkeypatch):
    model = _small("universal_transformer")
    features = {"inputs": INPUTS, "targets": np.array([[4, 7, 1, 0], [9, 2, 3, 1], [1, 0, 0, 0]])}
    together = model.score(features)
    monkeypatch.setattr(parallel_batch, "number_of_parts", lambda batch_size: 2)
    np.testing.assert_allclose(model.score(features), together, rtol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_generate_examples_are_independent(beam_size):
    model = _small("universal_transformer")
    together = model.generate({"inputs": INPUTS}, beam_size, decode_length=3)
    for row in range(len(INPUTS)):
        alone = model.generate({"inputs": INPUTS[row : row + 1]}, beam_size, decode_length=3)
        for beam in range(beam_size):
            assert _without_padding(alone.ids[0, beam]) == _without_padding(together.ids[row, beam])
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-4)


def test_generate_ignores_source_padding():
    model = _small("universal_transformer")
    first = model.generate({"inputs": INPUTS}, decode_length=3)
    wider = np.pad(INPUTS, [(0, 0), (0, 2)])
    second = model.generate({"inputs": wider}, decode_length=1)  # the limit is again 8 tokens
    np.testing.assert_array_equal(first.ids, second.ids)
    first, second = (
        model.generate({"inputs": ids}, decode_length=3, per_example_length=True)
        for ids in (INPUTS, wider)
    )
    np.testing.assert_array_equal(first.ids, second.ids)


@pytest.mark.parametrize(
    "kind", ["universal_transformer", pytest.param("lstm", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 3},
        # A negative penalty raises the scores of EOS, so no bound lets the search stop early.
        pytest.param({"beam_size": 2, "eos_penalty": -0.5}, marks=pytest.mark.slow),
        pytest.param({"beam_size": 1}, marks=pytest.mark.slow),
        pytest.param({"beam_size": 3, "cache": False}, marks=pytest.mark.slow),
        pytest.param({"temperature": 2.0, "seed": 5}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_generate_per_example_length_ignores_other_examples(kind, options):
    """An output does not depend on other examples, even if no example ends by itself.

    In T2T, the longest example sets the limit for all examples.
    """
    model = _small(kind) if kind == "universal_transformer" else _shaken(examples.make(kind))
    options = {"decode_length": 2, "min_length": 30, **options}
    if "eos_penalty" in options:
        options["min_length"] = 0
    together = model.generate({"inputs": INPUTS}, per_example_length=True, **options)
    as_in_t2t = model.generate({"inputs": INPUTS}, **options)
    # Samples depend on the index in the batch, so the test can only compare the first example.
    for row in range(1 if "seed" in options else 3):
        alone = np.trim_zeros(INPUTS[row], "b")[np.newaxis]
        # For a single example, T2T's limit equals the limit of the example.
        alone = model.generate({"inputs": alone}, **options)
        for beam in range(options.get("beam_size", 1)):
            assert _without_padding(alone.ids[0, beam]) == _without_padding(together.ids[row, beam])
        np.testing.assert_allclose(alone.scores[0], together.scores[row], rtol=1e-4)
    rooms = [7, 5, 4]
    here, there = (
        [len(_without_padding(ids)) for ids in found.ids[:, 0]] for found in (together, as_in_t2t)
    )
    assert all(length <= room for length, room in zip(here, rooms, strict=True))
    if options["min_length"]:
        assert any(length > room for length, room in zip(there, rooms, strict=True))


@pytest.mark.parametrize("act_type", ["basic", pytest.param("global", marks=pytest.mark.slow)])
def test_return_steps_matches_steps_of_each_position(act_type):
    if act_type == "basic":
        model = _small("universal_transformer")
    else:
        hp = hparams.get(
            "adaptive_universal_transformer_tiny", f"{SMALL},act_max_steps=3,act_type={act_type}"
        )
        sizes = {"inputs": 12, "targets": 12}
        seeds.set_seed(0)
        model = _shaken(models.get("universal_transformer", hp, vocab_sizes=sizes))
    plain = model.generate({"inputs": INPUTS}, 3, decode_length=3)
    assert plain.source_steps is None and plain.target_steps is None
    found = model.generate({"inputs": INPUTS}, 3, decode_length=3, return_steps=True)
    np.testing.assert_array_equal(found.ids, plain.ids)
    for beam in range(3):
        ids = found.ids[:, beam].numpy()
        out = model.inspect({"inputs": INPUTS, "targets": ids})
        for steps, times, seen in (
            (found.source_steps, out.encoder.ponder_times, INPUTS),
            (found.target_steps[:, beam], out.decoder.ponder_times, ids),
        ):
            times = np.broadcast_to(np.reshape(times, [3, -1]), seen.shape)
            np.testing.assert_allclose(steps, np.where(seen, times, 0.0))
    if act_type == "basic":  # the number of steps is 0 at padding and varies at other positions
        assert len({0.0, *np.ravel(found.source_steps), *np.ravel(found.target_steps)}) > 2
    one = model.generate({"inputs": INPUTS}, decode_length=3, num_steps=1, return_steps=True)
    assert np.max(one.target_steps) == np.max(one.source_steps) == 1


def test_return_steps_after_a_prompt():
    hp = hparams.get("adaptive_universal_transformer_tiny", SMALL + ",act_max_steps=3")
    model = _shaken(models.get("universal_transformer", hp, vocab_sizes={"targets": 12}))
    prompt = INPUTS[:, :2]
    found = model.generate({"inputs": prompt}, decode_length=4, return_steps=True)
    both = np.concatenate([prompt, found.ids[:, 0]], axis=1)
    times = model.inspect({"targets": both}).decoder.ponder_times[:, 2:]
    assert found.source_steps is None
    np.testing.assert_allclose(found.target_steps[:, 0], np.where(both[:, 2:], times, 0.0))
    fixed = _small("language_model").generate({"inputs": prompt}, return_steps=True)
    assert fixed.target_steps is None
    for rows, length in ((0, 4), (3, 0)):  # first without prompts, then without new tokens
        none = model.generate({"inputs": prompt[:rows]}, decode_length=length, return_steps=True)
        assert none.target_steps.shape == none.ids.shape == (rows, 1, 0)


# In the default run, cache_test.py covers beams after a prompt.
@pytest.mark.parametrize("beam_size", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_generate_continues_prompt(beam_size):
    model = _small("language_model")
    prompt = INPUTS[:, :2]
    got = model.generate({"inputs": prompt}, beam_size, alpha=0.0, decode_length=4)
    same = model.generate({"targets": prompt}, beam_size, alpha=0.0, decode_length=4)
    np.testing.assert_array_equal(got.ids, same.ids)
    assert got.ids.shape[2] <= 4
    ids = got.ids[:, 0].numpy()
    log_probs = _log_probs(model, {"targets": np.concatenate([prompt, ids], axis=1)})[:, 2:]
    for row in range(3):
        symbols = _up_to_eos(ids[row])
        gained = sum(log_probs[row, i, symbol] for i, symbol in enumerate(symbols))
        np.testing.assert_allclose(got.scores[row, 0], gained, rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("lstm_language_model", ""),
        ("language_model", "self_attention_type=dot_product_relative_xl"),
        pytest.param("adaptive_language_model", "add_sru=True", marks=pytest.mark.slow),
    ],
)
def test_generate_continues_empty_prompt(kind, overrides):
    model = examples.make(kind, overrides)
    prompt = {"inputs": np.zeros([2, 0], "int32")}
    for room in (1, 2):
        cached, anew = (
            model.generate(prompt, beam_size=5, decode_length=room, cache=cache)
            for cache in (True, False)
        )
        np.testing.assert_array_equal(cached.ids, anew.ids)
        np.testing.assert_allclose(cached.scores, anew.scores, atol=1e-5)


_UNEQUAL = np.array([[3, 4, 5, 6], [7, 8, 0, 0], [9, 0, 0, 0], [2, 10, 11, 0], [0, 0, 0, 0]])
_SLOW_PROMPTS = [
    ("language_model", {"beam_size": 2, "cache": False}),
    ("universal_language_model", {}),
    ("universal_language_model", {"cache": False}),
    ("lstm_language_model", {}),
    ("adaptive_language_model", {"beam_size": 2}),
]


def _prompted(kind):
    if kind == "universal_language_model":
        hp = hparams.get("universal_transformer_tiny", examples.SIZE + ",num_rec_steps=2")
        seeds.set_seed(0)
        sizes = {"targets": examples.V}
        return _shaken(models.get("universal_transformer", hp, vocab_sizes=sizes))
    return examples.shared(kind)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("language_model", {}),
        ("language_model", {"beam_size": 2}),
        ("adaptive_language_model", {}),
        ("lstm_language_model", {"beam_size": 2}),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in _SLOW_PROMPTS),
    ],
)
@pytest.mark.parametrize("key", ["targets", "inputs"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_generate_prompts_of_different_lengths_match_single_prompts(kind, options, key, side):
    model = _prompted(kind)
    rows = [np.trim_zeros(row) for row in _UNEQUAL]
    prompts = _UNEQUAL
    if side == "left":
        prompts = np.array([np.pad(row, (len(prompts[0]) - len(row), 0)) for row in rows])
    options = {"decode_length": 4, "min_length": 3, **options}
    together = model.generate({key: prompts}, **options)
    widths = []
    for row, prompt in enumerate(rows):
        alone = model.generate({key: prompt[np.newaxis]}, **options)
        widths.append(width := alone.ids.shape[2])
        np.testing.assert_array_equal(together.ids[row, :, :width], alone.ids[0])
        assert not np.any(together.ids[row, :, width:])
        np.testing.assert_allclose(together.scores[row], alone.scores[0], rtol=1e-4)
    assert together.ids.shape[2] == max(widths)


def test_generate_prompts_of_different_lengths_keep_their_options():
    model = examples.shared("adaptive_language_model")
    forced = np.array([[2], [3], [4], [5], [6]])
    options = {"decode_length": 3, "forced_prefix": forced, "return_steps": True}
    together = model.generate({"targets": _UNEQUAL}, **options)
    np.testing.assert_array_equal(together.ids[:, 0, :1], forced)
    assert together.source_steps is None
    for row, prompt in enumerate(_UNEQUAL):
        options["forced_prefix"] = forced[row : row + 1]
        alone = model.generate({"targets": np.trim_zeros(prompt)[np.newaxis]}, **options)
        width = alone.ids.shape[2]
        np.testing.assert_allclose(together.target_steps[row, :, :width], alone.target_steps[0])
    draws = {"temperature": 3.0, "decode_length": 6, "min_length": 6, "seed": 3}
    drawn, again = (model.generate({"targets": _UNEQUAL}, **draws).ids for _ in "12")
    np.testing.assert_array_equal(drawn, again)
    assert len({tuple(row) for row in drawn[:, 0].numpy()}) == len(_UNEQUAL)


@pytest.mark.parametrize(
    "autograph",
    # The conversion of all functions by AutoGraph takes several seconds.
    [False, pytest.param(True, marks=pytest.mark.slow)],
)
def test_generate_rejects_traced_prompt_with_padding(autograph):
    model = _small("language_model")
    trace = tf.function(
        lambda x: model.generate({"inputs": x}, decode_length=2).ids,
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=autograph,
    )
    assert trace(_UNEQUAL[:1]).shape[0] == 1
    for prompts in (_UNEQUAL, np.fliplr(_UNEQUAL)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Prompts must have one length"):
            trace(prompts)


def test_generate_sources_of_different_lengths_match_single_sources():
    """Without per_example_length=True, padding would change the outputs, as it does in T2T."""
    model = examples.shared("lstm_attention")
    assert model.why_source_padding_matters
    options = {"per_example_length": True, "decode_length": 3, "min_length": 3, "beam_size": 2}
    together = model.generate({"inputs": INPUTS}, **options)
    for row, source in enumerate(INPUTS):
        alone = model.generate({"inputs": np.trim_zeros(source)[np.newaxis]}, **options)
        width = alone.ids.shape[2]
        np.testing.assert_array_equal(together.ids[row, :, :width], alone.ids[0])
        np.testing.assert_allclose(together.scores[row], alone.scores[0], rtol=1e-4)
    trace = tf.function(lambda x: model.generate({"inputs": x}, **options).ids, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match="attends to padding"):
        trace(tf.constant(INPUTS))


def test_generate_uses_new_weights():
    model = _small("language_model")
    features = {"inputs": INPUTS[:, :2]}
    first = model.generate(features, decode_length=4)
    before = model.get_weights()
    model.set_weights([2 * weight for weight in before])
    second = model.generate(features, decode_length=4)
    model.set_weights(before)
    assert not np.allclose(first.scores, second.scores)
    np.testing.assert_array_equal(first.scores, model.generate(features, decode_length=4).scores)


def test_generate_with_decode_length_zero():
    got = _small("language_model").generate({"inputs": INPUTS}, decode_length=0)
    assert got.ids.shape == (3, 1, 0)


@pytest.mark.parametrize(
    ("features", "arguments", "message"),
    [
        (("inputs",), {"beam_size": 0}, "beam_size must be at least 1. Received: 0"),
        (("inputs",), {"beam_size": 2.0}, "beam_size must be an int. Received: 2.0"),
        (("inputs",), {"alpha": -0.5}, "alpha must be at least 0. Received: -0.5"),
        (("inputs",), {"decode_length": -1}, "decode_length must be at least 0. Received: -1"),
        (("inputs",), {"decode_length": 10**20}, "decode_length must be at most 1048576"),
        (("inputs",), {"alpha": np.nan}, "alpha must be finite. Received: nan"),
        (("inputs",), {"alpha": 1e30}, "alpha must be at most 10. Received: 1e\\+30"),
        (("inputs",), {"eos_penalty": np.inf}, "eos_penalty must be finite. Received: inf"),
        (("inputs",), {"temperature": np.float32("nan")}, "temperature must be finite"),
        (("inputs",), {"temperature": 1e-300}, "temperature must be 0 or at least 1e-06"),
        (("inputs",), {"temperature": 1.0, "seed": -1}, "seed must be at least 0. Received: -1"),
        (("inputs",), {"temperature": 1.0, "seed": 2**63}, "seed must be at most"),
        (("targets",), {}, r"features must hold 'inputs'. Received: \['targets'\]"),
    ],
)
def test_generate_rejects_features(features, arguments, message):
    with pytest.raises(ValueError, match=message):
        _small("universal_transformer").generate({name: INPUTS for name in features}, **arguments)


def test_generate_shows_a_dict_of_ids_for_a_list():
    with pytest.raises(ValueError, match=r'such as \{"inputs": \[\[3, 4, 1\]\]\}. Received: list'):
        _small("universal_transformer").generate([[3, 4, 1]])


_WRONG = {
    "bool": (True, None, "x", 1.5, -1, [1]),
    "int": (True, None, "x", 1.5, -1, [1], np.bool_(True), np.array([1])),
    "float": (True, None, "x", [1], np.nan, np.bool_(True)),
}


@pytest.mark.parametrize("option", dataclasses.fields(Options), ids=lambda field: field.name)
def test_generate_rejects_options_of_another_type(option):
    """The error names the option and its value. The next valid call works."""
    if option.name == "forced_prefix":
        return
    model = _small("universal_transformer")
    [kind] = [kind for kind in _WRONG if kind in str(option.type)]
    for value in _WRONG[kind]:
        if value is None and option.default is None or value is True and kind == "bool":
            continue
        with pytest.raises(ValueError, match=f"^{option.name} must be .*Received: ") as raised:
            model.generate({"inputs": INPUTS}, **{"decode_length": 1, option.name: value})
        shown = repr(value) if isinstance(value, str) else str(value)
        assert f"Received: {shown}." in str(raised.value)
    model.generate({"inputs": INPUTS[:1]}, decode_length=1)


def test_generate_rejects_unknown_option():
    with pytest.raises(TypeError, match=r"one of beam_size, .*Received: beam=3\.$"):
        _small("universal_transformer").generate({"inputs": INPUTS}, beam=3)


def test_generate_with_several_models_causes_no_retracing_warning(caplog):
    for _ in range(6):
        examples.make("transformer", "num_hidden_layers=1").generate(
            {"inputs": INPUTS[:1]}, decode_length=1
        )
    assert "retracing" not in caplog.text


def test_generate_own_room_is_an_alias():
    model = examples.shared("lstm_attention")
    options = {"decode_length": 3, "min_length": 3}
    wanted = model.generate({"inputs": INPUTS}, per_example_length=True, **options)
    with pytest.warns(DeprecationWarning, match="own_room.*per_example_length") as caught:
        got = model.generate({"inputs": INPUTS}, own_room=True, **options)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_array_equal(got.ids, wanted.ids)
    with pytest.raises(ValueError, match="per_example_length=True, own_room=False"):
        model.generate({"inputs": INPUTS}, own_room=False, per_example_length=True)


def test_generate_accepts_numpy_scalars():
    model = _small("universal_transformer")
    options = {
        "beam_size": 2,
        "alpha": 0.5,
        "decode_length": 2,
        "per_example_length": True,
        "seed": 3,
    }
    of_numpy = {name: np.array(value)[()] for name, value in options.items()}
    assert (
        type(of_numpy["beam_size"]) is np.int64 and type(of_numpy["per_example_length"]) is np.bool_
    )
    wanted, got = (model.generate({"inputs": INPUTS}, **given) for given in (options, of_numpy))
    np.testing.assert_array_equal(got.ids, wanted.ids)
    np.testing.assert_array_equal(got.scores, wanted.scores)


def test_generate_requires_prompt():
    with pytest.raises(ValueError, match="features must hold a prompt"):
        _small("language_model").generate({})


@pytest.mark.parametrize(
    ("model", "space"),
    [
        # In the default run, tests/bin/decoder_scores_test.py covers this model.
        pytest.param("transformer", 11, marks=pytest.mark.slow),
        ("adaptive_universal_transformer", 11),
    ],
)
def test_generate_from_t2t_checkpoint_matches_t2t(model, space):
    folder = os.path.join(t2t.FOLDER, "ckpt", model)
    golden = np.load(os.path.join(folder, "golden.npz"))
    name = "transformer" if model == "transformer" else "universal_transformer"
    loaded = t2t_import.load_checkpoint(folder, name, target_space_id=space)
    features = {"inputs": golden["inputs"]}
    greedy = loaded.generate(features, decode_length=5)
    for row, expected in enumerate(golden["greedy/outputs"]):
        assert _without_padding(greedy.ids[row, 0]) == _up_to_eos(expected)
    if "greedy/scores" in golden:
        np.testing.assert_allclose(greedy.scores[:, 0], golden["greedy/scores"], rtol=1e-4)
    beams = loaded.generate(features, beam_size=4, alpha=0.6, decode_length=5)
    expected = golden["beam/outputs"]
    width = beams.ids.shape[-1]
    np.testing.assert_array_equal(beams.ids, expected[..., :width])
    assert not np.any(expected[..., width:])
    np.testing.assert_allclose(beams.scores, golden["beam/scores"], rtol=1e-4)


def test_score_matches_generate():
    model = _small("universal_transformer")
    targets = np.array([[4, 7, 1, 0], [9, 2, 3, 1], [1, 0, 0, 0]])
    got = model.score({"inputs": INPUTS, "targets": targets})
    forced = model.generate(
        {"inputs": INPUTS}, beam_size=3, alpha=0.0, forced_prefix=targets, decode_length=3
    )
    np.testing.assert_array_equal(forced.ids[:, 0], targets)
    np.testing.assert_allclose(got, forced.scores[:, 0], rtol=1e-4)
    wider = np.pad(targets, [(0, 0), (0, 2)])
    np.testing.assert_allclose(model.score({"inputs": INPUTS, "targets": wider}), got, rtol=1e-5)


def test_generate_stories_with_scores_and_steps():
    model, features = examples.shared("stories"), examples.features("stories")
    got = model.generate({"inputs": features["inputs"]}, decode_length=3, return_steps=True)
    expected = np.any(features["inputs"] != 0, axis=2)
    np.testing.assert_array_equal(got.source_steps.numpy() > 0, expected)
    written = model.score({"inputs": features["inputs"], "targets": got.ids[:, 0]})
    np.testing.assert_allclose(written, got.scores[:, 0], rtol=1e-4)


def test_generate_traced_forced_prefix_of_any_length():
    model, prefix = _small("language_model"), np.array([[3, 4], [5, 6], [7, 8]], np.int32)
    forced = tf.function(
        lambda x, p: model.generate({"inputs": x}, decode_length=3, forced_prefix=p).ids,
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2,
        autograph=False,
    )
    np.testing.assert_array_equal(forced(INPUTS[:, :2], prefix)[:, 0, :2], prefix)


def test_generate_obeys_constraints():
    model = _small("universal_transformer")
    features = {"inputs": INPUTS}
    for beam_size in (1, 3):
        options = {
            "min_length": 4,
            "no_repeat_ngram_size": 1,
            "forced_prefix": np.array([[7, 5], [6, 0], [0, 0]]),
        }
        got = model.generate(features, beam_size, decode_length=6, **options)
        np.testing.assert_array_equal(got.ids[0, :, :2], [[7, 5]] * beam_size)
        np.testing.assert_array_equal(got.ids[1, :, 0], [6] * beam_size)
        for row in got.ids.numpy().reshape(-1, got.ids.shape[-1]):
            symbols = _up_to_eos(row)
            assert len(symbols) >= 5
            assert len(set(symbols)) == len(symbols)
    shorter = model.generate(features, decode_length=6, eos_penalty=-50.0)
    assert shorter.ids.shape[-1] == 1 and np.all(shorter.ids[:, 0, 0] == EOS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_size": 3},
        {"temperature": 1.0},
        # In the default run, tests/decoding/constraints_test.py covers the penalty.
        pytest.param({"beam_size": 2, "eos_penalty": 9.0}, marks=pytest.mark.slow),
    ],
)
def test_generate_forced_prefix_overrides_other_constraints(options):
    """A prefix overrides min_length and no_repeat_ngram_size. EOS in a prefix ends the output."""
    model = _small("universal_transformer")
    prefix = np.array([[2, EOS, 0], [3, 3, 3], [7, 7, EOS]])
    options = {"min_length": 5, "no_repeat_ngram_size": 1, "decode_length": 4, **options}
    got = model.generate({"inputs": INPUTS}, forced_prefix=prefix, **options)
    np.testing.assert_array_equal(got.ids[:, 0, :3], prefix)
    assert np.all(np.isfinite(got.scores[:, 0]))
    for row in (0, 2):
        assert not np.any(got.ids[row, 0, 3:])
    log_probs = _log_probs(model, {"inputs": INPUTS[:1], "targets": prefix[:1]})[0]
    expected = log_probs[0, 2] + log_probs[1, EOS]
    if "beam_size" in options:
        expected /= (7 / 6) ** 0.6
    np.testing.assert_allclose(got.scores[0, 0], expected, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        # In the default run, tests/decoding/beam_search_test.py covers beams and sampling.
        pytest.param({"beam_size": 3}, marks=pytest.mark.slow),
        pytest.param({"temperature": 1.0}, marks=pytest.mark.slow),
    ],
)
def test_generate_ends_when_no_token_is_allowed(options):
    """Each of the 12 tokens may occur only once. EOS may not occur before position 20."""
    model = _small("universal_transformer")
    options = {"min_length": 20, "no_repeat_ngram_size": 1, "decode_length": 25, **options}
    got = model.generate({"inputs": INPUTS}, **options)
    np.testing.assert_array_equal(np.sort(got.ids[:, 0]), [np.arange(12)] * 3)
    assert np.all(got.ids[:, 0, -1] == EOS)


def test_generate_seed_determines_samples():
    model = _small("universal_transformer")

    def draw(seed):
        options = {"temperature": 2.0, "top_k": 8, "top_p": 0.95, "seed": seed}
        return model.generate({"inputs": INPUTS}, decode_length=3, **options)

    first, same, other = draw(3), draw(3), draw(4)
    np.testing.assert_array_equal(first.ids, same.ids)
    assert first.ids.shape != other.ids.shape or np.any(first.ids != other.ids)
    log_probs = _log_probs(model, {"inputs": INPUTS, "targets": first.ids[:, 0]})
    for row in range(3):
        symbols = _up_to_eos(first.ids[row, 0].numpy())
        gained = sum(log_probs[row, i, symbol] for i, symbol in enumerate(symbols))
        np.testing.assert_allclose(first.scores[row, 0], gained, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_p": 0.0}, "top_p must be above 0. Received: 0.0"),
        ({"temperature": 1.0, "beam_size": 2}, "temperature=1.0, beam_size=2"),
        ({"top_k": 3}, "temperature=0, top_k=3, top_p=1.0"),
        ({"beam_size": 13}, "beam_size must be at most the size of the vocabulary, 12"),
        ({"forced_prefix": [[3]]}, r"forced_prefix must be \[3, length\]"),
        ({"forced_prefix": [[3], [2], [12]]}, r"forced_prefix must be ids in \[0, 12\)"),
    ],
)
def test_generate_rejects_options(options, message):
    with pytest.raises(ValueError, match=message):
        _small("universal_transformer").generate({"inputs": INPUTS}, **options)


def test_generate_works_after_rejected_features():
    """A call with features of the wrong rank, such as T2T's rank 4, does not affect later calls."""
    model = _small("universal_transformer")
    targets = np.full([3, 2], 5)
    with pytest.raises(ValueError, match="inputs must"):
        model.generate({"inputs": INPUTS[:, :, None, None]}, decode_length=1)
    assert model.generate({"inputs": INPUTS}, decode_length=1).ids.shape[0] == 3
    for ids in (tf.ragged.constant([[3, 1], [3]]), [[3, 1], [3]]):
        with pytest.raises(ValueError, match="inputs must .*Received: (list|a Ragged)"):
            model.generate({"inputs": ids})
    with pytest.raises(ValueError, match=r"inputs must be \[batch, length\]. Received: \(2,\)"):
        model.generate({"inputs": np.array([3, 1])})
    with pytest.raises(ValueError, match="inputs must"):
        model.score({"inputs": INPUTS[:, :, None, None], "targets": targets})
    assert model.score({"inputs": INPUTS, "targets": targets}).shape == [3]


def test_score_rejects_features():
    model = _small("universal_transformer")
    with pytest.raises(ValueError, match="features must hold 'targets'"):
        model.score({"inputs": INPUTS})
    expected = r"inputs must .* targets, \(4,\). Received: \(3, "
    with pytest.raises(ValueError, match=expected):
        model.score({"inputs": INPUTS, "targets": np.full([4, 2], 5)})


def test_noise_of_sampling_is_the_same_under_xla():
    def noise(shape):
        return sampling._uniform(shape, tf.constant([3, 2]))

    expected = tf.function(noise, autograph=False)([3, 11])
    for shape in ([3, 11], [4, 11]):  # a batch may be filled with further examples
        found = tf.function(noise, jit_compile=True, autograph=False)(shape)
        np.testing.assert_array_equal(found[:3], expected)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_function_of_the_user_samples_again_in_each_call(jit_compile):
    """The function is traced once, so a seed of the trace would give equal samples."""
    model = examples.shared("adaptive")
    ids = tf.constant(np.repeat(examples.INPUTS[:1], 8, axis=0))

    @tf.function(jit_compile=jit_compile)
    def sample(ids):
        return model.generate({"inputs": ids}, decode_length=2, temperature=1.0).ids

    seeds.set_seed(1)
    calls = [sample(ids).numpy() for _ in range(2)]
    assert not np.array_equal(calls[0][:, :, :3], calls[1][:, :, :3])


def test_function_of_the_user_needs_no_conversion_by_autograph(capfd, caplog):
    """AutoGraph would log an error about `CompiledFunctions.of_decoding`."""
    model, features = examples.shared("adaptive"), examples.features("adaptive")

    @tf.function
    def both(features):
        ids = model.generate({"inputs": features["inputs"]}, decode_length=2).ids
        return ids, model.score(features)

    ids, scores = both({name: tf.constant(value) for name, value in features.items()})
    expected = model.generate({"inputs": features["inputs"]}, decode_length=2).ids
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(scores, model.score(features), atol=1e-5)
    assert "Logging error" not in capfd.readouterr().err
    assert not [one for one in caplog.records if "AutoGraph" in str(one.msg)]
