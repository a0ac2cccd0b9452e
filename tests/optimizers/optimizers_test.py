import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparam_schema, hparams, optimizers
from ut_keras.hparam_schema import basic
from ut_keras.optimizers import learning_rate

_STEPS = 8
_SHAPES = {"kernel": (3, 4), "table": (5, 2), "bias": (4,)}


def _hparams(**fields):
    values = {
        "learning_rate_schedule": "constant*linear_warmup",
        "learning_rate_constant": 0.1,
        "learning_rate_warmup_steps": 4,
    }
    return basic.BasicHParams(**{**values, **fields})


def _values(seed):
    random = np.random.RandomState(seed)
    return {name: random.randn(*shape).astype("float32") for name, shape in _SHAPES.items()}


def _reference(hp):
    """Compute Adam in numpy from the equation, in float64."""
    weights = {name: value.astype("float64") for name, value in _values(0).items()}
    m = {name: np.zeros(shape) for name, shape in _SHAPES.items()}
    v = {name: np.zeros(shape) for name, shape in _SHAPES.items()}
    b1, b2 = hp.optimizer_adam_beta1, hp.optimizer_adam_beta2
    for step in range(_STEPS):
        gradients = {name: value.astype("float64") for name, value in _values(1 + step).items()}
        for name in ("kernel", "table"):
            gradients[name] += hp.weight_decay * weights[name]
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        if hp.clip_grad_norm and norm > hp.clip_grad_norm:
            scale = hp.clip_grad_norm / norm
            gradients = {name: gradient * scale for name, gradient in gradients.items()}
        rate = 0.1 * min(1.0, step / 4)
        rate *= np.sqrt(1 - b2 ** (step + 1)) / (1 - b1 ** (step + 1))
        for name, gradient in gradients.items():
            m[name] = b1 * m[name] + (1 - b1) * gradient
            v[name] = b2 * v[name] + (1 - b2) * gradient**2
            weights[name] -= rate * m[name] / (np.sqrt(v[name]) + hp.optimizer_adam_epsilon)
    return weights


def _as_slices(table):
    """Return the gradient as `tf.IndexedSlices`. Row 0 is the sum of three entries."""
    values = tf.concat([table[:1] * 0.25, table, -table[:1] * 0.25], axis=0)
    indices = tf.constant([0, 0, 1, 2, 3, 4, 0])
    return tf.IndexedSlices(values, indices, tf.constant([5, 2]))


def _train(hp, mode="graph", sparse=False):
    variables = [keras.Variable(value, name=name) for name, value in _values(0).items()]
    optimizer = optimizers.get(hp)
    optimizer.build(variables)

    def apply(kernel, table, bias):
        optimizer.apply([kernel, _as_slices(table) if sparse else table, bias])

    if mode != "eager":
        apply = tf.function(apply, jit_compile=mode == "xla", autograph=False)
    for step in range(_STEPS):
        apply(*[tf.constant(value) for value in _values(1 + step).values()])
    return {variable.name: variable.numpy() for variable in variables}


def _assert_same(actual, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
@pytest.mark.parametrize("sparse", [False, True])
def test_adam_matches_reference(mode, sparse):
    hp = _hparams()
    _assert_same(_train(hp, mode, sparse), _reference(hp))


def test_epsilon_is_outside_the_bias_correction():
    hp = _hparams(optimizer="true_adam", optimizer_adam_epsilon=1.0, optimizer_adam_beta2=0.98)
    _assert_same(_train(hp), _reference(hp))


@pytest.mark.parametrize("sparse", [False, True])
def test_clipping_uses_the_norm_of_all_gradients(sparse):
    hp = _hparams(clip_grad_norm=1.0)
    _assert_same(_train(hp, sparse=sparse), _reference(hp))


def test_weight_decay_is_an_l2_loss_without_biases():
    hp = _hparams(weight_decay=0.5, clip_grad_norm=1.0)
    _assert_same(_train(hp), _reference(hp))
    without = _train(_hparams(clip_grad_norm=1.0))
    assert np.abs(without["kernel"] - _train(hp)["kernel"]).max() > 1e-3


def test_config_round_trip():
    optimizer = optimizers.get(_hparams(clip_grad_norm=2.0, weight_decay=0.1))
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, optimizers.Adam)
    assert restored.get_config() == optimizer.get_config()


# numpy 2 warns about the way in which Keras converts TensorFlow's variables.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_slots_are_saved_with_a_keras_model(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(optimizer=optimizers.get(_hparams()), loss="mse")
    x, y = np.ones((4, 3), "float32"), np.zeros((4, 2), "float32")
    model.fit(x, y, epochs=3, verbose=0)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    for original, loaded in zip(
        model.optimizer.variables, restored.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(original.numpy(), loaded.numpy())
    model.fit(x, y, epochs=2, verbose=0)
    restored.fit(x, y, epochs=2, verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], restored.get_weights()[0])


def test_get_supports_every_name():
    assert set(basic.OPTIMIZERS) == set(optimizers._OPTIMIZERS)
    for name in basic.OPTIMIZERS:
        steps = 2 if name in ("multistep_adam", "MultistepAdam") else 0
        hp = _hparams(
            optimizer=name,
            optimizer_multistep_accumulate_steps=steps,
            grad_noise_scale=0.1,
            clip_grad_norm=1.0,
            weight_decay=0.2,
            optimizer_zero_grads=True,
        )
        config = optimizers.get(hp).get_config()
        assert (config["grad_noise_scale"], config["clip_grad_norm"]) == (0.1, 1.0)
        assert (config["l2_rate"], config["zero_grads"]) == (0.2, True)


def test_get_passes_all_options_to_adafactor():
    hp = _hparams(
        optimizer="Adafactor",
        optimizer_adafactor_beta1=0.9,
        optimizer_adafactor_beta2=0.99,
        optimizer_adafactor_clipping_threshold=None,
        optimizer_adafactor_decay_type="adam",
        optimizer_adafactor_factored=False,
        optimizer_adafactor_memory_exponent=0.7,
        optimizer_adafactor_multiply_by_parameter_scale=False,
        symbol_modality_num_shards=4,
    )
    config = optimizers.get(hp).get_config()
    expected = {
        "beta_1": 0.9,
        "beta_2": 0.99,
        "clipping_threshold": None,
        "decay_type": "adam",
        "factored": False,
        "memory_exponent": 0.7,
        "multiply_by_parameter_scale": False,
        "table_shards": 4,
    }
    assert {name: config[name] for name in expected} == expected


@pytest.mark.parametrize(("name", "steps"), [("adam", 2), ("multistep_adam", 0)])
def test_accumulate_steps_require_multistep_adam(name, steps):
    hp = _hparams(optimizer=name, optimizer_multistep_accumulate_steps=steps)
    with pytest.raises(
        hparam_schema.HParamError,
        match="^optimizer_multistep_accumulate_steps must .*'multistep_adam'",
    ):
        optimizers.get(hp)


def test_get_rejects_unsupported_hparams():
    with pytest.raises(hparam_schema.HParamError, match="weight_noise=0.1.*optimizer='ftrl'"):
        optimizers.get(_hparams(optimizer="ftrl", weight_noise=0.1))


def test_run_that_ends_in_the_warm_up_is_logged(caplog):
    hp = hparams.get("transformer_tiny", "learning_rate_warmup_steps=200")
    for steps, logged in ((20, True), (200, False), (None, False)):
        caplog.clear()
        optimizers.get(hp, train_steps=steps)
        assert ("ends after 20 of the 200 updates of the warm-up" in caplog.text) == logged
    optimizers.get(hp, train_steps=20, learning_rate=0.1)
    assert not caplog.text


def test_segments_do_not_lengthen_the_warm_up(caplog):
    """A batch has an update for each segment, but the schedule counts batches."""
    hp = hparams.get(
        "universal_transformer_tiny", "learning_rate_warmup_steps=100,recurrence_segments=4"
    )
    schedule = learning_rate.from_hparams(hp, train_steps=100)
    assert float(schedule(400)) == max(float(schedule(step)) for step in (200, 300, 400, 500))
    optimizers.get(hp, train_steps=100)
    assert not caplog.text
    optimizers.get(hp, train_steps=99)
    assert "ends after 99 of the 100 updates of the warm-up" in caplog.text
