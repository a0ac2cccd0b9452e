"""`compile` and `fit` work as in Keras and give the numbers of the trainer."""

import os
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.models import examples
from ut_keras import hparams, models, optimizers, problems
from ut_keras.metrics import losses
from ut_keras.models import universal_transformer, xla_update
from ut_keras.ops import devices, private_api
from ut_keras.training import train_step

SIZES = {"inputs": 12, "targets": 12}
T2T_DATA_DIR = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "data_dir")
OVERRIDES = (
    "hidden_size=16,filter_size=32,num_heads=2,act_max_steps=3,num_rec_steps=2,"
    "learning_rate_warmup_steps=3,learning_rate_constant=0.5,clip_grad_norm=1.0"
)
# XLA samples other random numbers, so tests that compare with XLA use no dropout.
NO_DROPOUT = ",layer_prepostprocess_dropout=0.0,attention_dropout=0.0,relu_dropout=0.0"


ENCODER = "universal_transformer_encoder"
BOTH = "universal_transformer"  # TensorFlow traces the encoder alone in half the time.


def _make(hparams_set="adaptive_universal_transformer_tiny", overrides="", name=ENCODER):
    seeds.set_seed(3)
    hp = hparams.get(hparams_set, OVERRIDES + overrides)
    return models.get(name, hp, vocab_sizes=SIZES)


def _batches(count=6):
    rng = np.random.RandomState(0)
    for _ in range(count):
        ids = rng.randint(2, 12, size=(4, 7)).astype(np.int32)
        ids[0, 4:] = 0
        yield {"inputs": ids, "targets": ids[:, ::-1].copy()}, ids[:, ::-1].copy()


@pytest.fixture
def dataset():
    batches = list(_batches())
    stacked = tf.nest.map_structure(lambda *parts: np.stack(parts), *batches)
    return tf.data.Dataset.from_tensor_slices(stacked)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Your input ran out of data"
)  # Keras warns for datasets of unknown size
def test_fit_makes_no_update_at_end_of_data(dataset):
    """For datasets of unknown size, Keras calls the update once more at the end of the data."""

    def batches():
        yield from _batches()
        time.sleep(0.3)  # an update that does not wait for data would run now

    unknown = tf.data.Dataset.from_generator(batches, output_signature=dataset.element_spec)
    models_fitted = []
    for data in (dataset, unknown):
        model = _make("universal_transformer_tiny")
        model.compile()
        model.fit(data, epochs=2, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations.numpy()) == 12
        models_fitted.append(model)
    for a, b in zip(*(model.variables for model in models_fitted), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.path)


def test_fit_shows_a_loss_of_many_terms():
    """Encoder and decoder each have a ponder cost, a fixed-point loss and an auxiliary loss."""
    parts = ",ffn_layer='sigma_moe(num_experts=4,k=2)',recurrence_fixed_point_loss_weight=0.5"
    model = _make(overrides=parts + NO_DROPOUT, name=BOTH)
    features, targets = next(_batches())
    expected = sum(map(float, model.inspect(features, training=True).losses.values()))
    model.compile(run_eagerly=True)
    assert model.train_on_batch(features, targets)[0] == pytest.approx(expected, rel=1e-5)


def test_batch_methods_compile_the_model():
    """`ut_keras.load` returns a model that is not compiled."""
    features, targets = next(_batches())
    losses_of = {}
    for method in ("test_on_batch", "train_on_batch"):
        for is_compiled in (False, True):
            model = _make("universal_transformer_tiny", NO_DROPOUT)
            if is_compiled:
                model.compile(metrics=[])
            found = getattr(model, method)(features, targets, return_dict=True)
            losses_of[method, is_compiled] = found["loss"]
            assert model.compiled
        assert losses_of[method, False] == pytest.approx(losses_of[method, True], rel=1e-6)


@pytest.mark.parametrize("texts", ["a text", ["a text"], np.array(["a text"])])
def test_fit_rejects_texts(texts):
    ids = np.ones([1, 2], np.int32)
    for name, x, y in (("x", texts, ids), ("x", {"inputs": texts}, ids), ("y", ids, texts)):
        with pytest.raises(ValueError, match=f"{name} must contain ids.*'a text'.*run.dataset"):
            _make().fit(x, y)


def test_fit_traces_update_once(dataset, monkeypatch):
    model, traced = _make(), []
    step = model.train_step
    monkeypatch.setattr(model, "train_step", lambda data: traced.append(data) or step(data))
    model.compile()
    model.fit(dataset, shuffle=False, verbose=0)
    assert len(traced) == 1


@pytest.mark.slow  # tracing the update twice is slow
def test_fit_trains_layer_built_by_first_batch(dataset):
    class Shifted(universal_transformer.UniversalTransformerEncoder):
        def forward(self, features, training=None):
            out = super().forward(features, training)
            return out._replace(logits=out.logits + self.shift(tf.ones([1, 1])))

    made = _make()
    model = Shifted.from_hparams(made.hparams, made.specs)
    model.shift = keras.layers.Dense(12, kernel_initializer="zeros")
    model.compile()
    model.fit(dataset, shuffle=False, verbose=0)
    assert np.all(model.shift.kernel != 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hparams_set", ["universal_transformer_tiny", "adaptive_universal_transformer_tiny"]
)
def test_fit_matches_trainer(hparams_set, dataset):
    """With equal seeds and batches, `fit` and the trainer give equal losses and weights.

    This also holds with dropout.
    """
    fitted = _make(hparams_set, name=BOTH)
    fitted.compile()
    history = fitted.fit(dataset, epochs=1, shuffle=False, verbose=0)

    trained = _make(hparams_set, name=BOTH)
    optimizer = optimizers.get(trained.hparams)
    optimizer.build(trained.trainable_variables)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    step = train_step.make_train_step(trained, optimizer, strategy, dataset.element_spec)
    values = [float(step(batch).loss) for batch in dataset]

    np.testing.assert_allclose(history.history["loss"][0], np.mean(values), rtol=1e-5)
    for ours, theirs in zip(fitted.trainable_variables, trained.trainable_variables, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-5, err_msg=ours.path)


@pytest.mark.slow
def test_fit_of_problem_dataset_ends_without_warning():
    """The example of the README gives no warning and makes no update at the end of the data."""
    hp = hparams.get("universal_transformer_tiny", OVERRIDES + ",batch_size=2048,max_length=41")
    problem = problems.get("algorithmic_reverse_binary40")
    model = models.get("universal_transformer", hp, problem, T2T_DATA_DIR)
    model.compile()
    train = problem.dataset("train", T2T_DATA_DIR, hp)
    model.fit(train, epochs=2, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == 2 * int(train.cardinality())
    model.evaluate(problem.dataset("dev", T2T_DATA_DIR, hp), verbose=0)


class _NumpyModel(universal_transformer.UniversalTransformerEncoder):
    """A model with an operation that XLA does not compile."""

    def forward(self, features, training=None):
        out = super().forward(features, training)
        zeros = tf.numpy_function(lambda x: 0 * x, [out.logits], tf.float32)
        zeros.set_shape(out.logits.shape)
        return out._replace(logits=out.logits + tf.stop_gradient(zeros))


@pytest.mark.slow  # tracing the update three times is slow
def test_fit_falls_back_to_form_without_xla(dataset, monkeypatch, caplog):
    """`fit` skips no batch, and trains the model as with `jit_compile=False`."""
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    fitted, messages = [], []
    for jit_compile in (False, "auto"):
        made = _make("universal_transformer_tiny")
        model = _NumpyModel.from_hparams(made.hparams, made.specs)
        model.set_weights(made.get_weights())
        model.compile(jit_compile=jit_compile)
        caplog.clear()
        model.fit(dataset, epochs=2, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations) == 12
        messages.append([message for message in caplog.messages if "XLA" in message])
        fitted.append(model)
    assert not messages[0]
    (message,) = messages[1]
    assert "jit_compile='auto'" in message and "PyFunc is not supported" in message
    assert not fitted[1].jit_compile
    for a, b in zip(*(model.trainable_variables for model in fitted), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=a.path)


def _traces(model, monkeypatch):
    """Return a list that gets an element for each trace of the update: whether XLA compiles it."""
    traces, step = [], model.train_step

    def train_step(data):
        traces.append(private_api.is_compiled_by_xla())
        return step(data)

    monkeypatch.setattr(model, "train_step", train_step)
    return traces


@pytest.mark.slow  # XLA takes long to compile
def test_fit_compiles_only_batches_of_one_length_on_gpu(dataset, monkeypatch):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    model = _make("universal_transformer_tiny")
    seen = _traces(model, monkeypatch)
    model.compile()
    model.fit(dataset, shuffle=False, verbose=0, validation_data=dataset.take(1))
    assert seen == [True]
    model.fit(dataset, shuffle=False, verbose=0)
    assert seen == [True]  # `fit` uses the compiled update again
    spec = tf.TensorSpec([4, None], tf.int32)
    open_lengths = tf.data.Dataset.from_generator(
        _batches, output_signature=({"inputs": spec, "targets": spec}, spec)
    )
    model.fit(open_lengths.repeat(), steps_per_epoch=2, shuffle=False, verbose=0)
    assert seen == [True, False]


@pytest.mark.slow  # XLA takes long to compile
def test_fit_compiles_only_the_update_on_gpu(dataset, monkeypatch):
    """A callback of `fit` may predict batches of any shapes, so XLA does not compile `predict`."""
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    model, seen = _make("universal_transformer_tiny"), {}

    def observe(name):
        step = getattr(model, name)

        def observed(data):
            seen[name] = private_api.is_compiled_by_xla()
            return step(data)

        monkeypatch.setattr(model, name, observed)

    for name in ("train_step", "test_step", "predict_step"):
        observe(name)
    features, _ = next(_batches())
    predict = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: model.predict(features, verbose=0)
    )
    model.compile()
    model.fit(
        dataset, shuffle=False, verbose=0, validation_data=dataset.take(1), callbacks=[predict]
    )
    assert seen == {"train_step": True, "test_step": False, "predict_step": False}


@pytest.mark.slow  # XLA takes long to compile
def test_train_on_batch_after_fit_on_gpu_uses_xla(dataset, monkeypatch):
    """A train function that `train_on_batch` makes between two calls of `fit` also uses XLA."""
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    model = _make("universal_transformer_tiny")
    seen = _traces(model, monkeypatch)
    model.compile("sgd")
    model.fit(dataset, shuffle=False, verbose=0)
    model.optimizer.learning_rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    model.train_on_batch(*next(_batches()))  # a new schedule requires a new train function
    model.fit(dataset, shuffle=False, verbose=0)
    assert seen[0] and seen[-1]


@pytest.mark.parametrize("invalid", ["callback", "class_weight"])
def test_fit_with_error_removes_choice_of_xla(invalid, dataset, monkeypatch):
    """After an error, `train_on_batch` does not use XLA because of a `fit` that did not train."""
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    model, seen = _make("universal_transformer_tiny"), []

    class Failing(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.append(xla_update.of_update(model))
            raise ValueError("the callback failed")

    model.compile()
    with pytest.raises(ValueError, match="failed" if invalid == "callback" else "class_weight"):
        model.fit(
            dataset,
            shuffle=False,
            verbose=0,
            callbacks=[Failing()],
            class_weight={3: -1.0} if invalid == "class_weight" else None,
        )
    assert seen == ([xla_update.Compilation.ONE_PROGRAM] if invalid == "callback" else [])
    assert xla_update.of_update(model) is xla_update.Compilation.WITHOUT_XLA
    assert model.jit_is_auto and not model.jit_compile


@pytest.mark.slow  # XLA takes long to compile
def test_xla_computes_all_positions_with_copied_states():
    """With XLA, the model also computes halted positions, because XLA needs static shapes."""
    model = examples.make("encoder", "act_halted_state=copy")
    features = examples.features("encoder")
    want = model.predict(features, batch_size=2, verbose=0)
    model.compile(jit_compile=True)
    found = model.predict(features, batch_size=2, verbose=0)
    np.testing.assert_allclose(found, want, atol=1e-5)


@pytest.mark.slow  # XLA takes long to compile
def test_fit_jit_compile_matches(dataset):
    """Training with and without XLA gives equal results.

    With XLA, the first step can create the variables of the optimizer and of the metrics.
    """
    results = []
    for jit_compile in (False, True):
        model = _make("universal_transformer_tiny", NO_DROPOUT)
        model.compile(
            optimizer=keras.optimizers.SGD(0.1), metrics=["accuracy"], jit_compile=jit_compile
        )
        history = model.fit(dataset, epochs=2, shuffle=False, verbose=0)
        assert int(model.optimizer.iterations) == 12
        results.append([*history.history["loss"], *history.history["accuracy"]])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4)


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2),
        keras.callbacks.ReduceLROnPlateau("accuracy", factor=0.5, patience=1, min_delta=100.0),
    ],
)
def test_fit_callbacks_that_set_the_learning_rate(callback, dataset):
    """Callbacks cannot change a learning rate schedule. `fit` raises an error before training."""
    model = _make("universal_transformer_tiny")
    model.compile(run_eagerly=True)
    with pytest.raises(TypeError, match=r"optimizers.get\(model.hparams, learning_rate=0.001\)"):
        model.fit(dataset, callbacks=[callback], shuffle=False, verbose=0)
    with pytest.raises(TypeError, match="optimizers.get"):
        model.fit(dataset, None, None, 1, 0, keras.callbacks.CallbackList([callback]))
    assert int(model.optimizer.iterations) == 0
    optimizer = optimizers.get(model.hparams, learning_rate=0.5)
    assert (optimizer.beta_2, optimizer.clip_grad_norm) == (model.hparams.optimizer_adam_beta2, 1.0)
    model.compile(optimizer=optimizer, run_eagerly=True)
    model.fit(dataset.take(1), epochs=3, callbacks=[callback], shuffle=False, verbose=0)
    assert float(optimizer.learning_rate) <= 0.125


def test_fit_callbacks_set_the_rates_of_a_multi_optimizer(dataset):
    """A `MultiOptimizer` has no learning rate, but callbacks can set the rates of its parts."""
    model = _make("universal_transformer_tiny")
    optimizer = keras.optimizers.SGD(0.5)
    choose = keras.optimizers.OptimizerMap(optimizer)
    model.compile(keras.optimizers.MultiOptimizer(choose), metrics=[], run_eagerly=True)
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    arguments = {"callbacks": [halve], "shuffle": False, "verbose": 0}
    model.fit(dataset.take(1), epochs=2, **arguments)
    assert float(optimizer.learning_rate) == 0.125
    optimizer.learning_rate = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    with pytest.raises(TypeError, match="optimizers.get"):
        model.fit(dataset.take(1), **arguments)
    assert int(optimizer.iterations) == 2


def test_fit_uses_schedule_assigned_after_fit(dataset):
    """Keras itself ignores the schedule, because the train function contains the old rate."""
    model = _make("universal_transformer_tiny")
    optimizer = keras.optimizers.SGD(0.1)
    choose = keras.optimizers.OptimizerMap(optimizer)
    model.compile(keras.optimizers.MultiOptimizer(choose), metrics=[])
    model.fit(dataset.take(1), shuffle=False, verbose=0)
    traced = model.train_function
    optimizer.learning_rate = 0.2  # an assignment of a number needs no other function
    model.fit(dataset.take(1), shuffle=False, verbose=0)
    assert model.train_function is traced
    before = model.get_weights()
    optimizer.learning_rate = keras.optimizers.schedules.ExponentialDecay(0.0, 1, 1.0)
    model.fit(dataset.take(1), shuffle=False, verbose=0)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)


def test_fit_after_a_resumed_fit_trains_all_epochs(dataset, tmp_path):
    """Keras itself would skip the epochs before the one at which `BackupAndRestore` resumed."""

    class Interrupt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    model = _make("universal_transformer_tiny")
    model.compile("sgd", run_eagerly=True)
    arguments = {"x": dataset.take(1), "shuffle": False, "verbose": 0}
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(KeyboardInterrupt):
        model.fit(**arguments, epochs=3, callbacks=[backup, Interrupt()])
    assert model.fit(**arguments, epochs=3, callbacks=[backup]).epoch == [2]
    assert model.fit(**arguments, epochs=2).epoch == [0, 1]


def test_fit_with_schedule_that_needs_train_steps():
    model = _make("universal_transformer_tiny")
    hp = model.hparams.override("learning_rate_schedule=constant*linear_warmup*linear_decay")
    model = models.get(ENCODER, hp, vocab_sizes=SIZES)
    with pytest.raises(ValueError, match=r"optimizers.get\(model.hparams, train_steps=10000\)"):
        model.compile()
    model.compile(optimizer=optimizers.get(model.hparams, train_steps=10000))


@pytest.mark.parametrize(
    "method",
    ["evaluate", *(pytest.param(n, marks=pytest.mark.slow) for n in ("fit", "train_on_batch"))],
)
def test_fit_rejects_data_of_another_form(method):
    features, targets = next(_batches())
    model = _make("universal_transformer_tiny", name=BOTH)
    model.compile()

    def assert_rejected(message, *arguments, **options):
        with pytest.raises(ValueError, match=rf"^{message}\.$"):
            getattr(model, method)(*arguments, **options)

    no_targets = r"y must be the targets, as in fit\(features, .* Received: None"
    no_dict = r"features must be a dict .*\"inputs\": .*, \"targets\": .*\. Received: "
    assert_rejected(no_targets, features)
    assert_rejected(rf"{no_dict}a tensor of shape \(.*, 7\)\. .*", features["inputs"], targets)
    if method != "train_on_batch":
        assert_rejected(rf"{no_dict}tuple\. .*", [features["inputs"], targets], targets)
        order = {"shuffle": False} if method == "fit" else {}
        assert_rejected(no_targets, tf.data.Dataset.from_tensors(features), **order)
        assert_rejected(f"{no_dict}.*", tf.data.Dataset.from_tensors((targets, targets)), **order)
    getattr(model, method)(features, targets)  # valid data still work afterwards
    assert_rejected(no_targets, features)


def test_fit_requires_targets():
    features, targets = next(_batches())
    model = _make("universal_transformer_tiny")
    size = model.specs["targets"].vocab_size
    for wrong in (-1, size):
        y = np.array(targets)
        y[0, 0] = wrong
        with pytest.raises(ValueError, match=rf"targets must be ids in \[0, {size}\). .*: {wrong}"):
            model.fit(features, y)


@pytest.mark.parametrize("method", ["evaluate", pytest.param("fit", marks=pytest.mark.slow)])
def test_fit_rejects_targets_that_are_not_ids(method):
    """A cast would truncate targets that are not integers: 3.9 would become 3."""
    features, targets = next(_batches())
    model = _make("universal_transformer_tiny")
    model.compile()
    with pytest.raises(ValueError, match=r"^Targets must be ids of an int type. .*: float32 of"):
        getattr(model, method)(features, targets + 0.9)


@pytest.mark.parametrize("shape", [[None], None])
def test_fit_says_how_a_dataset_gets_batches_of_known_rank(shape):
    features, targets = next(_batches())
    model = _make("universal_transformer_tiny", name=BOTH)
    model.compile()
    spec = tf.TensorSpec(shape, tf.int32)
    signature = {"inputs": spec, "targets": spec}, spec

    def examples():
        yield {name: ids[0] for name, ids in features.items()}, targets[0]

    data = tf.data.Dataset.from_generator(examples, output_signature=signature)
    hint = r"call dataset.batch\(" if shape else r"must declare the rank, .*TensorSpec\("
    with pytest.raises(ValueError, match=rf"must be \[batch, length\]. .*{hint}"):
        model.evaluate(data)


@pytest.mark.parametrize("method", ["__call__", "inspect", "generate", "score", "predict"])
def test_fit_rejects_ids_without_names(method):
    model = _make("universal_transformer_tiny", name=BOTH)
    with pytest.raises(ValueError, match="^features must .* Received: a tensor of shape .*7.*$"):
        getattr(model, method)(next(_batches())[1])


def test_evaluate_does_not_smooth_labels(dataset):
    model = _make()
    model.compile()
    result = model.evaluate(dataset, verbose=0, return_dict=True)
    expected = []
    for features, targets in dataset:
        output = model.forward(features, training=False)
        expected.append(float(losses.total(model.loss_terms(output, targets, training=False))))
    np.testing.assert_allclose(result["loss"], np.mean(expected), rtol=1e-5)
    assert 0 <= result["accuracy_per_sequence"] <= result["accuracy"] <= 1


def test_compile_keeps_user_loss_and_optimizer(dataset):
    """The model uses the loss and the optimizer of the user without a change.

    The model runs eagerly, because tracing is slow.
    """
    model = _make("universal_transformer_tiny", NO_DROPOUT)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss, metrics=[], run_eagerly=True)
    history = model.fit(dataset.take(1), epochs=2, verbose=0, shuffle=False)
    assert history.history["loss"][1] < history.history["loss"][0]
    assert isinstance(model.optimizer, keras.optimizers.SGD)


@pytest.mark.slow
def test_saved_compiled_model_continues_training(dataset, tmp_path):
    """Loading restores the optimizer, the loss and the metrics."""
    model = _make()
    model.compile()
    model.fit(dataset, verbose=0, shuffle=False)
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    features, targets = next(iter(dataset))
    np.testing.assert_allclose(loaded(features), model(features), atol=1e-6)
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) == 6
    loaded.fit(dataset, verbose=0, shuffle=False)
    assert int(loaded.optimizer.iterations) == 12


def test_fit_without_trainable_weights(dataset):
    model = _make("universal_transformer_tiny")
    model.trainable = False
    model.compile(run_eagerly=True)  # tracing is slow
    before = [variable.numpy() for variable in model.weights]
    with pytest.warns(UserWarning, match="does not have any trainable weights"):
        model.fit(dataset.take(1), shuffle=False, verbose=0)
    for variable, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_loss_ignores_separate_losses_of_layers(dataset):
    found = []
    for is_called in (False, True):
        model = _make()
        model.compile()
        if is_called:
            model.encoder(tf.zeros([1, 3, model.hparams.hidden_size]))
            assert model.encoder.losses
        found.append(model.evaluate(dataset, verbose=0))
    assert found[0] == found[1]


def test_end_of_data_gives_no_warning():
    """`fit`, `evaluate` and `predict` do not warn at the end of a dataset of unknown size.

    An empty dataset still gives a warning or an error.
    """
    model, features = examples.make("tagger"), examples.features("tagger")
    model.compile("adam", steps_per_execution=2)
    rows = tf.data.Dataset.from_tensor_slices(features).filter(lambda row: True)
    pairs = rows.map(lambda row: (row, row["targets"]))
    model.fit(pairs.batch(2), epochs=2, shuffle=False, verbose=0)
    model.evaluate(pairs.batch(1), verbose=0)
    assert model.predict(rows.batch(2), verbose=0).shape == (3, 5, 13)
    with pytest.warns(UserWarning, match="ran out of data"):  # the test requests six steps
        model.evaluate(pairs.batch(1), steps=6, verbose=0)
    with pytest.warns(UserWarning, match="before the first batch"):
        model.fit(pairs.take(0).batch(2), shuffle=False, verbose=0)
    with pytest.raises(ValueError, match="^x must .*one batch.* Received: none"):
        model.predict(rows.take(0).batch(2), verbose=0)


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_ids_above_int32_raise(method, name):
    """A cast from int64 drops the higher bits, so 2**32 + 5 would be read as 5."""
    model = _make()
    model.compile("sgd")
    features, targets = next(_batches())
    features = {key: ids.astype(np.int64) for key, ids in features.items()}
    features[name] += 2**32
    data = (features,) if method == "predict" else (features, targets)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        getattr(model, method)(*data, verbose=0)


def test_loss_rejects_targets_above_int32():
    model = _make()
    model.compile("sgd")
    features, targets = next(_batches())
    wrong = targets.astype(np.int64) + 2**32
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.evaluate(tf.data.Dataset.from_tensors((features, wrong)), verbose=0)


@pytest.mark.parametrize("name", ["inputs", "targets"])
def test_arrays_with_ids_outside_the_vocabulary_raise(name):
    """On a GPU and under XLA, TensorFlow would read such ids as other ids or as zeros."""
    model = _make()
    model.compile("sgd", jit_compile=True)
    features, targets = next(_batches())
    for wrong in (-3, SIZES[name]):
        ids = features[name].copy()
        ids[0, 0] = wrong
        data = {**features, name: ids}
        remedy = r" Replace negative ids by 0, the padding\." if wrong < 0 else ""
        message = rf"^{name} must be ids in \[0, 12\)\. Received: {wrong}\.{remedy}$"
        for method, arguments in (("fit", [targets]), ("evaluate", [targets]), ("predict", [])):
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(data, *arguments)


class ZeroLogits(universal_transformer.UniversalTransformerEncoder):
    def call(self, features, training=None, num_steps=None):
        return 0 * super().call(features, training, num_steps)


class LossPlus100(universal_transformer.UniversalTransformerEncoder):
    def compute_loss(self, *args, **kwargs):
        return 100 + super().compute_loss(*args, **kwargs)


class TwiceTheLoss(universal_transformer.UniversalTransformerEncoder):
    def loss_terms(self, *args):
        (term,) = super().loss_terms(*args)["training"]
        return {"training": [term._replace(numerator=2 * term.numerator)]}


@pytest.mark.parametrize("method", ["evaluate", pytest.param("fit", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ZeroLogits, lambda loss: np.log(12)),
        (LossPlus100, lambda loss: 100 + loss),
        (TwiceTheLoss, lambda loss: 2 * loss),
    ],
)
def test_fit_uses_methods_that_a_subclass_overrides(kind, expected, method):
    plain = _make("universal_transformer_tiny", NO_DROPOUT + ",label_smoothing=0.0")
    model = kind.from_hparams(plain.hparams, plain.specs)
    model.set_weights(plain.get_weights())
    features, targets = next(_batches())
    losses_of = []
    for one in (plain, model):
        one.compile("sgd", metrics=[])
        found = getattr(one, method)(features, targets, verbose=0)
        losses_of.append(found.history["loss"][0] if method == "fit" else found)
    np.testing.assert_allclose(losses_of[1], expected(losses_of[0]), rtol=1e-5)


def test_fit_rejects_overridden_call_if_the_loss_uses_several_steps():
    plain = _make(overrides=",act_type=ponder_net")
    model = ZeroLogits.from_hparams(plain.hparams, plain.specs)
    model.compile("sgd")
    features, targets = next(_batches())
    with pytest.raises(ValueError, match=r"call and .* overridden .*Received: ZeroLogits\.$"):
        model.train_on_batch(features, targets)
