"""Models match the results of the original T2T (tests/testdata/t2t/README.md)."""

import glob
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.testdata.t2t import load as golden
from ut_keras import t2t_import

FOLDER = os.path.join(os.path.dirname(__file__), "testdata", "t2t")


def _configurations(kind):
    paths = sorted(glob.glob(os.path.join(FOLDER, kind, "*.a.json")))
    return [os.path.basename(path).removesuffix(".json") for path in paths]


def _t2t_hparams(setting):
    with open(os.path.join(FOLDER, "model", "base_hparams.json"), encoding="utf-8") as file:
        base = json.load(file)[setting["base_hparams_set"]]
    return {**base, **setting["overrides"]}


def _load(kind, name):
    with open(os.path.join(FOLDER, kind, name + ".json"), encoding="utf-8") as file:
        setting = json.load(file)
    return setting, golden.load(os.path.join(FOLDER, kind, name + ".npz"))


def _group(arrays, prefix):
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _model(setting, variables):
    return t2t_import.build_model(
        setting["model"], _t2t_hparams(setting), variables, setting["target_space_id"]
    )


def _features(arrays):
    return {
        name: tf.constant(value)
        for name, value in arrays.items()
        if name.split("_")[0] in ("inputs", "targets")
    }


@pytest.mark.parametrize("name", _configurations("model"))
def test_model_matches_t2t(name):
    """Logits, losses, ACT outputs and gradients match T2T in TRAIN mode without dropout.

    The exported variables equal the imported variables.
    """
    setting, arrays = _load("model", name)
    imported = _group(arrays, "var/")
    model = _model(setting, imported)
    exported = t2t_import.export_variables(model)
    assert set(exported) == set(imported)
    for key, value in imported.items():
        np.testing.assert_array_equal(exported[key], value, err_msg=key)
        assert exported[key].dtype == value.dtype
    features = _features(arrays)
    with tf.GradientTape() as tape:
        out = model.inspect(features, training=True)
        loss = tf.add_n(list(out.losses.values()))
    gradients = tape.gradient(loss, model.trainable_variables)

    logits = arrays["logits"].reshape(out.logits.shape)
    np.testing.assert_allclose(out.logits, logits, rtol=1e-5, atol=1e-5 * np.abs(logits).max())
    expected = _group(arrays, "losses/")
    assert set(out.losses) == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(out.losses[key], value, rtol=1e-5, err_msg=key)
    for side in ("encoder", "decoder"):
        for field in ("ponder_times", "remainders", "output"):
            if f"{side}_{field}" in arrays:
                got = getattr(getattr(out, side), field)
                np.testing.assert_allclose(
                    got, arrays[f"{side}_{field}"], rtol=1e-5, atol=2e-5, err_msg=field
                )

    gradients = [
        tf.zeros_like(variable.value) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, variable in zip(gradients, model.trainable_variables, strict=True)
    ]
    exported = t2t_import.export_variables(model, gradients)
    expected = _group(arrays, "grad/")
    largest = max(np.abs(value).max() for value in expected.values() if value.size)
    assert set(expected) <= set(exported)
    for key, value in exported.items():
        # If T2T has no gradient for a variable, the gradient of ut_keras is 0.
        want = expected.get(key, np.zeros_like(value))
        np.testing.assert_allclose(value, want, atol=1e-4 * largest, err_msg=key)
