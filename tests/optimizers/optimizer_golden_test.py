"""Ten updates of ut_keras equal ten updates of T2T (tests/testdata/t2t/README.md)."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests import t2t_golden_test as t2t
from ut_keras import optimizers, t2t_import
from ut_keras.metrics import losses
from ut_keras.t2t import slots as t2t_slots


@functools.cache
def _model_and_gradients(name):
    """Return (model, initial weights, function that computes the loss and the gradients).

    The function is traced once for all runs. Each run sets its own weights.
    """
    setting, arrays = t2t._load("model", name)
    weights = t2t._group(arrays, "var/")
    model = t2t._model(setting, weights)

    @tf.function(autograph=False)
    def gradients(inputs, targets):
        features = {"inputs": inputs, "targets": targets}
        with tf.GradientTape() as tape:
            output = model.forward(features, training=True)
            loss = losses.total(model.loss_terms(output, targets, training=True))
        return loss, tape.gradient(loss, model.trainable_variables)

    return model, [variable.numpy() for variable in model.trainable_variables], gradients


# These runs of Adafactor are slow. The default suite tests Adafactor with the smallest model.
_SLOW = (
    "train_aut_basic_adafactor.a",
    "train_transformer_prenorm_adafactor_adamdecay_noscale.a",
    "train_transformer_prenorm_adafactor_nofactor_b1.a",
    "train_ut_basic_fc_adafactor.a",
)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
        for name in t2t._configurations("optim")
    ],
)
def run(request):
    """Return (model, optimizer, losses and rates, T2T's arrays) after ten updates."""
    setting, arrays = t2t._load("optim", request.param)
    model, weights, gradients = _model_and_gradients(setting["model_golden"])
    for variable, weight in zip(model.trainable_variables, weights, strict=True):
        variable.assign(weight)
    optimizer = optimizers.get(model.hparams.override(setting["hparams"]))
    optimizer.build(model.trainable_variables)
    update = tf.function(optimizer.apply, autograph=False)
    seen = []
    for inputs, targets in zip(arrays["inputs"], arrays["targets"], strict=True):
        loss, grads = gradients(tf.constant(inputs), tf.constant(targets))
        seen.append((float(loss), float(optimizer.learning_rate)))
        update(grads)
    return model, optimizer, np.array(seen).T, arrays


def test_losses_and_rates_match_t2t(run):
    _, _, (loss, rate), arrays = run
    np.testing.assert_allclose(rate, arrays["lr"], rtol=1e-5)
    np.testing.assert_allclose(loss, arrays["loss"], rtol=1e-4)


def test_weights_match_t2t(run):
    model, _, _, arrays = run
    exported = t2t_import.export_variables(model)
    expected = t2t._group(arrays, "after10/")
    assert set(exported) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(exported[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def test_slots_match_t2t(run):
    """The slots equal T2T's slots. The test loads T2T's slots into another optimizer."""
    model, optimizer, _, arrays = run
    slots = t2t._group(arrays, "slot/")
    if not slots:
        pytest.skip("this trajectory holds no slots")
    loaded = type(optimizer).from_config(optimizer.get_config())
    assert t2t_slots.assign(model, loaded, slots) == 10 == int(optimizer.iterations)
    count = 0
    for path, expected in loaded.slots().items():
        for slot, value in zip(optimizer.slots()[path], expected, strict=True):
            largest = np.abs(value.numpy()).max()
            assert largest > 0
            np.testing.assert_allclose(
                slot.numpy(), value.numpy(), rtol=1e-4, atol=1e-4 * largest, err_msg=slot.path
            )
            count += 1
    assert count >= len(model.trainable_variables)
