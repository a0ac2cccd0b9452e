import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph

from tests import seeds
from tests.layers import layer_checks
from ut_keras import hparams, models
from ut_keras.hparam_schema import HParamError
from ut_keras.layers.attention import (
    attention,
    attention_tiles,
    block_attention,
    relative_attention,
)
from ut_keras.layers.attention.attention_mask import AttentionMask
from ut_keras.layers.basic import dropout as dropout_lib

B, H, T, S, KEY, VALUE = 3, 2, 37, 29, 6, 5
BLOCK = 16  # This block size divides neither T nor S.


@pytest.fixture(name="few_examples_in_a_tile")
def few_examples_in_a_tile_fixture(monkeypatch):
    monkeypatch.setattr(attention_tiles, "_MAX_TILE", 1)
    monkeypatch.setattr(attention_tiles, "_MAX_TILE_UNDER_XLA", 1)


@pytest.fixture(name="blocks_from_20")
def blocks_from_20_fixture(monkeypatch):
    least_pairs = {"causal": 400, "full": 400}
    monkeypatch.setattr(block_attention, "_LEAST_PAIRS", least_pairs)
    monkeypatch.setattr(block_attention, "BLOCK_SIZE", BLOCK)
    monkeypatch.setattr(block_attention, "BLOCK_SIZE_UNDER_XLA", BLOCK)


def _random(*shape, seed=0, dtype="float64"):
    return tf.constant(np.random.RandomState(seed).randn(*shape), dtype)


def _inputs(keys, dtype="float64", queries=T):
    return (
        _random(B, H, queries, KEY, seed=1, dtype=dtype),
        _random(B, H, keys, KEY, seed=2, dtype=dtype),
        _random(B, H, keys, VALUE, seed=3, dtype=dtype),
    )


def _dense(q, key, value, mask=None, factors=None):
    logits = tf.matmul(q, key, transpose_b=True)
    if mask is not None:
        logits = tf.where(tf.convert_to_tensor(mask), logits, tf.constant(-1e9, logits.dtype))
    weights = tf.nn.softmax(logits)
    return tf.matmul(weights if factors is None else weights * factors, value)


def _with_gradients(function, *inputs):
    """Return the output of a function, and the gradients of a weighted sum of the output.

    All weights of the sum are positive.
    """
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = function(*inputs)
        numbers = tf.cast(tf.reshape(tf.range(tf.size(output)), tf.shape(output)), tf.float64)
        loss = tf.reduce_sum(output * tf.cast(tf.sin(numbers) + 2, output.dtype))
    return [output, *tape.gradient(loss, inputs)]


def _assert_close(found, expected, tolerance=1e-12):
    for x, y in zip(found, expected, strict=True):
        largest = np.abs(y).max()
        np.testing.assert_allclose(x, y, atol=tolerance * largest, rtol=0)


def _masks():
    random = np.random.RandomState(4)
    own = tf.constant(np.sort(random.randint(0, 4, (B, T))))
    other = tf.constant(random.randint(0, 3, (B, S)))
    left_padding = tf.constant(np.arange(T) >= [[0], [11], [T]])
    lengths = tf.constant(np.arange(S) < [[S], [11], [0]])  # The last example has no key.
    return {
        "none": (S, None),
        "padding": (S, lengths[:, tf.newaxis, tf.newaxis]),
        "causal": (T, AttentionMask(T, T, causal=True)),
        "causal_padding": (T, AttentionMask(T, T, causal=True, key_mask=left_padding)),
        "segments": (T, AttentionMask(T, T, segments=(own, own))),
        "causal_segments": (T, AttentionMask(T, T, causal=True, segments=(own, own))),
        "segments_of_source": (S, AttentionMask(T, S, segments=(own, other))),
        "segments_padding": (S, AttentionMask(T, S, key_mask=lengths, segments=(own, other))),
        "tensor": (S, tf.constant(random.rand(B, H, T, S) < 0.1)),
        "tensor_of_all": (S, tf.constant(random.rand(1, 1, T, S) < 0.1)),
    }


MASKS = list(_masks())
# In the default run, XLA compiles only the first of these masks.
XLA_MASKS = ["causal_padding", "segments_of_source", "tensor_of_all"]


def _modes(function):
    signature = [tf.TensorSpec([None, H, None, size], tf.float64) for size in (KEY, KEY, VALUE)]
    return {
        "eager": function,
        "static": tf.function(function, autograph=False),
        "open": tf.function(function, signature, autograph=False),
        "xla": tf.function(function, autograph=False, jit_compile=True),
        "open_xla": tf.function(function, signature, autograph=False, jit_compile=True),
    }


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *((mode, name) for mode in ("eager", "open") for name in MASKS),
        *(("static", name) for name in MASKS if name not in XLA_MASKS),
        ("xla", XLA_MASKS[0]),
        *(pytest.param("xla", name, marks=pytest.mark.slow) for name in XLA_MASKS[1:]),
    ],
)
def test_blocks_equal_dense_form(mode, name):
    """XLA compiles the graph of static shapes of a few masks, because it takes long."""
    keys, mask = _masks()[name]
    inputs = _inputs(keys)
    expected = _with_gradients(functools.partial(_dense, mask=mask), *inputs)

    def blocks(*inputs):
        return block_attention.attend(*inputs, mask, block_size=BLOCK)

    _assert_close(_modes(lambda *x: _with_gradients(blocks, *x))[mode](*inputs), expected)


@pytest.mark.parametrize("name", MASKS)
def test_single_examples_in_tiles_equal_dense_form(name, few_examples_in_a_tile):
    keys, mask = _masks()[name]
    inputs = _inputs(keys)
    expected = _with_gradients(functools.partial(_dense, mask=mask), *inputs)

    def blocks(*inputs):
        return block_attention.attend(*inputs, mask, block_size=BLOCK)

    _assert_close(_modes(lambda *x: _with_gradients(blocks, *x))["open"](*inputs), expected)


@pytest.mark.parametrize("least", [1, 10**6], ids=["long", "short"])
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        *(("open", name) for name in ("none", "causal_padding", "segments_of_source", "tensor")),
        ("open_xla", "causal_padding"),
    ],
)
def test_choice_in_the_graph_equals_dense_form(name, mode, least, blocks_from_20, monkeypatch):
    monkeypatch.setattr(block_attention, "_LEAST_PAIRS", {"causal": least, "full": least})
    keys, mask = _masks()[name]
    inputs = _inputs(keys)
    expected = _with_gradients(functools.partial(_dense, mask=mask), *inputs)

    def by_length(*inputs):
        return block_attention.attend_by_length(*inputs, mask)

    found = _modes(lambda *x: _with_gradients(by_length, *x))[mode](*inputs)
    _assert_close(found, expected, 1e-6)  # The dense form computes the softmax in float32.


def test_float32_is_as_exact_as_dense_form():
    exact = _with_gradients(_dense, *_inputs(S))
    inputs = _inputs(S, "float32")
    found = _with_gradients(lambda *x: block_attention.attend(*x, block_size=BLOCK), *inputs)
    _assert_close(found, exact, 1e-6)


def test_large_logits_do_not_overflow():
    q, key, value = _inputs(S, "float32")
    inputs = 100 * q, key, value
    expected = _with_gradients(_dense, *inputs)
    found = _with_gradients(lambda *x: block_attention.attend(*x, block_size=BLOCK), *inputs)
    _assert_close(found, expected, 1e-4)


def test_bfloat16_is_as_exact_as_dense_form():
    exact = _with_gradients(_dense, *_inputs(S))
    inputs = _inputs(S, "bfloat16")

    def dense(q, key, value):
        logits = tf.cast(tf.matmul(q, key, transpose_b=True), tf.float32)
        return tf.matmul(tf.cast(tf.nn.softmax(logits), tf.bfloat16), value)

    def errors(function):
        found = _with_gradients(function, *inputs)
        return [
            np.abs(np.float64(x) - y).max() / np.abs(y).max()
            for x, y in zip(found, exact, strict=True)
        ]

    blocks = errors(lambda *x: block_attention.attend(*x, block_size=BLOCK))
    assert np.all(np.array(blocks) < 1.5 * np.array(errors(dense)))


# Tests of dropout.


def _kept(monkeypatch, run):
    """Return (result of `run`, list of the (seed, mask) that tiles sampled during the run)."""
    sampled, sample = [], dropout_lib.sample_kept

    def recording(shape, seed, rate):
        sampled.append((tuple(np.asarray(seed)), sample(shape, seed, rate).numpy()))
        return sampled[-1][1]

    with monkeypatch.context() as patch:
        patch.setattr(dropout_lib, "sample_kept", recording)
        return run(), sampled


@pytest.mark.parametrize("name", ["none", "causal", "causal_padding", "segments_of_source"])
@pytest.mark.parametrize("axes", [(), (2,), (3,), (0, -3)])
def test_dropout_equals_dense_form_with_the_same_mask(name, axes, monkeypatch):
    keys, mask = _masks()[name]
    inputs = _inputs(keys)
    dropout = block_attention.WeightsDropout(0.3, tf.constant([5, 6]), axes)

    def blocks(*inputs):
        return block_attention.attend(*inputs, mask, dropout, BLOCK)

    found, sampled = _kept(monkeypatch, lambda: _with_gradients(blocks, *inputs))
    # Tiles with equal seeds have equal masks, in the forward pass and in the gradient.
    by_seed = {}
    for seed, kept in sampled:
        np.testing.assert_array_equal(by_seed.setdefault(seed, kept), kept)
    first = min(seed[1] for seed in by_seed)
    columns = -(-keys // BLOCK)
    all_kept = np.ones([B, H, 3 * BLOCK, columns * BLOCK], bool)
    for (_, number), kept in by_seed.items():
        i, j = divmod(number - first, columns)
        rows = slice(None) if 2 in axes else slice(i * BLOCK, (i + 1) * BLOCK)
        cols = slice(None) if 3 in axes else slice(j * BLOCK, (j + 1) * BLOCK)
        all_kept[:, :, rows, cols] &= kept
    factors = tf.constant(all_kept[:, :, :T, :keys] * dropout_lib.scale(0.3))
    assert 0.6 < np.mean(all_kept[:, :, :BLOCK, :BLOCK]) < 0.8
    _assert_close(
        found, _with_gradients(functools.partial(_dense, mask=mask, factors=factors), *inputs)
    )


@pytest.mark.parametrize("mode", ["static", pytest.param("xla", marks=pytest.mark.slow)])
def test_dropout_gradient_matches_finite_differences(mode):
    inputs = _inputs(T)
    dropout = block_attention.WeightsDropout(0.3, tf.constant([5, 6]))
    mask = AttentionMask(T, T, causal=True)

    def blocks(*inputs):
        return block_attention.attend(*inputs, mask, dropout, BLOCK)

    run = _modes(lambda *x: _with_gradients(blocks, *x))[mode]
    output, *gradients = run(*inputs)
    upstream = np.sin(np.arange(output.numpy().size)).reshape(output.shape) + 2
    for number, gradient in enumerate(gradients):
        direction = _random(*gradient.shape, seed=7)
        losses = []
        for sign in (-1, 1):
            moved = list(inputs)
            moved[number] += sign * 1e-5 * direction
            losses.append(np.sum(run(*moved)[0] * upstream))
        expected = (losses[1] - losses[0]) / 2e-5
        np.testing.assert_allclose(tf.reduce_sum(gradient * direction), expected, rtol=1e-6)


def test_dropout_differs_between_seeds_tiles_and_heads():
    q, key = tf.zeros([1, 2, 32, 1]), tf.zeros([1, 2, 32, 1])
    value = tf.eye(32, batch_shape=[1, 2])  # With this value, the output equals the weights.

    def weights(seed):
        dropout = block_attention.WeightsDropout(0.5, tf.constant(seed))
        return block_attention.attend(q, key, value, None, dropout, 16).numpy() * 32

    first, second = weights([1, 2]), weights([1, 3])
    assert set(np.unique(first)) == {0.0, 2.0}
    tiles = [
        x[0, head, i : i + 16, j : j + 16]
        for x in (first, second)
        for head in range(2)
        for i in (0, 16)
        for j in (0, 16)
    ]
    assert len({tile.tobytes() for tile in tiles}) == 16
    np.testing.assert_allclose(np.mean(first > 0), 0.5, atol=0.05)


# Tests of the layer.


def _layer(**arguments):
    layer = attention.MultiHeadAttention(H, 8, **arguments)
    layer.build((None, None, 8))
    layer_checks.shake(layer)
    return layer


@pytest.mark.parametrize("arguments", [{"block_size": 5}, {}], ids=["size", "length"])
@pytest.mark.parametrize("length", [12, None])
def test_layer_without_weights_equals_layer_with_weights(arguments, length, monkeypatch):
    monkeypatch.setattr(block_attention, "_LEAST_PAIRS", {"causal": 100, "full": 100})
    monkeypatch.setattr(block_attention, "BLOCK_SIZE", 5)
    layer, x = _layer(**arguments), tf.constant(layer_checks.normal(B, 12, 8))

    def gradients(x, **how):
        with tf.GradientTape() as tape:
            result = layer(x, **how)
            loss = tf.reduce_sum(result.output**2)
        return [result.output, *tape.gradient(loss, layer.trainable_variables)]

    causal = attention.causal_attention_mask(12)
    expected = gradients(x, attention_mask=causal)

    @tf.function(input_signature=[tf.TensorSpec([None, length, 8])], autograph=False)
    def found(x):
        mask = AttentionMask(tf.shape(x)[1], tf.shape(x)[1], causal=True)
        return gradients(x, attention_mask=mask, return_weights=False)

    assert layer(x, return_weights=False).weights is None
    _assert_close(found(x), expected, 1e-5)


def _gradients_under_xla(function, *inputs):
    run = tf.function(lambda *x: _with_gradients(function, *x), autograph=False, jit_compile=True)
    return run(*inputs)


@pytest.mark.parametrize(
    "name",
    [XLA_MASKS[0], *(pytest.param(x, marks=pytest.mark.slow) for x in MASKS if x != XLA_MASKS[0])],
)
def test_weights_are_computed_again_under_xla(name):
    """The gradient of the dense form equals TensorFlow's gradient, also without any key."""
    keys, mask = _masks()[name]
    inputs = [tf.cast(x, tf.float32) for x in _inputs(keys)]
    found = _gradients_under_xla(lambda *x: block_attention.attend_densely(*x, mask), *inputs)
    _assert_close(found, _with_gradients(lambda *x: _dense(*x, mask), *inputs), 1e-5)


def test_dropout_is_sampled_again_under_xla(monkeypatch):
    """The gradient uses the mask of the forward pass."""
    inputs = [tf.cast(x, tf.float32) for x in _inputs(S)]
    settings = attention_tiles.WeightsDropout(0.4, tf.constant([7, 1]), (1,))

    def kept():
        return dropout_lib.factors(
            dropout_lib.sample_kept([B, 1, T, S], settings.seed, 0.4), 0.4, "float32"
        )

    factors = tf.function(kept, autograph=False, jit_compile=True)()
    assert 0.3 < np.mean(factors == 0) < 0.5
    found = _gradients_under_xla(
        lambda *x: block_attention.attend_densely(*x, None, settings), *inputs
    )
    _assert_close(found, _with_gradients(lambda *x: _dense(*x, None, factors), *inputs), 1e-5)


@pytest.mark.parametrize("attend", [block_attention.attend, block_attention.attend_densely])
def test_gradient_under_xla_computes_the_weights_again(attend):
    """Without copies, XLA would store the weights of the forward pass for the gradient."""
    inputs = [tf.cast(x, tf.float32) for x in _inputs(S)]

    def gradients(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.exp(attend(*inputs)))
        return tape.gradient(loss, inputs)

    step = tf.function(gradients, autograph=False, jit_compile=True)
    program = step.experimental_get_compiler_ir(*inputs)(stage="optimized_hlo")
    # The output needs two products, and its gradient needs five. One of the five computes the
    # weights again.
    assert program.count(" dot(") == 7


def test_gradient_under_xla_copies_the_masks_of_keys():
    """The gradients of all calls read the mask, so XLA could combine operations of all calls."""
    q, key, value = (tf.cast(x, tf.float32) for x in _inputs(S))
    key_mask = tf.constant([[True] * (S - 1) + [False]] * B)
    seed = tf.constant([1, 2])
    tensor = key_mask[:, tf.newaxis, tf.newaxis]

    def copies(upstream, *inputs):
        dropout = block_attention.WeightsDropout(0.1, seed)
        mask = AttentionMask(T, S, key_mask=key_mask)
        copy = block_attention._copies_for_gradient
        *tensors, mask, dropout = copy(upstream, *inputs, mask, dropout)
        *_, tensor_mask, no_dropout = copy(upstream, *inputs, tensor, None)
        assert no_dropout is None
        assert mask.key_mask is not key_mask
        assert tensor_mask is not tensor
        return *tensors, mask.key_mask, tensor_mask, dropout.seed

    compiled = tf.function(copies, autograph=False, jit_compile=True)
    found = compiled(tf.ones_like(q), q, key, value)
    for copy, original in zip(found, (q, key, value, key_mask, tensor, seed), strict=True):
        np.testing.assert_array_equal(copy, original)


@pytest.mark.parametrize("equal", [True, False])
def test_gradient_under_xla_copies_the_segments(equal):
    """One tensor for queries and keys remains one tensor, so no query is without a key."""
    inputs = [tf.cast(x, tf.float32) for x in _inputs(S)]
    query = tf.constant([[1] * 3 + [2] * (S - 3)] * B)
    key = query if equal else tf.identity(query)

    def copies(upstream, *inputs):
        mask = AttentionMask(S, S, segments=(query, key))
        mask = block_attention._copies_for_gradient(upstream, *inputs, mask, None)[3]
        assert mask.segments[0] is not query and mask.segments[1] is not key
        assert (mask.segments[0] is mask.segments[1]) == equal
        return mask.segments

    found = tf.function(copies, autograph=False, jit_compile=True)(tf.ones_like(inputs[0]), *inputs)
    np.testing.assert_array_equal(found, (query, key))


def test_update_stores_no_weights_under_xla():
    """The loop over steps stores no attention weights, and no factors of dropout.

    Each step stores the hidden tensor of the transition twice: once for the gradient of the ReLU
    and dropout, once for that of the product. XLA for GPUs keeps only one of them.
    """
    rates = ("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout")
    model = _model("encoder_decoder", ",".join(f"{name}=0.1" for name in rates))
    features = _features(model)
    step = tf.function(_step(model), autograph=False, jit_compile=True)
    program = step.experimental_get_compiler_ir(features)(stage="hlo")
    batch, length = features["targets"].shape
    steps, heads, width = model.hparams.num_rec_steps, 2, model.hparams.filter_size
    assert f"[{batch},{heads},{length},{length}]" in program
    assert f"[{steps},{batch},{heads},{length},{length}]" not in program
    loops = re.findall(r"= \((.*)\) while\(", program)
    assert len(loops) == 4
    for loop in loops:
        assert loop.count(f"[{steps},{batch},{length},{width}]") == 2
        assert f"[{steps},{batch * length},{width}]" not in loop


def test_layer_uses_dense_form_where_weights_are_needed(monkeypatch):
    def fail(*arguments):
        raise AssertionError("The layer used blocks.")

    monkeypatch.setattr(block_attention, "attend", fail)
    monkeypatch.setattr(block_attention, "use_blocks", lambda *_: True)
    x = layer_checks.normal(B, 6, 8)
    assert _layer(block_size=2)(x).weights is not None
    hard = _layer(hard_attention_k=2)
    hard(x, return_weights=False)
    relative = relative_attention.RelativeAttention(H, 8, max_relative_position=3)
    relative(x, return_weights=False)
    with pytest.raises(AssertionError, match="used blocks"):
        _layer(block_size=2)(x, return_weights=False)


def test_mask_that_is_the_same_for_all_keys_equals_dense_form():
    inputs, mask = _inputs(S), tf.constant(np.random.RandomState(0).rand(B, 1, T, 1) < 0.5)
    _assert_close(
        _with_gradients(lambda *x: block_attention.attend(*x, mask, None, BLOCK), *inputs),
        _with_gradients(lambda *x: _dense(*x, mask), *inputs),
    )


def test_causal_mask_rejects_other_number_of_keys():
    with pytest.raises(ValueError, match=r"Received: queries=30, keys=12\.$"):
        AttentionMask(30, 12, causal=True)


def test_float16_with_padding_equals_dense_form():
    layer = attention.MultiHeadAttention(H, 8, block_size=BLOCK, dtype="mixed_float16")
    x = _random(B, T, 8, dtype="float32")
    real = tf.range(T) < [[T], [11], [0]]  # The last example has only padding.

    def call(return_weights):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = layer(x, mask=real, return_weights=return_weights).output
        return [tf.cast(y, tf.float32) for y in (output, tape.gradient(output, x))]

    _assert_close(call(False), call(True), 1e-2)


def test_float16_tile_of_masked_keys_with_negative_logits():
    """In float16, masked logits are finite, even if all keys of a tile are masked."""
    q = tf.fill([2, H, T, 8], tf.constant(2.0, tf.float16))
    key = tf.where(tf.range(T)[:, tf.newaxis] < 3, _random(2, H, T, 8, dtype="float32"), -3.0)
    key, value = tf.cast(key, tf.float16), _random(2, H, T, 8, dtype="float16")
    mask = tf.reshape(tf.range(T) < 3, [1, 1, 1, T])

    def call(function):
        with tf.GradientTape() as tape:
            tape.watch([q, key, value])
            output = function(q, key, value)
        return [tf.cast(y, tf.float32) for y in (output, *tape.gradient(output, [q, key, value]))]

    def dense(q, key, value):
        q, key, value = (tf.cast(x, tf.float32) for x in (q, key, value))
        logits = tf.where(mask, tf.matmul(q, key, transpose_b=True), -1e9)
        return tf.matmul(tf.nn.softmax(logits), value)

    blocks = functools.partial(block_attention.attend, mask=mask, block_size=BLOCK)
    _assert_close(call(blocks), call(dense), 2e-2)


@pytest.mark.parametrize("length", [46341, 65536])
def test_open_lengths_above_46340_use_blocks(length):
    """The product of two lengths above 46340 does not fit into an int32."""
    assert block_attention.use_blocks(tf.constant(length), tf.constant(length))
    assert block_attention.use_blocks(tf.constant(length), length, max_length=1024)


@pytest.mark.parametrize("mode", ["eager", "static", "open"])
def test_empty_batch_has_an_empty_output(mode):
    def step(q, key, value):
        dropout = attention_tiles.WeightsDropout(0.5, tf.constant([1, 2]))
        with tf.GradientTape() as tape:
            tape.watch((q, key, value))
            output = block_attention.attend(q, key, value, None, dropout, BLOCK)
        return [output, *tape.gradient(output, (q, key, value))]

    inputs = [x[:0] for x in _inputs(S)]
    output, *gradients = _modes(step)[mode](*inputs)
    assert output.shape == (0, H, T, VALUE)
    assert [x.shape for x in gradients] == [x.shape for x in inputs]


@pytest.mark.parametrize("block_size", [0, -1])
def test_layer_rejects_block_size_below_1(block_size):
    with pytest.raises(ValueError, match=rf"block_size .*1\. Received: {block_size}\.$"):
        attention.MultiHeadAttention(H, 8, block_size=block_size)
    with pytest.raises(HParamError, match=rf"attention_block_size.*Received.*={block_size}\.$"):
        hparams.get("universal_transformer_tiny", f"attention_block_size={block_size}")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        *(
            (f"self_attention_type={kind}", f"self_attention_type='{kind}'")
            for kind in (
                "dot_product_relative",
                "dot_product_relative_v2",
                "dot_product_relative_xl",
                "geometric",
                "local_mask_right",
                "local_unmasked",
            )
        ),
        ("hard_attention_k=2", "hard_attention_k=2"),
    ],
)
def test_block_size_is_rejected_by_attention_without_blocks(settings, reason):
    hp = f"{settings},max_relative_position=4"
    _model("language_model", hp)
    with pytest.raises(HParamError, match=rf"attention_block_size .*{reason}.* Received: 8\.$"):
        _model("language_model", f"{hp},attention_block_size=8")


def test_layer_without_blocks_rejects_block_size():
    with pytest.raises(ValueError, match=r"block_size .*hard_attention_k=2.* Received: 8\.$"):
        attention.MultiHeadAttention(H, 8, hard_attention_k=2, block_size=8)
    with pytest.raises(ValueError, match=r"block_size .*RelativeAttention.* Received: 8\.$"):
        relative_attention.RelativeAttention(H, 8, max_relative_position=3, block_size=8)


# Tests of models.

_SMALL = "hidden_size=8,filter_size=16,num_heads=2"
_DEPTH = {
    "transformer": "num_hidden_layers=2",
    "universal_transformer": "num_rec_steps=3,act_max_steps=3",
}
_NO_DROPOUT = "attention_dropout=0.0,relu_dropout=0.0,layer_prepostprocess_dropout=0.0"
_MODELS = {
    "language_model": ("universal_transformer", "universal_transformer_tiny", "", False),
    "encoder_decoder": ("universal_transformer", "universal_transformer_tiny", "", True),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_tiny", "", True),
    "transformer": ("transformer", "transformer_tiny", "", True),
    "rotary": ("universal_transformer", "universal_transformer_tiny", "pos=rotary", True),
    "unidirectional": (
        "transformer",
        "transformer_tiny",
        "unidirectional_encoder=True",
        True,
    ),
    "relative": (
        "transformer",
        "transformer_tiny",
        "self_attention_type=dot_product_relative_v2,max_relative_position=4",
        True,
    ),
    "local": (
        "transformer",
        "transformer_tiny",
        "self_attention_type=local_mask_right,block_length=4",
        True,
    ),
}


def _model(name, more=_NO_DROPOUT):
    kind, set_name, overrides, has_inputs = _MODELS[name]
    seeds.set_seed(3)
    names = ["inputs", "targets"] if has_inputs else ["targets"]
    overrides = ",".join(filter(None, [_SMALL, _DEPTH[kind], overrides, more]))
    return models.get(kind, hparams.get(set_name, overrides), vocab_sizes=dict.fromkeys(names, 11))


def _features(model, packed=False, batch=2, length=23):
    random = np.random.RandomState(5)
    features = {}
    for name in model.specs:
        ids = random.randint(2, 11, (batch, length)).astype("int32")
        segments = np.sort(random.randint(1, 4, ids.shape)).astype("int32")
        ids[0, -4:] = segments[0, -4:] = 0
        features[name] = ids
        if packed:
            starts = [np.searchsorted(row, row) for row in segments]
            position = (np.arange(length) - starts).astype("int32")
            features |= {f"{name}_segmentation": segments, f"{name}_position": position}
    return {name: tf.constant(value) for name, value in features.items()}


def _step(model):
    """Return a function that maps features to [loss, *gradients] of a training step."""

    def step(features):
        with tf.GradientTape() as tape:
            output = model.forward(features, training=True)
            terms = model.loss_terms(output, features["targets"], True)
            loss = tf.add_n([term.value() for part in terms.values() for term in part])
        return [loss, *tape.gradient(loss, model.trainable_variables)]

    return step


def _open(features):
    return {name: tf.TensorSpec([None, None], value.dtype) for name, value in features.items()}


@pytest.mark.parametrize(
    ("name", "packed", "lengths"),
    [
        ("language_model", False, "open"),
        ("encoder_decoder", True, "static"),
        *(
            pytest.param(name, packed, "open", marks=pytest.mark.slow)
            for name, packed in (*((name, False) for name in _MODELS), ("encoder_decoder", True))
            if name != "language_model"
        ),
        *(
            pytest.param(name, False, "static", marks=pytest.mark.slow)
            for name in ("adaptive", "language_model", "unidirectional")
        ),
    ],
)
def test_training_step_of_model_is_the_same_with_blocks(
    name, packed, lengths, blocks_from_20, monkeypatch
):
    """With open lengths, the graph chooses between blocks and the dense form at run time.

    The test combines static lengths with every kind of mask, but not with every model.
    """
    model = _model(name)
    features = _features(model, packed)
    with monkeypatch.context() as patch:
        patch.setattr(block_attention, "_LEAST_PAIRS", {"causal": 10**6, "full": 10**6})
        expected = _step(model)(features)
    signature = [_open(features)] if lengths == "open" else None
    found = tf.function(_step(model), signature, autograph=False)(features)
    _assert_close(map(tf.convert_to_tensor, found), map(tf.convert_to_tensor, expected), 1e-4)


@pytest.mark.slow
def test_training_step_of_model_is_the_same_under_xla(blocks_from_20):
    model = _model("encoder_decoder")
    features = _features(model)
    expected = _step(model)(features)
    found = tf.function(_step(model), [_open(features)], autograph=False, jit_compile=True)(
        features
    )
    _assert_close(map(tf.convert_to_tensor, found), map(tf.convert_to_tensor, expected), 1e-4)


def test_fit_gives_the_same_weights_with_blocks():
    """The model runs eagerly. Another test compares the blocks of a traced training step."""

    def weights(more):
        model = _model("encoder_decoder", f"{_NO_DROPOUT},{more}")
        features = _features(model, batch=4)
        data = tf.data.Dataset.from_tensors((features, features["targets"])).repeat(2)
        model.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
        model.fit(data, shuffle=False, verbose=0)
        return model.get_weights()

    for x, y in zip(
        weights("attention_block_size=8"), weights("attention_block_size=None"), strict=True
    ):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_replicas_give_the_loss_of_one_device_with_blocks():
    devices = [f"/cpu:{n}" for n in range(len(tf.config.list_logical_devices("CPU")))][:2]
    strategy = tf.distribute.MirroredStrategy(devices)
    with strategy.scope():
        model = _model("language_model", f"{_NO_DROPOUT},attention_block_size=8")
    features = _features(model)
    step = tf.function(_step(model), autograph=False)
    expected = step(features)[0]
    losses = tf.function(lambda x: strategy.run(lambda x: step(x)[0], [x]))(features)
    for loss in strategy.experimental_local_results(losses):
        np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_dropout_of_model_depends_on_the_call_and_the_step():
    model = _model(
        "language_model",
        "attention_dropout=0.5,relu_dropout=0.0,"
        "layer_prepostprocess_dropout=0.0,attention_block_size=8",
    )
    features = _features(model)
    step = tf.function(_step(model), autograph=False)
    first, second = step(features), step(features)
    assert np.isfinite(first[0]) and first[0] != second[0]
    for gradient in map(tf.convert_to_tensor, first[1:]):
        assert np.isfinite(gradient).all()


def test_output_does_not_depend_on_the_batch(blocks_from_20):
    model = _model("encoder_decoder")
    features = _features(model, batch=3)
    forward = tf.function(
        lambda x: model.forward(x, training=False).logits, [_open(features)], autograph=False
    )
    together = forward(features)
    for row in range(3):
        alone = forward({name: value[row : row + 1] for name, value in features.items()})
        np.testing.assert_allclose(alone[0], together[row], atol=2e-6)


def test_causal_blocks_after_the_query_have_no_effect():
    q, key, value = _inputs(T)
    changed = [tf.concat([x[:, :, :20], x[:, :, 20:] * np.nan], axis=2) for x in (key, value)]
    mask = AttentionMask(T, T, causal=True)
    before = block_attention.attend(q, key, value, mask, None, 4)
    after = block_attention.attend(q, *changed, mask, None, 4)
    np.testing.assert_array_equal(before[:, :, :20], after[:, :, :20])


# Tests of memory.


def _graphs(graph):
    """Yield a graph and the graphs of all functions that it calls."""
    yield graph
    for definition in graph.as_graph_def().library.function:
        yield function_def_to_graph.function_def_to_graph(definition)


def _largest_tensor(function, *specs):
    """Return the number of elements of the largest tensor in the graph of a function.

    Tensors of unknown shape are skipped.
    """
    graph = tf.function(function, autograph=False).get_concrete_function(*specs).graph
    shapes = (
        output.shape
        for part in _graphs(graph)
        for op in part.get_operations()
        for output in op.outputs
    )
    return max(shape.num_elements() or 0 for shape in shapes if shape.rank)


@pytest.mark.parametrize("name", ["language_model", pytest.param("rotary", marks=pytest.mark.slow)])
def test_no_tensor_of_a_training_step_is_quadratic_in_the_length(name):
    """The model "rotary" has an encoder and a decoder."""
    length = 200  # Tensors that are linear in the length have at most 200 * 16 elements.

    def largest(more):
        model = _model(name, f"{_NO_DROPOUT},{more}")
        features = {x: tf.TensorSpec([1, length], tf.int32) for x in model.specs}
        return _largest_tensor(_step(model), features)

    assert largest("attention_block_size=32") < length**2 / 2
    assert largest("attention_block_size=None") >= 2 * length**2


@pytest.mark.parametrize("name", ["encoder_decoder", "transformer"])
def test_no_tensor_of_an_encoder_before_decoding_is_quadratic_in_the_length(name):
    length = 200

    def largest(more):
        model = _model(name, f"{_NO_DROPOUT},{more}")
        return _largest_tensor(
            lambda ids: model.encode({"inputs": ids}).stack.output,
            tf.TensorSpec([1, length], tf.int32),
        )

    assert largest("attention_block_size=32") < length**2 / 2
    assert largest("attention_block_size=None") >= 2 * length**2
