import glob
import io
import json
import os
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest

import ut_keras
from tests.inference import export_models
from ut_keras.data.features import FeatureSpec
from ut_keras.errors import DataError

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IDS = [[2, 3, 4, 1]]

NEW_PROCESS = f"""
import json, sys
%s(sys.argv[1])
ids = model.generate({{"inputs": {IDS}}}, beam_size=1, decode_length=3).ids.numpy().tolist()
print(json.dumps({{"ids": ids, "compiled": model.compiled, "modules": list(sys.modules)}}))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return (path of a `.keras` file, model that is saved in this file)."""
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    specs = {"inputs": FeatureSpec(9), "targets": FeatureSpec(9)}
    model = export_models.variant_model("act", specs)
    export_models.randomize(model, seed=1)
    model.compile()
    model.save(path)
    return path, model


def test_names_of_weights_are_those_of_earlier_versions(saved):
    """Each weight has the same name in the file as in files of earlier versions.

    Keras derives the names of weights from attributes. A new public attribute may change all of
    these names.
    """
    path, _ = saved
    names = []
    with zipfile.ZipFile(path) as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(content) as weights:
        weights.visititems(lambda name, _: names.append(name))
    layer = "encoder/depth/block/layers/transformer_layer"
    parts = ("query_projection", "key_projection", "value_projection", "output_projection")
    assert {f"{layer}/self_attention/{part}/vars/0" for part in parts} < {*names}
    assert f"{layer}/transition/contract/vars/0" in names
    assert "encoder/depth/halting/vars/0" in names


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_load_rejects_weights_that_are_not_finite(tmp_path, value):
    specs = {"inputs": FeatureSpec(9), "targets": FeatureSpec(9)}
    model = export_models.variant_model("act", specs)
    variable = model.trainable_variables[-1]
    variable.assign(np.full(variable.shape, value, "float32"))
    model.save(tmp_path / "model.keras")
    with pytest.raises(DataError, match=f"model.keras.*Received: {variable.path},"):
        ut_keras.load(tmp_path / "model.keras")


@pytest.mark.slow
@pytest.mark.parametrize(
    "load",
    [
        "import ut_keras; model = ut_keras.load",
        "import keras, ut_keras; model = keras.saving.load_model",
    ],
)
def test_load_works_in_a_new_process(load, saved):
    """`import ut_keras` registers every class that a `.keras` file may contain."""
    path, model = saved
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NEW_PROCESS % load, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    wanted = model.generate({"inputs": IDS}, beam_size=1, decode_length=3).ids
    np.testing.assert_array_equal(found["ids"], wanted)
    assert found["compiled"]
    registering = set()
    for file in glob.glob("ut_keras/**/*.py", root_dir=ROOT, recursive=True):
        with open(os.path.join(ROOT, file), encoding="utf-8") as source:
            if "@keras.saving.register_keras_serializable" in source.read():
                registering.add(file.removesuffix(".py").replace(os.sep, "."))
    assert len(registering) > 30 and registering <= set(found["modules"])


def test_load_rejects_other_files(saved, tmp_path):
    def assert_rejected(path, message):
        with pytest.raises(DataError, match=message) as error:
            ut_keras.load(path)
        assert len(str(error.value)) < 500 and "\n" not in str(error.value)

    assert_rejected(tmp_path / "none.keras", r"NAME.keras.* Received: .*none.keras")
    weights = tmp_path / "model.weights.h5"
    weights.write_bytes(b"")
    assert_rejected(weights, r"the folder of a run.*which is a file.*load_weights.*NAME.keras")
    broken = tmp_path / "broken.keras"
    broken.write_bytes(b"no archive")
    assert_rejected(broken, "that model.save wrote.*File not found|not a zip")
    broken.write_bytes(saved[0].read_bytes()[:-4000])
    assert_rejected(str(broken), "that model.save wrote")
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("something", "else")
    assert_rejected(broken, "There is no item named 'config.json'")
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("config.json", '{"class_name": "Mine", "config": {}, "module": "mine"}')
    assert_rejected(broken, r"Could not locate class 'Mine'.* import them before")


def test_keras_runs_on_tensorflow(monkeypatch):
    """If KERAS_BACKEND does not name TensorFlow, `import ut_keras` causes a warning.

    If Keras already uses another backend, the import fails.
    """
    monkeypatch.setenv("KERAS_BACKEND", "jax")

    def run(before):
        program = (
            f"import os, sys, types; {before}; import ut_keras; print(os.environ['KERAS_BACKEND'])"
        )
        words = [sys.executable, "-c", program]
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT)

    done = run("pass")
    assert done.stdout == "tensorflow\n"
    assert "ut_keras runs Keras on TensorFlow, not on jax." in done.stderr
    keras = "types.SimpleNamespace(config=types.SimpleNamespace(backend=lambda: 'jax'))"
    assert run(f"sys.modules['keras'] = {keras}").stderr.endswith(
        "ImportError: ut_keras needs Keras on TensorFlow. Received: Keras on jax.\n"
    )
