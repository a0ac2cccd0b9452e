"""Each argument of `compile` has an effect or raises an error."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.metrics import keras_metrics, losses
from ut_keras.models import keras_model

QUIET = "layer_prepostprocess_dropout=0.0,attention_dropout=0.0,relu_dropout=0.0"


def _loss(model, **arguments):
    model.compile(run_eagerly=True, **arguments)
    features = examples.features("adaptive")
    return model.test_on_batch(features, features["targets"], return_dict=True)["loss"]


def test_compile_loss_weights():
    """`loss_weights` scales the loss of the prediction, but not the ponder cost."""
    model = examples.make("adaptive", QUIET)
    features = examples.features("adaptive")
    model(features)
    ponder = float(tf.add_n(model.losses))
    assert ponder > 0.01
    plain = _loss(model)
    for weights in (0.5, [0.5], {"output": 0.5}):
        got = _loss(model, loss_weights=weights)
        assert got == pytest.approx(0.5 * (plain - ponder) + ponder, rel=1e-5)
    for wrong in ([1.0, 2.0], []):
        with pytest.raises(ValueError, match="loss_weights must be one number. Received"):
            model.compile(loss_weights=wrong)


def test_losses_with_floatx_float64():
    """Keras' losses and the loss of a user's train step include the ponder cost."""
    model = examples.make("adaptive", QUIET)
    features = examples.features("adaptive")
    loss = keras.losses.SparseCategoricalCrossentropy
    found, earlier = [], keras.config.floatx()
    for floatx in ("float32", "float64"):
        keras.config.set_floatx(floatx)
        try:
            with_keras = _loss(model, loss=loss(from_logits=True, ignore_class=0))
            model.compile()
            logits = model(features)
            own_step = model.compute_loss(features, features["targets"], logits, training=False)
            found.append((with_keras, float(own_step)))
        finally:
            keras.config.set_floatx(earlier)
    assert found[0][0] == pytest.approx(found[0][1], rel=1e-5)
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_compile_calls_user_loss():
    """The model also calls a loss whose class is a subclass of the default loss."""

    @keras.saving.register_keras_serializable(package="test")
    class Twice(losses.PaddedCrossEntropy):
        def __call__(self, y_true, y_pred, sample_weight=None):
            return 2 * super().__call__(y_true, y_pred, sample_weight)

    model = examples.make("universal", QUIET)
    plain = _loss(model, loss=losses.PaddedCrossEntropy())
    assert _loss(model, loss=Twice()) == pytest.approx(2 * plain, rel=1e-5)


@pytest.mark.parametrize("loss", [None, keras.losses.SparseCategoricalCrossentropy(True)])
@pytest.mark.parametrize(
    "make_optimizer",
    [
        lambda: keras.optimizers.Adam(0.1, epsilon=1e-12),
        lambda: keras.optimizers.SGD(1.0, global_clipnorm=0.1),
    ],
    ids=["adam", "sgd_clipped"],
)
def test_keras_optimizer_gets_sum_of_gradients_of_equal_tokens(make_optimizer, loss):
    """Without the sum, Adam squares the gradient of each occurrence, and SGD clips each of them."""
    hparams = f"{QUIET},shared_embedding_and_softmax_weights=False"
    model = examples.make("transformer", hparams)
    features = examples.features("transformer")
    features = {name: np.full_like(ids, 3) for name, ids in features.items()}
    optimizer = make_optimizer()
    arguments = {} if loss is None else {"loss": loss}
    model.compile(optimizer, run_eagerly=True, **arguments)
    model(features)
    before = [variable.numpy() for variable in model.trainable_variables]
    model.train_on_batch(features, features["targets"])
    changes = [
        variable.numpy() - old
        for variable, old in zip(model.trainable_variables, before, strict=True)
    ]
    if isinstance(optimizer, keras.optimizers.SGD):
        assert np.sqrt(sum(np.sum(change**2) for change in changes)) == pytest.approx(0.1, rel=1e-3)
    else:
        assert max(np.abs(change).max() for change in changes) == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "hparams"),
    [
        ("transformer", "pos=emb"),
        ("transformer", "self_attention_type=dot_product_relative,max_relative_position=2"),
        ("universal", "pos=coupled,add_position_timing_signal=False"),
        ("stories", ""),
    ],
)
def test_no_gradient_has_a_row_per_id(kind, hparams):
    """The user's own training loop can pass the gradients to any optimizer."""
    unshared = "shared_embedding_and_softmax_weights=False"
    model = examples.make(kind, f"{unshared},{hparams}".strip(","))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(examples.features(kind), training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert not [gradient for gradient in gradients if isinstance(gradient, tf.IndexedSlices)]


def test_compile_arguments_have_order_of_keras():
    ours = [
        name
        for name, each in inspect.signature(keras_model.KerasModel.compile).parameters.items()
        if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    assert ours == list(inspect.signature(keras.Model.compile).parameters)[: len(ours)]


def test_compile_jit_compile_is_auto_by_default():
    model = examples.make("adaptive")
    model.compile()
    assert model.get_compile_config()["jit_compile"] == "auto" and not model.jit_compile
    for value in (True, False):
        model.compile(jit_compile=value)
        assert model.get_compile_config()["jit_compile"] is value is model.jit_compile
    with pytest.raises(ValueError, match="jit_compile must be True, False or 'auto'.*'atuo'"):
        model.compile(jit_compile="atuo")


def test_compile_logs_a_loss_that_reads_logits_as_probabilities(caplog):
    model = examples.make("transformer", QUIET)
    wrong = keras.losses.SparseCategoricalCrossentropy()
    for loss in (wrong, "sparse_categorical_crossentropy", keras.losses.categorical_crossentropy):
        caplog.clear()
        model.compile("sgd", loss)
        [line] = caplog.messages
        assert "from_logits=True, ignore_class=0)" in line and "which reads the logits as" in line
    caplog.clear()
    examples.make("classifier", QUIET).compile("sgd", wrong)
    assert "from_logits=True)." in caplog.messages[-1]  # class 0 is not padding
    caplog.clear()
    right = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    for loss in (None, right):
        model.compile("sgd", loss)
    model.compile("sgd", lambda targets, logits: logits)
    assert not caplog.messages


@pytest.mark.parametrize(
    "loss", ["mse", keras.losses.mean_absolute_error, [keras.losses.MeanSquaredError()]]
)
def test_compile_rejects_a_loss_for_numbers(loss):
    with pytest.raises(ValueError, match="loss must be a cross-entropy.*Received: '[mM]"):
        examples.make("transformer", QUIET).compile("sgd", loss)


def test_compile_raises_the_error_of_keras_for_an_unknown_loss():
    with pytest.raises(ValueError, match="Could not interpret loss identifier: nosuchloss"):
        examples.make("transformer", QUIET).compile("sgd", "nosuchloss")


def test_compile_takes_a_loss_without_module():
    """A function that `exec` defines in an empty namespace has no module."""
    names = {}
    exec("def mine(y_true, y_pred): return y_pred[..., 0] ** 2", names)
    assert names["mine"].__module__ is None
    model = examples.make("transformer", QUIET)
    model.compile("sgd", names["mine"])
    assert model.loss is names["mine"]


def test_compile_logs_a_loss_and_metrics_that_count_padding(caplog):
    model, classifier = examples.make("transformer", QUIET), examples.make("classifier", QUIET)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for arguments, name in (
        ({"loss": loss}, "SparseCategoricalCrossentropy"),
        ({"metrics": ["accuracy"]}, "accuracy"),
        ({"metrics": {"targets": "sparse_categorical_accuracy"}}, "sparse_categorical_accuracy"),
        ({"metrics": [keras.metrics.SparseCategoricalAccuracy()]}, "SparseCategoricalAccuracy"),
        ({"metrics": [keras.metrics.sparse_categorical_accuracy]}, "sparse_categorical_accuracy"),
        ({"weighted_metrics": ["accuracy"]}, "accuracy"),
    ):
        model.compile("sgd", **arguments)
        [line] = caplog.messages
        assert f"Received: {name}" in line and "counts padding as targets" in line
        caplog.clear()
        classifier.compile("sgd", **arguments)  # classes have no padding
    model.compile("sgd")
    metrics = keras_metrics.default_metrics(class_labels=False)
    model.compile("sgd", metrics=[*metrics, keras.metrics.Mean(), lambda y, logits: logits])
    assert not caplog.messages


ONE_HOT_METRICS = ("mse", keras.metrics.CategoricalAccuracy(), keras.metrics.F1Score())


@pytest.mark.parametrize("metric", [*ONE_HOT_METRICS, keras.metrics.categorical_accuracy])
def test_compile_logs_metrics_of_one_hot_targets(metric, caplog):
    """For targets [B, 1], these metrics broadcast the ids, and the results are wrong."""
    model = examples.make("classifier", QUIET)
    for arguments in ({"metrics": [metric]}, {"weighted_metrics": [metric]}):
        model.compile("sgd", **arguments)
        [line] = caplog.messages
        assert "metrics must read ids" in line and "which reads one-hot targets" in line
        caplog.clear()
    model.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True), metrics=[metric])
    model.compile("sgd", metrics=["accuracy", keras.metrics.SparseCategoricalAccuracy()])
    assert not caplog.messages


@pytest.mark.parametrize("loss", ["mse", keras.losses.Huber(), keras.losses.cosine_similarity])
def test_loss_of_one_hot_targets_rejects_ids(loss):
    """Keras would broadcast the class of an example to all logits."""
    model = examples.make("classifier", QUIET)
    features = examples.features("classifier")
    classes = features["targets"]
    one_hot = keras.utils.to_categorical(classes, examples.C)
    model.compile("sgd", loss, metrics=[], run_eagerly=True)
    for method in (model.train_on_batch, model.test_on_batch):
        for ids, shape in ((classes, r"\(3, 1\)"), (classes[:, 0], r"\(3,\)")):
            with pytest.raises(ValueError, match=f"loss must read ids.*targets of shape {shape}"):
                method(features, ids)
        assert np.isfinite(method(features, one_hot))
    sparse = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", sparse, metrics=[], run_eagerly=True)
    assert np.isfinite(model.test_on_batch(features, classes))


def test_loss_may_be_a_dict_with_the_name_of_the_output():
    model, features = examples.make("transformer", QUIET), examples.features("transformer")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    results = []
    for given in (loss, {"targets": loss}):
        model.compile("sgd", given, metrics=[], run_eagerly=True)
        results.append(model.test_on_batch(features, features["targets"]))
    assert results[0] == results[1]
    with pytest.raises(ValueError, match=r"the key 'targets'.*Received: .*\['output_1'\]"):
        model.compile("sgd", {"output_1": loss})


def test_compile_rejects_dtypes_that_round_ids():
    """In bfloat16, Keras' losses and metrics would read the id 301 as 300."""
    model = _model_of_ids(2050)
    cross_entropy = keras.losses.SparseCategoricalCrossentropy
    accuracy = keras.metrics.SparseCategoricalAccuracy
    rejected = r"must have the dtype float32.*Received: '?\w+'? with b?float16"
    for dtype in ("bfloat16", "float16"):
        with pytest.raises(ValueError, match=rejected):
            model.compile(loss=cross_entropy(from_logits=True, dtype=dtype))
        with pytest.raises(ValueError, match=rejected):
            model.compile(metrics=[accuracy(dtype=dtype)])
    earlier = keras.config.floatx()
    keras.config.set_floatx("bfloat16")
    try:
        for arguments in ({"loss": cross_entropy(from_logits=True)}, {"metrics": ["accuracy"]}):
            with pytest.raises(ValueError, match=rejected):
                model.compile(**arguments)
        model.compile()
        model.compile(loss=cross_entropy(from_logits=True, dtype="float32"))
    finally:
        keras.config.set_floatx(earlier)


def _model_of_ids(number):
    hp = hparams.get("transformer_tiny", "num_hidden_layers=1,hidden_size=8,num_heads=2")
    return models.get("transformer", hp, vocab_sizes={"inputs": 9, "targets": number})


@pytest.mark.parametrize(("dtype", "number"), [("bfloat16", 257), ("float16", 2049)])
def test_compile_accepts_losses_whose_dtype_contains_all_ids(dtype, number):
    """The largest id is a power of 2. The next int is not in the dtype."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype=dtype)
    largest = np.int32(number - 1)
    assert int(tf.cast(tf.cast(largest, dtype), tf.int32)) == number - 1
    assert int(tf.cast(tf.cast(largest + 1, dtype), tf.int32)) == number - 1
    _model_of_ids(number).compile("sgd", cross_entropy)
    with pytest.raises(ValueError, match=f"must have the dtype float32.* with {dtype}"):
        _model_of_ids(number + 1).compile("sgd", cross_entropy)


def test_compile_accepts_16_bit_losses_of_one_hot_targets():
    """Such a loss reads no ids."""
    hp = hparams.get("universal_transformer_tiny", "num_rec_steps=1,hidden_size=8,num_heads=2")
    specs = {"inputs": FeatureSpec(9), "targets": FeatureSpec(3000, "class_label")}
    model = models.from_specs("universal_transformer_encoder", hp, specs)
    model.compile("sgd", keras.losses.CategoricalCrossentropy(from_logits=True, dtype="float16"))


@pytest.mark.parametrize("loss", [None, "own"])
def test_metrics_of_keras_read_labels_and_weights_of_both_shapes(loss):
    """TensorFlow traces one step for the shapes [B] and [B, 1]. Its tensors have no known rank."""
    own = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = examples.make("plain_encoder", QUIET)
    model.compile("sgd", loss and own, metrics=["accuracy"], weighted_metrics=["accuracy"])
    features, weights = {"inputs": examples.INPUTS}, np.float32([1, 0, 3])
    found = [
        model.test_on_batch(features, examples.CLASSES.reshape(shape), weights.reshape(shape))
        for shape in ([3], [3, 1], [3])
    ]
    assert found[1] == found[2] == pytest.approx(found[0], rel=1e-5)


def test_compile_rejects_a_metric_of_16_bits_with_the_name_of_the_loss(monkeypatch):
    """With few ids, a loss of 16 bits is exact, but a metric still rounds its counts."""
    model = examples.make("universal", QUIET)
    monkeypatch.setattr(keras.config, "floatx", lambda: "bfloat16")
    name = "sparse_categorical_crossentropy"
    with pytest.raises(ValueError, match=f"Received: '{name}' with bfloat16"):
        model.compile(loss=name, metrics=[name])
