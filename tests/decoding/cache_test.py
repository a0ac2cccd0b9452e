"""For every model variant, cached decoding matches decoding over the complete prefix."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from ut_keras import hparams, models
from ut_keras.decoding import beam_search
from ut_keras.decoding import next_logits as next_logits_lib
from ut_keras.decoding import prefix as prefix_lib
from ut_keras.layers.attention import cache as cache_lib
from ut_keras.layers.depth import act_static_decoding
from ut_keras.ops import private_api

VOCAB = 9
TINY = "hidden_size=16,filter_size=20,num_heads=2,num_hidden_layers=2,label_smoothing=0.0"

# `VARIANTS` maps a name to (model, hparams set, overrides).
BASIC = ("universal_transformer", "universal_transformer_tiny")
ADAPTIVE = ("universal_transformer", "adaptive_universal_transformer_tiny")
STEPS = "num_rec_steps=3"
ACT = "act_max_steps=5,act_halting_bias_init=-0.5"
COPY = ACT + ",act_halted_state=copy"
UNIT = STEPS + ",add_step_timing_signal=False"
RELATIVE = ",self_attention_type=dot_product_relative,max_relative_position=2"
RELATIVE_V2 = ",self_attention_type=dot_product_relative_v2,max_relative_position=3"
RANDOM_START = (
    ",recurrence_input_injection=concat,recurrence_initial_state=normal"
    ",recurrence_residual_scale=0.5"
)
LOCAL = ",self_attention_type=local_mask_right,block_length=2"
VARIANTS = {
    "transformer": ("transformer", "transformer_tiny", ""),
    "basic": (*BASIC, STEPS),
    "dwa": (*BASIC, STEPS + ",recurrence_type=dwa"),
    "gru": (*BASIC, UNIT + ",recurrence_type=gru"),
    "sepconv": (*BASIC, STEPS + ",transformer_ffn_type=sepconv"),
    "sru": (*BASIC, STEPS + ",add_sru=True"),
    "modern": (*BASIC, STEPS + ",norm_type=rms,ffn_layer=swiglu"),
    "injection": (*BASIC, STEPS + ",recurrence_input_injection=add"),
    "random_start": (
        *BASIC,
        STEPS + RANDOM_START + ",layer_postprocess_sequence=dan"
        ",num_rec_steps_sampling='by_length(factor=0.4)'",
    ),
    "relative_v2": (*BASIC, STEPS + RELATIVE_V2 + ",add_relative_to_values=True"),
    "rotary": (*BASIC, STEPS + ",pos=rotary,add_position_timing_signal=False"),
    "local": (*BASIC, STEPS + LOCAL),
    "mixed": (*BASIC, STEPS + ",mix_with_transformer='before_ut,after_ut',num_mixedin_layers=1"),
    "act": (*ADAPTIVE, ACT),
    "act_random_start": (*ADAPTIVE, ACT + RANDOM_START),
    "act_copy": (*ADAPTIVE, COPY),
    "act_copy_masked": (*ADAPTIVE, COPY + ",act_mask_padding=True"),
    "stick_breaking_copy": (*ADAPTIVE, COPY + ",act_type=stick_breaking,act_epsilon=0.4"),
}
# The default run tests the models above, except for models whose parts other models combine.
_COMBINED = ("basic", "random_start", "act", "stick_breaking_copy")
_QUICK = tuple(name for name in VARIANTS if name not in _COMBINED)
# These models test the remaining parts. Most models combine several parts.
VARIANTS |= {
    "learned_position": ("transformer", "transformer_tiny", "pos=emb,max_length=7" + RELATIVE),
    "randomized_position": (
        *BASIC,
        STEPS + ",pos=randomized,add_position_timing_signal=False,recurrence_type=highway",
    ),
    "coupled": (
        *BASIC,
        # With hard_attention_k=2, only one key would remain. Rounding errors would then decide
        # which of two keys with nearly equal weights remains.
        STEPS + ",pos=coupled,add_position_timing_signal=False,recurrence_type=skip"
        ",hard_attention_k=3",
    ),
    "relative_xl": (
        *BASIC,
        STEPS + ",self_attention_type=dot_product_relative_xl,num_inrecurrence_layers=2"
        ",step_timing_signal_type=sinusoid",
    ),
    "geometric": (*BASIC, STEPS + ",self_attention_type=geometric,copy_gate=True"),
    "relative": (
        *BASIC,
        STEPS + RELATIVE + ",add_or_concat_timing_signal=concat"
        ",layer_preprocess_sequence=none,layer_postprocess_sequence=dan",
    ),
    "local_unmasked": (*BASIC, STEPS + ",self_attention_type=local_unmasked,block_length=2"),
    "lstm": (*BASIC, UNIT + ",recurrence_type=lstm"),
    "conv": (*BASIC, STEPS + ",ffn_layer=conv_relu_conv"),
    "parameter_attention": (*BASIC, STEPS + ",ffn_layer=parameter_attention"),
    "sru_transition": (*BASIC, STEPS + ",ffn_layer=sru"),
    "act_accumulated": (
        *ADAPTIVE,
        ACT + ",act_type=accumulated,num_inrecurrence_layers=2" + RELATIVE,
    ),
    "act_sepconv": (
        *ADAPTIVE,
        ACT + ",act_force_final_remainder=True,transformer_ffn_type=sepconv"
        ",recurrence_input_injection=add,self_attention_type=dot_product_relative_xl",
    ),
    "act_sru": (
        *ADAPTIVE,
        ACT + ",add_sru=True,pos=rotary,mix_with_transformer=after_ut,num_mixedin_layers=1",
    ),
    "act_copy_two_inner_layers": (
        *ADAPTIVE,
        COPY + ",act_type=accumulated,num_inrecurrence_layers=2" + RELATIVE,
    ),
    "act_copy_random_start": (*ADAPTIVE, COPY + RANDOM_START),
    "act_copy_sepconv": (*ADAPTIVE, COPY + ",transformer_ffn_type=sepconv,add_sru=True"),
    "act_copy_gate": (
        *ADAPTIVE,
        COPY + ",copy_gate=True,recurrence_input_injection=add" + RELATIVE_V2,
    ),
    "ponder_net": (*ADAPTIVE, ACT + ",act_type=ponder_net,act_epsilon=0.4"),
    "convergence": (*ADAPTIVE, ACT + ",act_type=convergence,act_epsilon=0.5"),
    "convergence_copy": (*ADAPTIVE, COPY + ",act_type=convergence,act_epsilon=0.5"),
}


def some_slow(names):
    """Return the names as test parameters; names outside `_QUICK` are marked as slow."""
    return [n if n in _QUICK else pytest.param(n, marks=pytest.mark.slow) for n in names]


# These models have no cache. The last element is a part of the expected warning.
NOT_CACHED = {
    "start_step": (*BASIC, STEPS + ",position_start_index=step", "position_start_index=step"),
    "global": (*ADAPTIVE, ACT + ",act_type=global", "act_type=global"),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Set block sizes so small that a cache grows within a few tokens."""
    monkeypatch.setattr(prefix_lib, "COLUMNS", 1)
    monkeypatch.setattr(prefix_lib, "POSITIONS", 2)


def _model(name, set_name, overrides, seed=0, language_model=False):
    hp = hparams.get(set_name, ",".join(filter(None, [TINY, overrides])))
    sizes = {"targets": VOCAB} if language_model else {"inputs": VOCAB, "targets": VOCAB}
    seeds.set_seed(seed)  # the weights do not depend on the order of the tests
    model = models.get(name, hp, vocab_sizes=sizes)
    for number, variable in enumerate(model.variables):
        if "seed_generator" in variable.path:
            continue
        random = np.random.RandomState([seed, number])
        # An SRU before the first norm amplifies rounding errors. With weights of the scale 0.15, a
        # change of the last bit of the weights would change the logits by 0.004.
        scale = 0.03 if getattr(hp, "add_sru", False) else 0.15
        if "pondering" in variable.path and variable.ndim == 2:
            scale = 2.0  # positions halt after different numbers of steps
        variable.assign(variable + scale * random.normal(size=variable.shape))
    return model


def _inputs(seed, batch, length):
    random = np.random.RandomState(seed)
    ids = random.randint(2, VOCAB, size=(batch, length))
    for row in range(1, batch):
        ids[row, random.randint(1, length + 1) :] = 0
    return ids.astype(np.int32)


def _assert_close(got, expected):
    """Assert that the values differ by at most 1e-5 · max(1, the largest expected value)."""
    largest = max(1.0, float(np.max(np.abs(expected))))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * largest)


def _assert_same(model, features, **options):
    cached = model.generate(features, **options)
    whole = model.generate(features, cache=False, **options)
    np.testing.assert_array_equal(cached.ids, whole.ids)
    np.testing.assert_allclose(cached.scores, whole.scores, rtol=1e-5, atol=1e-5)
    return cached


@pytest.mark.parametrize("variant", some_slow(VARIANTS))
def test_cached_beams_match_full_forward(variant):
    """Each beam depends only on its own tokens, although the test reorders beams at random."""
    _check_symbol_by_symbol(variant, beams=3)


@pytest.mark.slow  # test_cached_beams_match_full_forward covers the same code
@pytest.mark.parametrize("variant", ["gru", "act_copy"])
def test_cached_single_beam_matches_full_forward(variant):
    _check_symbol_by_symbol(variant, beams=1)


def _check_symbol_by_symbol(variant, beams, max_length=None):
    model = _model(*VARIANTS[variant], seed=7)
    assert not model.why_not_cached
    batch, length = 2, 5
    max_length = tf.constant(length) if max_length is None else max_length
    inputs = _inputs(0, batch, 4)
    random = np.random.RandomState(0)
    features = {"inputs": tf.constant(inputs)}
    next_logits, cache = next_logits_lib.make(model, features, beams, max_length)
    ids, ancestors = np.zeros([2, batch, beams, length], np.int32)
    scored, prefixes = [], []
    for position in range(length):
        query = beam_search.Query(tf.constant(position), tf.constant(ids), tf.constant(ancestors))
        logits, cache = next_logits(query, cache)
        scored.append(logits)
        prefixes.append(ids[:, :, :position])
        parents = random.randint(0, beams, size=(batch, beams))
        ids = np.take_along_axis(ids, parents[..., None], axis=1)
        ids[:, :, position] = random.randint(2, VOCAB, size=(batch, beams))
        ancestors = np.take_along_axis(ancestors, parents[..., None], axis=1)
        ancestors[:, :, position] = parents
    expected = _logits_of_prefixes(model, inputs, prefixes)
    for got, wanted in zip(scored, expected, strict=True):
        _assert_close(got, wanted)


def _logits_of_prefixes(model, inputs, prefixes):
    """Return the logits [B, K, V] after each prefix [B, K, length].

    One forward pass computes all logits. The function pads shorter prefixes with tokens, which do
    not affect earlier positions.
    """
    batch, beams, longest = prefixes[-1].shape
    targets = np.full([len(prefixes), batch, beams, longest + 1], 2)
    for row, prefix in zip(targets, prefixes, strict=True):
        row[:, :, : prefix.shape[2]] = prefix
    features = {
        "inputs": np.tile(np.repeat(inputs, beams, axis=0), [len(prefixes), 1]),
        "targets": targets.reshape(-1, longest + 1),
    }
    logits = model.forward(features, training=False).logits
    logits = tf.reshape(logits, [len(prefixes), batch, beams, longest + 1, -1])
    return [logits[i, :, :, prefix.shape[2]] for i, prefix in enumerate(prefixes)]


@pytest.mark.parametrize(
    "variant",
    ["act_copy", *(pytest.param(n, marks=pytest.mark.slow) for n in ("transformer", "gru", "act"))],
)
def test_cached_beam_search_matches_uncached(variant):
    model = _model(*VARIANTS[variant], seed=7)
    _assert_same(model, {"inputs": _inputs(0, 3, 5)}, beam_size=3, decode_length=7)


@pytest.mark.slow  # test_dwa_decodes_in_bfloat16 covers cached greedy search
@pytest.mark.parametrize("variant", ["transformer", "gru", "act", "act_copy"])
def test_cached_greedy_search_matches_uncached(variant):
    model = _model(*VARIANTS[variant], seed=7)
    _assert_same(model, {"inputs": _inputs(1, 1, 2)}, beam_size=1, decode_length=7)


@pytest.mark.parametrize(
    "variant",
    [
        *("sepconv", "relative_v2", "act_copy"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("basic", "sru", "act")),
    ],
)
def test_cached_prompt_matches_full_forward(variant):
    """The model writes the prompt to the cache in one forward pass."""
    model = _model(*VARIANTS[variant], seed=5, language_model=True)
    beams, room = 2, 3
    ids = np.random.RandomState(1).randint(2, VOCAB, size=(2, beams, room)).astype(np.int32)
    for prompt_length in (1, 4):
        prompt = np.random.RandomState(prompt_length).randint(2, VOCAB, size=(2, prompt_length))
        given = {"prompt": tf.constant(prompt, tf.int32)}
        next_logits, cache = next_logits_lib.make(model, given, beams, tf.constant(room))
        own = tf.tile(tf.range(beams)[tf.newaxis, :, tf.newaxis], [2, 1, room])
        for position in range(room):
            query = beam_search.Query(tf.constant(position), tf.constant(ids), own)
            logits, cache = next_logits(query, cache)
            for beam in range(beams):
                written = np.concatenate([prompt, ids[:, beam, :position], [[2], [2]]], axis=1)
                whole = model.forward({"targets": written}, training=False).logits[:, -1]
                _assert_close(logits[:, beam], whole)


ATTENTIONS = {
    "dot_product": "",
    "relative": RELATIVE,
    "relative_v2": RELATIVE_V2,
    "rotary": ",pos=rotary",
    "local": LOCAL,
    # With fewer keys, the difference between two nearly equal weights is mostly rounding error.
    "hard": ",hard_attention_k=5",
}


@pytest.mark.parametrize(
    "attention",
    [a if a == "relative" else pytest.param(a, marks=pytest.mark.slow) for a in ATTENTIONS],
)
def test_cache_of_running_positions_matches_all_positions(attention, monkeypatch):
    patterns = set()
    for seed in range(3):
        model = _model(*ADAPTIVE, COPY + ATTENTIONS[attention], seed=seed)
        features = {"inputs": _inputs(seed, 5, 9), "targets": _inputs(9 + seed, 5, 7)}

        def computed(model=model, features=features):
            output = model.forward(features, training=False)
            return output.encoder.ponder_times.numpy(), output.encoder.output, output.logits

        ponder_times, *got = computed()
        with monkeypatch.context() as patch:
            patch.setattr(
                type(model.encoder.depth), "_can_skip_halted_positions", lambda *args: False
            )
            all_ponder_times, *expected = computed()
        np.testing.assert_array_equal(ponder_times, all_ponder_times)
        for one, other in zip(got, expected, strict=True):
            _assert_close(one, other)
        running = np.sum(ponder_times[..., None] > np.arange(5), axis=1)
        patterns |= {tuple(row) for row in running}
    assert len(patterns) > 3  # the number of running positions differs between examples


def test_rows_narrow_to_the_smallest_grid():
    index = tf.constant([[0, 1], [0, 4], [2, 0], [2, 3], [2, 4]])
    active = cache_lib.ActiveColumns(index, tf.constant([4, 5])).compact()
    np.testing.assert_array_equal(active.index, [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]])
    np.testing.assert_array_equal(active.grid, [4, 3])
    x = tf.reshape(tf.range(5.0) + 1, [1, 5, 1])
    spread = active.scatter(x)
    np.testing.assert_array_equal(spread[..., 0], [[1, 2, 0], [0, 0, 0], [3, 4, 5], [0, 0, 0]])
    np.testing.assert_array_equal(active.gather(spread), x)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["act", "act_sepconv", "act_copy", "act_copy_two_inner_layers"])
def test_cache_with_any_halting_pattern(variant):
    """The cache works for many halting patterns.

    In some patterns, a token takes more steps than an earlier token.
    """
    _check_any_halting_pattern(variant, tf.constant(6), seeds=range(3))


def _check_any_halting_pattern(variant, max_length, seeds):
    patterns = set()
    for seed in seeds:
        model = _model(*VARIANTS[variant], seed=400 + seed)
        inputs = _inputs(seed, 4, 6)
        ids = np.random.RandomState(seed).randint(2, VOCAB, size=(4, 1, 6)).astype(np.int32)
        next_logits, cache = next_logits_lib.make(
            model, {"inputs": tf.constant(inputs)}, 1, max_length
        )
        output = model.forward({"inputs": inputs, "targets": ids[:, 0]}, training=False)
        for position in range(6):
            query = beam_search.Query(tf.constant(position), tf.constant(ids), tf.zeros_like(ids))
            logits, cache = next_logits(query, cache)
            _assert_close(logits[:, 0], output.logits[:, position])
        patterns |= {tuple(row) for row in np.round(output.decoder.ponder_times)}
    assert any(len(set(row)) > 1 for row in patterns)
    assert any(row[i] > max(row[:i]) for row in patterns for i in range(1, 6))


@pytest.fixture
def static_shapes(monkeypatch):
    """Select the forms that XLA compiles, with chunks of earlier columns that are not full."""
    monkeypatch.setattr(private_api, "is_compiled_by_xla", lambda: True)
    monkeypatch.setattr(act_static_decoding, "CHUNK", 2)


@pytest.mark.parametrize(
    ("variant", "seed"),
    [
        ("act", 1),
        pytest.param("act_sepconv", 1, marks=pytest.mark.slow),
        ("act_copy", 1),
        pytest.param("act_copy_two_inner_layers", 0, marks=pytest.mark.slow),
    ],
)
def test_cache_of_static_shapes_with_any_halting_pattern(variant, seed, static_shapes):
    _check_any_halting_pattern(variant, 6, [seed])


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    ["act", "act_random_start", "act_copy_masked", "act_copy_sepconv", "act_copy_gate", "act_sru"],
)
def test_cached_beams_of_static_shapes_match_full_forward(variant, static_shapes):
    _check_symbol_by_symbol(variant, beams=3, max_length=5)


@pytest.mark.parametrize(
    "variant",
    [n if n == "start_step" else pytest.param(n, marks=pytest.mark.slow) for n in NOT_CACHED],
)
def test_generate_warns_once_without_cache(variant, caplog):
    *setting, message = NOT_CACHED[variant]
    model = _model(*setting)
    features = {"inputs": _inputs(0, 2, 4)}
    with caplog.at_level(logging.WARNING, logger="ut_keras"):
        model.generate(features, decode_length=3)
        model.generate(features, beam_size=2, decode_length=3)
    ours = [
        record for record in caplog.records if record.name == "ut_keras"
    ]  # the list excludes records of TensorFlow's logger
    messages = [record.getMessage() for record in ours]
    assert len(messages) == 1 and message in messages[0]


@pytest.mark.slow  # tests/bin/decoder_test.py also counts traces
def test_generate_traces_once_for_all_lengths(monkeypatch):
    model = _model(*VARIANTS["act"])
    traces = []
    make = next_logits_lib.make
    monkeypatch.setattr(
        next_logits_lib, "make", lambda *arguments: traces.append(1) or make(*arguments)
    )
    for batch, length in ((2, 3), (5, 4), (1, 7)):
        model.generate({"inputs": _inputs(0, batch, length)}, beam_size=2, decode_length=length)
    assert len(traces) == 1


@pytest.mark.parametrize("variant", ["basic", "act_copy", "sepconv"])
def test_cache_size_matches_formula(variant):
    """The cache stores N · C · (K + V) numbers per example, plus the window of convolutions.

    N is the number of steps, and C is the number of columns. K and V are the widths of keys and
    values.
    """
    model = _model(*VARIANTS[variant])
    size = cache_lib.CacheSize(tf.constant(3), 2, tf.constant(10))
    stores = tf.nest.flatten(model.decoder.start_cache(size))
    steps = {"basic": 3, "sepconv": 3, "act_copy": 5}[variant]
    width = 16 + 16 + (16 + 20 if variant == "sepconv" else 0)
    assert sum(int(tf.size(store)) for store in stores) == 3 * steps * 20 * width
