import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests import t2t_golden_test as t2t
from ut_keras import optimizers, t2t_import
from ut_keras.optimizers import adafactor, adam
from ut_keras.t2t import slots

FOLDER = os.path.join(t2t.FOLDER, "ckpt", "transformer")
LAZY_ADAM = "train_transformer_prenorm_lazyadam.a.json"
ADAPTIVE = os.path.join(t2t.FOLDER, "ckpt", "adaptive_universal_transformer")


@pytest.fixture(scope="module")
def model():
    return t2t_import.load_checkpoint(FOLDER, "transformer", target_space_id=11)


def _variables(path=FOLDER):
    reader = tf.train.load_checkpoint(os.path.join(path, "model.ckpt-20"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize(
    ("folder", "name"), [(FOLDER, "transformer"), (ADAPTIVE, "universal_transformer")]
)
def test_training_resumes_from_t2t_checkpoint(folder, name):
    model = t2t_import.load_checkpoint(folder, name, target_space_id=11)
    optimizer = optimizers.get(model.hparams)
    assert slots.load_optimizer(folder, model, optimizer) == 20
    assert int(optimizer.iterations) == 20
    variables = _variables(folder)
    # T2T's powers of beta follow from the step, as they do in ut_keras.
    for number, beta in ((1, optimizer.beta_1), (2, optimizer.beta_2)):
        assert variables[f"training/beta{number}_power"] == pytest.approx(beta**21, rel=1e-5)
    for number, suffix in ((0, "Adam"), (1, "Adam_1")):
        kept = [optimizer.slots()[v.path][number] for v in model.trainable_variables]
        for weight, value in t2t_import.export_variables(model, kept).items():
            np.testing.assert_array_equal(value, variables[f"training/{weight}/{suffix}"])
    assert np.abs(kept[0].numpy()).max() > 0


def _as_lazy_adam(variables):
    """Return the variables with the names that T2T uses on TensorFlow 2."""
    renamed = {"training/LazyAdam/iter": np.int64(20), "training/LazyAdam/decay": np.float32(0)}
    renamed |= {f"training/LazyAdam/beta_{i}": np.float32(0.9) for i in (1, 2)}
    for name, value in variables.items():
        weight, _, kind = name.removeprefix("training/").rpartition("/")
        if kind in ("Adam", "Adam_1"):
            name = f"training/LazyAdam/{weight}/{'v' if kind.endswith('_1') else 'm'}"
        if "_power" not in name:
            renamed[name] = value
    return renamed


def test_slots_of_lazy_adam_are_those_of_adam(tmp_path):
    """T2T on TensorFlow 2 stores the slots of its optimizer "adam" under other names."""
    variables = _as_lazy_adam(_variables())
    shutil.copy(os.path.join(FOLDER, "hparams.json"), tmp_path)
    path = str(tmp_path / "model.ckpt-20")
    tf.raw_ops.SaveV2(
        prefix=path,
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=list(variables.values()),
    )
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-20"\n')
    with open(os.path.join(t2t.FOLDER, "optim", LAZY_ADAM), encoding="utf-8") as file:
        golden = json.load(file)["slots"]
    kinds, golden_kinds = (
        {re.sub("transformer/.*/", "WEIGHT/", name) for name in names}
        for names in (_training(variables), golden)
    )
    assert kinds == golden_kinds
    model = t2t_import.load_checkpoint(str(tmp_path), "transformer")
    assert model.target_space_id == 11  # the slots show the id
    optimizer = adam.Adam()
    assert slots.load_optimizer(str(tmp_path), model, optimizer) == 20
    for number, kind in enumerate("mv"):
        kept = [optimizer.slots()[v.path][number] for v in model.trainable_variables]
        for weight, value in t2t_import.export_variables(model, kept).items():
            np.testing.assert_array_equal(value, variables[f"training/LazyAdam/{weight}/{kind}"])
    with pytest.raises(ValueError, match="Received: Adafactor, .* such as training/LazyAdam/"):
        slots.assign(model, adafactor.Adafactor(table_shards=16), _training(variables))


def test_weight_without_slots_keeps_initial_slots(model):
    variables = _variables()
    scale = "training/transformer/body/encoder/layer_prepostprocess/layer_norm/layer_norm_scale"
    for suffix in ("Adam", "Adam_1"):
        del variables[f"{scale}/{suffix}"]
    optimizer = adam.Adam()
    slots.assign(model, optimizer, _training(variables))
    kept = optimizer.slots()["encoder/layer_prepostprocess/layer_norm/layer_norm_scale"]
    assert not np.any([slot.numpy() for slot in kept])


@pytest.mark.parametrize(
    "name",
    ["body/target_space_embedding/kernel/Adam_1", "symbol_modality_4_32/shared/weights_2/Adam"],
)
def test_some_missing_slots_of_a_weight_raise(model, name):
    variables = _training(_variables())
    del variables[f"training/transformer/{name}"]
    optimizer = adam.Adam()
    with pytest.raises(ValueError, match=f"all statistics .* without training/transformer/{name}"):
        slots.assign(model, optimizer, variables)
    assert int(optimizer.iterations) == 0


def test_other_optimizer_raises(model):
    with pytest.raises(ValueError, match="Received: Adafactor, "):
        slots.assign(model, adafactor.Adafactor(table_shards=16), _training(_variables()))


def test_wrong_shape_raises_and_changes_nothing(model):
    variables = _training(_variables())
    name = "training/transformer/body/target_space_embedding/kernel/Adam_1"
    optimizer = adam.Adam()
    with pytest.raises(ValueError, match=f"{name} .* 1024 .*Received: 992"):
        slots.assign(model, optimizer, {**variables, name: variables[name][:-1]})
    assert int(optimizer.iterations) == 0
    assert not np.any(
        [
            slot.numpy()
            for slot in optimizer.slots()["encoder/layer_prepostprocess/layer_norm/layer_norm_bias"]
        ]
    )


def test_adafactor_loads_empty_shards(model):
    """T2T's empty shards contain NaN. Here 4 ids are divided into 16 shards."""
    table = "training/transformer/symbol_modality_4_32/shared/weights_{}/Adafactor"
    optimizer = adafactor.Adafactor(table_shards=16)
    variables = {"global_step": np.int64(7)}
    for shard in range(16):
        rows = 1 if shard < 4 else 0
        variables[table.format(shard)] = np.full(rows, shard, "float32")
        columns = np.full(32, shard if rows else np.nan, "float32")
        variables[table.format(shard) + "_1"] = columns
    slots.assign(model, optimizer, variables)
    rows, columns = optimizer.slots()["target_embedding/weights"]
    np.testing.assert_array_equal(rows.numpy(), [0, 1, 2, 3])
    np.testing.assert_array_equal(columns.numpy(), np.repeat([[0], [1], [2], [3]], 32, axis=1))
    name = table.format(2)
    variables[name] = np.float32([np.inf])
    with pytest.raises(ValueError, match=f"Received: {name},"):
        slots.assign(model, optimizer, variables)


def test_missing_checkpoint_raises(model, tmp_path):
    with pytest.raises(ValueError, match="t2t_output_dir .*hparams.json .*Received"):
        slots.load_optimizer(str(tmp_path), model, adam.Adam())


def test_run_with_unsupported_optimizer_can_be_imported(tmp_path):
    for name in os.listdir(FOLDER):
        shutil.copy(os.path.join(FOLDER, name), tmp_path)
    path = tmp_path / "hparams.json"
    path.write_text(path.read_text().replace('"true_adam"', '"yellow_fin"'))
    model = t2t_import.load_checkpoint(str(tmp_path), "transformer", target_space_id=11)
    ids = np.array([[3, 2, 1]], "int32")
    assert model({"inputs": ids, "targets": ids}, training=False).shape[:2] == (1, 3)
    with pytest.raises(ValueError, match="optimizer='yellow_fin'"):
        model.compile()


def _training(variables):
    return {
        name: value
        for name, value in variables.items()
        if name == "global_step" or name.startswith("training/")
    }
