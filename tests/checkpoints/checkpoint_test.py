import gc
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from ut_keras import optimizers
from ut_keras.checkpoints import checkpoint
from ut_keras.optimizers import gradient_descent


def _make(directory, vocab_size=toy.VOCAB_SIZE, keep=20, dropout=0.5):
    model = toy.ToyModel(dropout, vocab_size=vocab_size)
    optimizer = optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    position = {"epoch": tf.Variable(0, dtype=tf.int64)}
    return (
        model,
        optimizer,
        position,
        checkpoint.Checkpoints(str(directory), model, optimizer, position, keep=keep),
    )


def _train(model, optimizer, steps=1):
    for _ in range(steps):
        gradients = [tf.ones(variable.shape) for variable in model.trainable_variables]
        optimizer.apply(gradients, model.trainable_variables)


def test_restore_recovers_the_complete_state(tmp_path):
    model, optimizer, position, checkpoints = _make(tmp_path)
    _train(model, optimizer, 3)
    position["epoch"].assign(4)
    features = {"inputs": tf.constant([[2, 3, 4, 5]])}
    model.forward(features, training=True)
    path = checkpoints.save()
    assert path.endswith("model.ckpt-3")
    expected = model.forward(features, training=True).logits
    other, other_optimizer, other_position, others = _make(tmp_path)
    assert others.restore_newest()
    assert int(other_position["epoch"]) == 4
    for a, b in zip(optimizer.variables, other_optimizer.variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    # The restored model continues the sequence of dropout masks.
    actual = other.forward(features, training=True).logits
    np.testing.assert_array_equal(actual.numpy(), expected.numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda: optimizers.Adafactor(0.1, beta_1=0.9),
        lambda: optimizers.MultistepAdam(0.1, accumulate_steps=2, grad_noise_scale=0.1),
        lambda: gradient_descent.RMSProp(0.1),
        lambda: gradient_descent.GradientDescent(0.1),
    ],
    ids=["adafactor", "multistep_adam_with_noise", "rms_prop", "sgd"],
)
def test_restore_recovers_every_optimizer(make, tmp_path):
    def start(seed):
        keras.utils.set_random_seed(seed)
        model = toy.ToyModel()
        optimizer = make()
        optimizer.build(model.trainable_variables)
        return model, optimizer, checkpoint.Checkpoints(str(tmp_path), model, optimizer)

    model, optimizer, checkpoints = start(seed=0)
    _train(model, optimizer, 3)
    checkpoints.save()
    _train(model, optimizer, 3)
    other, other_optimizer, others = start(seed=1)
    assert others.restore_newest()
    _train(other, other_optimizer, 3)
    for a, b in zip(model.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_restore_without_optimizer(tmp_path):
    model, optimizer, _, checkpoints = _make(tmp_path)
    _train(model, optimizer)
    checkpoints.save()
    other = toy.ToyModel(0.0)
    assert checkpoint.Checkpoints(str(tmp_path), other).restore_newest()
    np.testing.assert_array_equal(other.table.numpy(), model.table.numpy())


def test_restore_newest_without_checkpoint(tmp_path):
    assert not _make(tmp_path)[-1].restore_newest()


def test_restore_rejects_another_vocabulary(tmp_path):
    model, optimizer, _, checkpoints = _make(tmp_path)
    checkpoints.save()
    with pytest.raises(checkpoint.CheckpointError) as caught:
        _make(tmp_path, vocab_size=11)[-1].restore_newest()
    message = str(caught.value)
    assert "embedding_table" in message and "\n" not in message
    assert "(8, 16)" in message and "(11, 16)" in message


def test_restore_rejects_another_model(tmp_path):
    _make(tmp_path)[-1].save()

    class Wider(toy.ToyModel):
        def __init__(self):
            super().__init__()
            self.extra = self.add_weight(shape=(3,), name="extra_scale")

    missing = r"extra_scale is missing .* and \(3,\)"
    with pytest.raises(checkpoint.CheckpointError, match=missing):
        checkpoint.Checkpoints(str(tmp_path), Wider()).restore_newest()
    (tmp_path / "wide").mkdir()
    wide = Wider()
    optimizer = optimizers.Adam(0.1)
    optimizer.build(wide.trainable_variables)
    checkpoint.Checkpoints(str(tmp_path / "wide"), wide, optimizer).save()
    with pytest.raises(checkpoint.CheckpointError, match=r"extra_scale is \(3,\) .* and missing"):
        checkpoint.Checkpoints(str(tmp_path / "wide"), toy.ToyModel()).restore_newest()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_restore_rejects_weights_that_are_not_finite(tmp_path, value):
    """ut_keras reports weights that are not finite, and does not use an older checkpoint.

    Another program must have saved such weights, because the trainer never saves them.
    """
    model, optimizer, _, checkpoints = _make(tmp_path)
    _train(model, optimizer)
    checkpoints.save()
    before = model.get_weights()
    _train(model, optimizer)
    variable = model.trainable_variables[0]
    variable.assign(np.full(variable.shape, value, "float32"))
    path = checkpoints.save()
    model.set_weights(before)
    name = next(iter(checkpoint.model_variables(model)))
    for read in (
        checkpoints.restore_newest,
        lambda: checkpoints.restore(path),
        lambda: checkpoint.read_weights(path),
    ):
        with pytest.raises(checkpoint.CheckpointError, match=f"{path}.*Received: {name},"):
            read()
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_incomplete_checkpoint_is_skipped(tmp_path, capsys):
    model, optimizer, _, checkpoints = _make(tmp_path)
    _train(model, optimizer)
    checkpoints.save()
    expected = model.table.numpy()
    _train(model, optimizer)
    checkpoints.save()
    data = tmp_path / "model.ckpt-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    other, _, _, others = _make(tmp_path)
    assert others.restore_newest()
    np.testing.assert_array_equal(other.table.numpy(), expected)
    assert "model.ckpt-2" in capsys.readouterr().out


def test_checkpoint_with_a_flipped_bit_is_skipped_with_one_line(tmp_path, capsys, caplog):
    """By default, `tf.train.Checkpoint` prints one line for each value that it did not read."""
    model, optimizer, _, checkpoints = _make(tmp_path)
    checkpoints.save()
    _train(model, optimizer)
    path = checkpoints.save()
    file = tmp_path / f"{os.path.basename(path)}.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[content.index(model.table.numpy().tobytes())] ^= 1
    file.write_bytes(content)
    readers = [checkpoint.Checkpoints(str(tmp_path), model), checkpoints]
    for reader in readers:
        assert reader.restore_newest() and reader.newest.endswith("model.ckpt-0")
        line = capsys.readouterr().out
        message = r"Skipped a checkpoint .*model\.ckpt-1: .*Checksum does not match.*\n"
        assert re.fullmatch(message, line)
    del reader, readers, checkpoints
    gc.collect()
    assert not caplog.records


def test_restore_newest_requires_a_readable_checkpoint(tmp_path):
    _make(tmp_path)[-1].save()
    (tmp_path / "model.ckpt-0.index").write_bytes(b"torn")
    with pytest.raises(checkpoint.CheckpointError, match=".*Received: .*model.ckpt-0: ") as caught:
        _make(tmp_path)[-1].restore_newest()
    assert "\n" not in str(caught.value)


def test_incomplete_files_are_ignored(tmp_path):
    model, optimizer, _, checkpoints = _make(tmp_path)
    checkpoints.save()
    # A process that was killed before it renamed the index leaves this data file.
    (tmp_path / "model.ckpt-9.data-00000-of-00001").write_bytes(b"half")
    (tmp_path / "model.ckpt-9_temp").mkdir()
    assert _make(tmp_path)[-1].newest.endswith("model.ckpt-0")


def test_restore_rejects_a_t2t_checkpoint(tmp_path):
    tf.train.Checkpoint(table=tf.Variable([1.0])).save(str(tmp_path / "model.ckpt"))
    with pytest.raises(checkpoint.CheckpointError, match="ut-import-t2t"):
        _make(tmp_path)[-1].restore_newest()


def test_save_error_keeps_earlier_checkpoints(tmp_path, monkeypatch):
    model, optimizer, _, checkpoints = _make(tmp_path)
    checkpoints.save()
    _train(model, optimizer)

    def refuse(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left on device\nat x")

    monkeypatch.setattr(tf.train.Checkpoint, "write", refuse)
    with pytest.raises(checkpoint.SaveError, match="step 1 could not .*: No space left") as caught:
        checkpoints.save()
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("model.ckpt-1*"))
    assert _make(tmp_path)[-1].restore_newest()


def test_restore_accepts_a_checkpoint_without_order(tmp_path):
    model, optimizer, position, checkpoints = _make(tmp_path)
    position["epoch"].assign(4)
    checkpoints.save()
    position = {name: tf.Variable(0, dtype=tf.int64) for name in ("epoch", "order")}
    now = checkpoint.Checkpoints(str(tmp_path), model, optimizer, position)
    assert now.restore_newest()
    assert (int(position["epoch"]), int(position["order"])) == (4, 0)
    position["order"].assign(7)
    _train(model, optimizer)
    now.save()
    position["order"].assign(0)
    assert now.restore_newest() and int(position["order"]) == 7


def test_restore_accepts_new_dropout(tmp_path):
    model, optimizer, _, checkpoints = _make(tmp_path, dropout=0.0)
    _train(model, optimizer)
    checkpoints.save()
    now, *_, checkpoints = _make(tmp_path, dropout=0.5)
    assert len(now.variables) > len(model.variables)  # dropout adds a random state
    assert checkpoints.restore_newest()
    np.testing.assert_array_equal(now.table.numpy(), model.table.numpy())


def _memory(name):
    """Return the memory of this process in bytes, now ("VmRSS") or at its peak ("VmHWM")."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:")) * 1024


def test_restore_needs_memory_for_one_copy_of_the_values(tmp_path):
    layer = keras.layers.Dense(4096, use_bias=False)
    model = keras.Sequential([keras.layers.Input([2048]), layer])
    optimizer = optimizers.Adam(0.1)
    optimizer.build(model.trainable_variables)
    # `checkpoints` keeps the copies that it saved, so that the restore cannot reuse their memory.
    checkpoints = checkpoint.Checkpoints(str(tmp_path), model, optimizer)
    size = os.path.getsize(f"{checkpoints.save()}.data-00000-of-00001")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # this resets the peak
    before = _memory("VmRSS")
    assert checkpoints.restore_newest()
    assert _memory("VmHWM") - before < 1.5 * size
