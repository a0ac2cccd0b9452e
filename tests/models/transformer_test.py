"""Tests of properties that every kind of model has."""

import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from tests.models.examples import B, C, V
from ut_keras import hparam_schema, hparams, models
from ut_keras.metrics import losses

ALL = sorted(examples.KINDS)
_NO_DROPOUT = {"layer_prepostprocess_dropout": 0.0, "attention_dropout": 0.0, "relu_dropout": 0.0}


@pytest.mark.parametrize("kind", ["transformer", "adaptive_language_model", "encoder", "stories"])
def test_graph_accepts_any_batch_and_length(kind):
    model, features = examples.shared(kind), examples.features(kind)
    free = {  # stories have a fixed shape
        name: tf.TensorSpec([None, None] if value.ndim == 2 else [None, *value.shape[1:]], tf.int32)
        for name, value in features.items()
    }
    graph = tf.function(
        lambda features: model(features, training=False), input_signature=[free], autograph=False
    )
    shorter = {
        name: value[:2, :3] if value.ndim == 2 and name == "inputs" else value[:2]
        for name, value in features.items()
    }
    for batch, logits in (
        (features, examples.logits(kind)),
        (shorter, model(shorter, training=False)),
    ):
        assert logits.dtype == "float32"
        np.testing.assert_allclose(graph(batch), logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(model(features), examples.logits(kind))
    assert examples.logits(kind).shape == examples.logits_shape(kind)


# The default run compiles only one kind. Other tests compile all layers with XLA, and fit_test.py
# compiles an encoder.
@pytest.mark.parametrize(
    "kind",
    ["adaptive", *(pytest.param(k, marks=pytest.mark.slow) for k in ("transformer", "encoder"))],
)
def test_xla_matches_eager(kind):
    model, features = examples.shared(kind), examples.features(kind)
    xla = tf.function(
        lambda features: model(features, training=False), jit_compile=True, autograph=False
    )
    np.testing.assert_allclose(xla(features), examples.logits(kind), atol=1e-4)


@pytest.mark.parametrize("kind", ALL)
def test_one_gradient_step_reaches_all_weights(kind):
    model, features = examples.shared(kind), examples.features(kind)
    with tf.GradientTape() as tape:
        output = model.forward(features, training=True)
        loss = losses.total(model.loss_terms(output, features["targets"], training=True))
    for variable, gradient in zip(
        model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
    ):
        if kind in examples.NEURAL_GPUS and variable.path == "target_embedding/weights":
            assert gradient is None  # as in T2T, no layer reads this table
            continue
        assert gradient is not None, variable.path
        gradient = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(gradient).all(), variable.path
        # The decoder of a classifier has one position, so its self-attention has no effect.
        assert gradient.any() or (kind == "classifier" and "self_attention" in variable.path)


def test_loaded_model_generates(tmp_path):
    model, features = examples.shared("transformer"), {"inputs": examples.INPUTS}
    before = model.generate(features, decode_length=2)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.generate(features, decode_length=2).ids, before.ids)


@pytest.mark.parametrize("kind", ["transformer", "adaptive", "encoder", "stories"])
def test_bfloat16_trains(kind):
    model = examples.make(kind, {**_NO_DROPOUT, "activation_dtype": "bfloat16"})
    features = examples.features(kind)
    assert model.dtype_policy.name == "mixed_bfloat16"

    def loss():
        output = model.forward(features, training=True)
        assert output.logits.dtype == "float32"
        stack = output.encoder
        assert stack.output.dtype == "bfloat16"
        assert stack.ponder_times is None or stack.ponder_times.dtype == "float32"
        return losses.total(model.loss_terms(output, features["targets"], training=True))

    with tf.GradientTape() as tape:
        before = loss()
    assert before.dtype == "float32"
    variables = model.trainable_variables
    gradients = tape.gradient(before, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        assert variable.dtype == "float32"
        assert np.isfinite(tf.convert_to_tensor(gradient)).all(), variable.path
        variable.assign_sub(0.01 * tf.convert_to_tensor(gradient))
    after = loss()
    assert np.isfinite(after)
    assert after < before


def test_bfloat16_is_close_to_float32():
    features = examples.features("transformer")
    expected = examples.logits("transformer")
    got = examples.make("transformer", "activation_dtype=bfloat16")(features)
    np.testing.assert_allclose(got, expected, atol=0.05 * np.abs(expected).max())
    assert np.any(got != expected)


@pytest.mark.parametrize("kind", ALL)
def test_example_of_padding_is_finite(kind):
    model, features = examples.shared(kind), examples.features(kind)
    empty = {name: np.concatenate([value, 0 * value[:1]]) for name, value in features.items()}
    out = model.inspect(empty, training=True)
    assert np.isfinite(out.logits).all()
    assert all(np.isfinite(value) for value in out.losses.values())
    assert np.isfinite(model(empty, training=False)).all()


@pytest.mark.parametrize("kind", ALL)
def test_examples_are_independent(kind):
    """Logits of an example do not depend on the other examples in the batch or on their order."""
    model, features = examples.shared(kind), examples.features(kind)
    for rows in ([1], [2, 0]):
        got = model({name: ids[rows] for name, ids in features.items()}, training=False)
        assert got.shape == examples.logits_shape(kind, batch=len(rows))
        np.testing.assert_allclose(got, examples.logits(kind)[rows], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ALL)
def test_sequences_of_length_one(kind):
    model, features = examples.shared(kind), examples.features(kind)
    short = {name: value if value.ndim == 3 else value[:, :1] for name, value in features.items()}
    logits = model(short, training=False)
    assert np.isfinite(logits).all()
    assert logits.shape == ((B, C) if model.class_labels else (B, 1, V))


# The test skips encoders that predict tokens. For an empty source, such an encoder has no outputs,
# and the mean over no positions is not a number.
_ENCODERS = ("tagger", *examples.NEURAL_GPUS)
_EMPTY = {
    **{kind: (kind, "") for kind in ALL if "stories" not in kind and kind not in _ENCODERS},
    "sru": ("universal", "add_sru=True"),
    "copy": ("adaptive", "act_halted_state=copy"),
    "local": ("transformer", "self_attention_type=local_mask_right,block_length=1"),
    "relative": ("transformer", "self_attention_type=dot_product_relative,max_relative_position=2"),
    "relative_xl": ("transformer", "self_attention_type=dot_product_relative_xl"),
}


_QUICK = ("transformer", "language_model", "adaptive", "copy", "lstm", "relative_xl")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in _QUICK)) for n in _EMPTY]
)
def test_sequences_without_positions(name):
    """Sequences without positions work eagerly and in a graph of unknown lengths."""
    kind, overrides = _EMPTY[name]
    model = examples.make(kind, overrides) if overrides else examples.shared(kind)
    features = examples.features(kind)
    signature = [{name: tf.TensorSpec([None, None], tf.int32) for name in features}]
    graph = tf.function(
        lambda batch: model(batch, training=False), input_signature=signature, autograph=False
    )
    for empty in features:
        if empty == "targets" and model.class_labels or kind.endswith("encoder"):
            continue  # the mean over no positions is not a number
        batch = {**features, empty: features[empty][:, :0]}
        shape = (B, batch["targets"].shape[1], V) if not model.class_labels else (B, C)
        for call in (lambda batch: model(batch, training=False), graph):
            logits = call(batch)
            assert logits.shape == shape
            assert np.isfinite(logits).all()


@pytest.mark.parametrize("kind", examples.SEQUENCE_KINDS)
def test_is_causal(kind):
    model, features = examples.shared(kind), examples.features(kind)
    changed = {**features, "targets": features["targets"].copy()}
    changed["targets"][:, 1:] = [[7, 4, 5], [2, 9, 3], [4, 4, 4]]
    first, second = examples.logits(kind), model(changed, training=False)
    np.testing.assert_allclose(first[:, :2], second[:, :2], atol=1e-5)
    assert np.all(np.abs(first[:, 2:] - second[:, 2:]).max(axis=-1) > 1e-4)


# As in T2T, the LSTM attends to padding (`attention_mask_padding` is an option of ut_keras).
@pytest.mark.parametrize(
    "kind", sorted(set(examples.SEQUENCE_KINDS) - {"lstm_attention", "lstm_bidirectional"})
)
def test_padding_has_no_effect(kind):
    model, features = examples.shared(kind), examples.features(kind)
    wider = {
        name: value if value.ndim == 3 else np.pad(value, [(0, 0), (0, 2)])
        for name, value in features.items()
    }
    first, second = examples.logits(kind), model(wider, training=False)
    np.testing.assert_allclose(first, second[:, : first.shape[1]], atol=1e-4)


@pytest.mark.parametrize("kind", [kind for kind in ALL if "inputs" in examples.features(kind)])
def test_logits_depend_on_source(kind):
    model, features = examples.shared(kind), examples.features(kind)
    changed = {**features, "inputs": np.where(features["inputs"] == 3, 10, features["inputs"])}
    first, second = examples.logits(kind), model(changed, training=False)
    differs = np.abs(first - second).reshape(B, -1).max(axis=-1) > 1e-4
    has_3 = (features["inputs"] == 3).reshape(B, -1).any(axis=-1)
    np.testing.assert_array_equal(differs, has_3)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((kind, "eager") for kind in ALL),
        ("adaptive", "graph"),
        ("encoder", "graph"),
        # The conversion of all functions by AutoGraph takes several seconds.
        pytest.param("adaptive", "autograph", marks=pytest.mark.slow),
        pytest.param("encoder", "autograph", marks=pytest.mark.slow),
        pytest.param("transformer", "autograph", marks=pytest.mark.slow),
    ],
)
def test_inspect_returns_shapes_and_losses(kind, mode):
    model, features = examples.shared(kind), examples.features(kind)
    inspect = model.inspect
    if mode != "eager":
        inspect = tf.function(model.inspect, autograph=mode == "autograph")
    out = inspect(features)
    assert out._fields == ("logits", "losses", "encoder", "decoder")
    np.testing.assert_allclose(out.logits, examples.logits(kind), atol=1e-4)
    adaptive = getattr(model.hparams, "recurrence_type", "") == "act"
    assert set(out.losses) == {"training", "act_loss" if adaptive else "extra"}
    assert (out.encoder is None) == kind.endswith("language_model")
    assert (out.decoder is None) == (kind in examples.ENCODERS)
    depth = 2 if model.name.startswith("transformer") else 3
    for name, stack, feature in (
        ("encoder", out.encoder, features.get("inputs")),
        ("decoder", out.decoder, features["targets"]),
    ):
        if stack is None:
            continue
        length = feature.shape[1]
        assert stack.output.shape == (B, length, 16 * getattr(model, "directions", 1))
        steps = depth
        if kind.startswith("lstm") or kind in examples.NEURAL_GPUS:
            assert stack.attention_weights is None  # these models have no self-attention
            continue
        if adaptive:
            assert stack.ponder_times.shape == stack.remainders.shape == (B, length)
            steps = int(np.max(stack.ponder_times))
        else:
            assert stack.ponder_times is None and stack.remainders is None
        assert stack.attention_weights.shape == (steps, B, 2, length, length)
        np.testing.assert_allclose(np.sum(stack.attention_weights, -1), 1.0, atol=1e-5)
        if name == "decoder" and out.encoder is not None:
            source = features["inputs"].shape[1]
            assert stack.memory_attention_weights.shape == (steps, B, 2, length, source)
        else:
            assert stack.memory_attention_weights is None


def test_attention_weights_respect_masks():
    features = examples.features("adaptive")
    out = examples.shared("adaptive").inspect(features)
    real = (features["inputs"] != 0)[None, :, None, None]
    for weights in (out.encoder.attention_weights, out.decoder.memory_attention_weights):
        assert np.all(np.where(real, 0, weights) == 0)
        assert np.all(np.where(real, weights, 1) > 0)
    decoder = out.decoder.attention_weights.numpy()
    assert np.all(np.triu(decoder, 1) == 0)
    assert np.all(decoder[..., np.tril_indices(4)[0], np.tril_indices(4)[1]] > 0)


def test_label_smoothing_only_in_training():
    model = examples.make("transformer", {**_NO_DROPOUT, "label_smoothing": 0.2})
    features = examples.features("transformer")
    for training, smoothing in ((True, 0.2), (False, 0.0)):
        out = model.inspect(features, training=training)
        weights = np.float32(features["targets"] != 0)
        expected = losses.cross_entropy(
            out.logits, tf.constant(features["targets"]), smoothing, weights
        )
        np.testing.assert_allclose(out.losses["training"], expected.value(), rtol=1e-6)
        assert out.losses["extra"] == 0


@pytest.mark.parametrize("rate", sorted(_NO_DROPOUT))
@pytest.mark.parametrize("kind", ["transformer", "universal"])
def test_dropout_only_in_training(kind, rate):
    model, features = examples.make(kind, {**_NO_DROPOUT, rate: 0.5}), examples.features(kind)
    plain = model(features)
    first, second = (model(features, training=True) for _ in range(2))
    assert np.abs(first - plain).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3


@pytest.mark.parametrize("kind", ["transformer", "universal"])
def test_embedding_dropout_rate(kind):
    for between, embedding in ((0.1, 0.0), (0.0, 0.3)):
        rates = {**_NO_DROPOUT, "layer_prepostprocess_dropout": between}
        plain, model = (
            examples.make(kind, {**rates, "embedding_dropout": rate}) for rate in (None, embedding)
        )
        assert plain.source_dropout.rate == plain.target_dropout.rate == between
        assert model.source_dropout.rate == model.target_dropout.rate == embedding
        assert model.encoder.get_config() == plain.encoder.get_config()


@pytest.mark.parametrize(
    ("overrides", "sizes", "tables"),
    [
        ("shared_embedding_and_softmax_weights=True", (V, V), 1),
        ("shared_embedding_and_softmax_weights=False", (V, V), 3),
        ("shared_embedding_and_softmax_weights=False,shared_embedding=True", (V, V), 2),
        # As in T2T, vocabularies of different sizes do not share a table.
        ("shared_embedding_and_softmax_weights=True", (V, V + 1), 3),
    ],
)
def test_embedding_tables_are_shared(overrides, sizes, tables):
    hp = hparams.get("transformer_tiny", examples.SIZE).override(overrides)
    model = models.get(
        "transformer", hp, vocab_sizes=dict(zip(("inputs", "targets"), sizes, strict=True))
    )
    found = {id(v): v for v in model.trainable_variables if v.path.endswith("weights")}
    assert len(found) == tables
    logits = model(examples.features("transformer"))
    assert logits.shape == (B, 4, sizes[1])


def test_multiply_embedding_mode_none():
    overrides = "shared_embedding_and_softmax_weights=False,hidden_size=16,multiply_embedding_mode="
    model, plain = (examples.make("universal", overrides + mode) for mode in ("sqrt_depth", "none"))
    plain.set_weights(model.get_weights())
    for table in (plain.source_embedding, plain.target_embedding):
        table.embedding.assign(table.embedding * 4.0)
    features = examples.features("universal")
    np.testing.assert_allclose(plain(features), model(features), atol=1e-5)


@pytest.mark.parametrize(("encoder", "decoder"), [(0, 0), (1, 3)])
def test_number_of_layers(encoder, decoder):
    overrides = f"num_encoder_layers={encoder},num_decoder_layers={decoder}"
    out = examples.make("transformer", overrides).inspect(examples.features("transformer"))
    assert out.encoder.attention_weights.shape[0] == (encoder or 2)
    assert out.decoder.attention_weights.shape[0] == (decoder or 2)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("missing", ["inputs", "targets"])
def test_models_reject_missing_feature(kind, missing):
    model, features = examples.shared(kind), examples.features(kind)
    if missing not in features:
        pytest.skip("a language model needs no inputs")
    del features[missing]
    if model.decoder is None and missing == "targets":  # an encoder does not use targets
        assert model(features).shape == examples.logits_shape(kind)
        return
    with pytest.raises(ValueError, match="features must .*Received: "):
        model(features)


@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_models_reject_ids_of_another_rank(name):
    features = examples.features("transformer")
    features[name] = features[name][:, :, None, None]  # T2T uses this rank
    with pytest.raises(ValueError, match=rf"{name} must be \[batch, length\]. Received: \(3, "):
        examples.shared("transformer")(features)


def test_error_for_a_dataset_of_single_examples_names_batch():
    model, features = examples.make("transformer"), examples.features("transformer")
    examples_of_data = tf.data.Dataset.from_tensor_slices((features, features["targets"]))
    with pytest.raises(ValueError, match=r"must be \[batch, length\]. .*dataset\.batch\("):
        model.evaluate(examples_of_data, verbose=0)


def test_models_reject_stories_of_another_shape():
    model, features = examples.shared("stories"), examples.features("stories")
    for wrong in (examples.INPUTS, examples.STORIES[..., :2]):
        with pytest.raises(ValueError, match=r"inputs must be \[batch, sentences, 3\]"):
            model({**features, "inputs": wrong})


@pytest.mark.parametrize(
    "kind", ["classifier", "encoder", "plain_encoder", "tagger", "neural_gpu_classifier"]
)
def test_generate_requires_decoder_of_tokens(kind):
    with pytest.raises(ValueError, match="^generate .* Received: a model w"):
        examples.shared(kind).generate({"inputs": examples.INPUTS})


def test_models_reject_unsupported_field():
    hp = hparams.get("transformer_tiny", "norm_type=batch")
    with pytest.raises(hparam_schema.HParamError, match="norm_type='batch'"):
        models.get("transformer", hp, vocab_sizes={"inputs": V, "targets": V})


def test_models_require_targets():
    with pytest.raises(ValueError, match="targets. Received: inputs"):
        models.get("transformer", hparams.get("transformer_tiny"), vocab_sizes={"inputs": V})


def test_call_rejects_training_with_losses_of_steps():
    model, features = (
        examples.make("adaptive", "act_type=ponder_net"),
        examples.features("adaptive"),
    )
    model(features, training=False)
    with pytest.raises(ValueError, match="training=True is not supported by a model whose loss"):
        model(features, training=True)


def test_autograph_does_not_convert_the_layers():
    """A converted function is in a file that AutoGraph generates."""
    model = examples.make("transformer")
    files = []

    before = model.encode

    def encode(*arguments):
        files.append(sys._getframe(1).f_code.co_filename)
        return before(*arguments)

    model.encode = encode
    features = {name: tf.constant(ids) for name, ids in examples.features("transformer").items()}
    tf.function(lambda features: model.forward(features).logits).get_concrete_function(features)
    assert [os.path.basename(path) for path in files] == ["seq2seq.py"]
