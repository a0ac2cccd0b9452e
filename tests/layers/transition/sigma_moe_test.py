import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from tests.models import examples
from ut_keras import hparams, models, parts
from ut_keras.errors import UserError
from ut_keras.layers.attention import attention
from ut_keras.layers.depth import transformer_layer
from ut_keras.layers.transition import sigma_moe
from ut_keras.metrics import losses

REAL = np.array([[True, True, True], [True, True, False]])
EXPERTS = "'sigma_moe(num_experts=4, k=2, entropy_weight=0.5)'"
FEATURES = {
    "inputs": np.array([[3, 4, 5, 1], [6, 1, 0, 0]]),
    "targets": np.array([[5, 4, 1], [6, 1, 0]]),
}


def make_layer(**arguments):
    return sigma_moe.SigmaMoE(12, 4, num_experts=6, k=2, **arguments)


def make_model(overrides="", name="universal_transformer"):
    tiny = f"{name}_tiny" if name == "universal_transformer" else "transformer_tiny"
    given = f"hidden_size=16,num_heads=2,filter_size=32,{overrides}"
    sizes = {"inputs": 9, "targets": 9}
    return models.get(name, hparams.get(tiny, given), vocab_sizes=sizes)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: make_layer(dtype=dtype),
        {"x": layer_checks.normal(2, 3, 4), "padding_mask": REAL},
        num_weights=3,
        call=lambda layer, **arguments: layer(**arguments).output,
        mixed_tolerance=None,  # A small difference may change the selected experts.
    )


def test_matches_reference():
    layer = make_layer(entropy_weight=0.1)
    layer.build((None, None, 4))
    layer_checks.shake(layer)
    x = layer_checks.normal(2, 3, 4)
    router, w1, w2 = (part.kernel.numpy() for part in (layer.router, layer.expand, layer.contract))
    scores, expected = x @ router, np.zeros_like(x)
    for place in np.argwhere(REAL):
        at = tuple(place)
        for expert in np.argsort(scores[at])[-2:]:
            own = slice(2 * expert, 2 * expert + 2)
            hidden = np.maximum(x[at] @ w1[:, own], 0)
            expected[at] += hidden @ w2[own] / (1 + np.exp(-scores[at][expert]))
    result = layer(x, padding_mask=REAL, training=True)
    np.testing.assert_allclose(result.output, expected, atol=1e-5)
    asked = softmax(scores) * REAL[..., np.newaxis]
    p = asked.sum(1) / REAL.sum(1)[:, np.newaxis]
    np.testing.assert_allclose(
        layer.auxiliary_loss(result.auxiliary_loss_stats), 0.1 * (p * np.log(p)).sum(-1), rtol=1e-5
    )
    assert layer(x, padding_mask=REAL).auxiliary_loss_stats is None


@pytest.mark.parametrize(
    "depth",
    [
        "",
        "recurrence_type=act,act_type=accumulated",
        "recurrence_type=highway",
    ],
)
def test_auxiliary_loss_covers_all_steps_and_both_sides(depth):
    model = make_model(f"transformer_ffn_type={EXPERTS},{depth}")
    layers = [side.depth.block.layers[0] for side in (model.encoder, model.decoder)]
    stats = [[], []]

    def record(layer, kept):
        inner = layer.transition.call

        def call(*args, **kwargs):
            result = inner(*args, **kwargs)
            kept.append(result.auxiliary_loss_stats)
            return result

        layer.transition.call = call

    for layer, kept in zip(layers, stats, strict=True):
        record(layer, kept)
    tf.config.run_functions_eagerly(True)
    try:
        terms = model.loss_terms(model.forward(FEATURES, True), FEATURES["targets"], True)
    finally:
        tf.config.run_functions_eagerly(False)
    assert all(len(kept) > 1 for kept in stats)
    expected = 0
    for kept in stats:
        p = np.sum(kept, axis=0)
        p /= p.sum(-1, keepdims=True)
        expected += 0.5 * np.mean((p * np.log(p)).sum(-1))
    assert sum(float(term.value()) for term in terms["extra"]) == pytest.approx(expected, rel=1e-5)
    assert "extra" not in model.loss_terms(model.forward(FEATURES), FEATURES["targets"], False)


@pytest.mark.parametrize(
    "name, overrides",
    [
        ("transformer", f"ffn_layer={EXPERTS},num_hidden_layers=2"),
        ("universal_transformer", f"ffn_layer={EXPERTS},mix_with_transformer='before_ut,after_ut'"),
    ],
)
def test_auxiliary_loss_trains_every_router(name, overrides):
    model = make_model(overrides, name)
    with tf.GradientTape() as tape:
        terms = model.loss_terms(model.forward(FEATURES, True), FEATURES["targets"], True)
        cost = tf.add_n([term.value() for term in terms["extra"]])
    routers = [v for v in model.trainable_variables if "router" in v.path]
    assert len(routers) == len(terms["extra"]) > 2
    assert all(np.any(g) for g in tape.gradient(cost, [v.value for v in routers]))


@pytest.mark.parametrize(
    "kind, overrides",
    [
        pytest.param("transformer", ",num_hidden_layers=2", marks=pytest.mark.slow),
        ("adaptive", ""),
    ],
)
def test_auxiliary_loss_is_part_of_every_loss(kind, overrides):
    """`fit`, `loss_terms` and `inspect` include the auxiliary losses of all layers."""
    free = ",layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
    model = examples.make(kind, f"ffn_layer={EXPERTS}{overrides}{free}")
    features = examples.features(kind)
    terms = model.loss_terms(model.forward(features, True), features["targets"], True)
    seen = model.inspect(features, training=True).losses
    extra = sum(float(term.value()) for term in terms["extra"])
    np.testing.assert_allclose(seen.get("extra"), extra, rtol=1e-5)
    assert extra
    model.compile(run_eagerly=True)  # tracing is slow
    loss = model.fit(features, features["targets"], batch_size=3, verbose=0).history["loss"]
    np.testing.assert_allclose(loss, sum(float(value) for value in seen.values()), rtol=1e-4)


def test_layer_with_experts_trains_in_a_keras_model():
    layer = transformer_layer.TransformerLayer(attention.MultiHeadAttention(2, 4), make_layer())
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(np.ones([4, 5, 4]), np.ones([4, 5, 1]), verbose=0)
    assert len(model.losses) == 1


# This test is slow. In the default run, tests/decoding/cache_test.py compares cached and uncached
# decoding with dense transitions.
@pytest.mark.slow
def test_cached_decoding_matches_uncached():
    model = make_model(f"recurrence_type=act,act_halted_state=copy,ffn_layer={EXPERTS}")
    inputs = {"inputs": FEATURES["inputs"]}
    cached = model.generate(inputs, beam_size=2, decode_length=5)
    plain = model.generate(inputs, beam_size=2, decode_length=5, cache=False)
    np.testing.assert_array_equal(cached.ids, plain.ids)
    np.testing.assert_allclose(cached.scores, plain.scores, rtol=1e-5)


@pytest.mark.slow
def test_xla_compiles_the_gradient_in_a_loop_over_steps():
    without_dropout = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
    model = make_model(f"recurrence_type=act,ffn_layer={EXPERTS},{without_dropout}")

    def gradients(features):
        with tf.GradientTape() as tape:
            output = model.forward(features, training=True)
            loss = losses.total(model.loss_terms(output, features["targets"], True))
        found = tape.gradient(loss, model.trainable_variables)
        return [loss, *map(tf.convert_to_tensor, found)]

    features = {name: tf.constant(ids) for name, ids in FEATURES.items()}
    compiled = tf.function(gradients, autograph=False, jit_compile=True)(features)
    for found, want in zip(compiled, gradients(features), strict=True):
        np.testing.assert_allclose(found, want, atol=1e-5 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("given", ["experts=4", "k=2.5", "k=True", "hp=1"])
def test_ffn_layer_rejects_unknown_arguments(given):
    with pytest.raises(UserError, match=r"\(num_experts=16, k=4, entropy_weight=0.01\)"):
        hparams.get("transformer_tiny", f"ffn_layer=sigma_moe({given})")


def test_ffn_layer_accepts_int_for_float():
    make = parts.transitions.get("sigma_moe(entropy_weight=1)")
    assert make.keywords == {"entropy_weight": 1.0}


@pytest.mark.parametrize("given", ["sigma_moe(k=", "sigma_moe(4)", "sigma_moe(**{})", "moe(k=1)"])
def test_ffn_layer_rejects_malformed_parts(given):
    assert given not in parts.transitions
    with pytest.raises(UserError, match="ffn_layer must be one of"):
        hparams.get("transformer_tiny", f"ffn_layer='{given}'")


def test_sigma_moe_rejects_indivisible_filter_size():
    with pytest.raises(ValueError, match="must divide filter_size"):
        sigma_moe.SigmaMoE(10, 4, num_experts=4, k=2)


def test_symbolic_call_returns_mixture_output():
    output = sigma_moe.SigmaMoE(12, 4, num_experts=6, k=2)(keras.Input((None, 4)))
    assert output.output.shape == (None, None, 4) and output.auxiliary_loss_stats.shape == (None, 6)
