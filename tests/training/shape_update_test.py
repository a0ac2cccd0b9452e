import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from ut_keras import optimizers
from ut_keras.ops import xla_errors
from ut_keras.training import distribution, shape_update, train_step


class _NumpyModel(toy.ToyModel):
    """A model with an operation that XLA cannot compile."""

    def forward(self, features, training=None):
        output = super().forward(features, training)
        zeros = tf.numpy_function(lambda x: 0 * x, [output.logits], tf.float32)
        zeros.set_shape(output.logits.shape)
        return output._replace(logits=output.logits + tf.stop_gradient(zeros))


class _TracedModel(toy.ToyModel):
    """A model whose operations raise an error if their shape is static."""

    def forward(self, features, training=None):
        if features["inputs"].shape[1] is not None:
            raise NotImplementedError("This operation needs a dynamic shape.")
        return super().forward(features, training)


def _make(model_class):
    """Return a model and a function that makes the update of the model, with or without XLA."""
    keras.utils.set_random_seed(0)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        model = model_class()
        optimizer = optimizers.Adam(0.01, epsilon=1e-3)
        optimizer.build(model.trainable_variables)
    spec = tf.TensorSpec((None, None), tf.int32)
    element_spec = ({"inputs": spec, "targets": spec}, spec)

    def make(jit_compile):
        return train_step.make_train_step(
            model, optimizer, strategy, None if jit_compile else element_spec, jit_compile
        )

    return model, make


def _batch(length):
    ids = tf.constant(np.full((2, length), 3, "int32"))
    return {"inputs": ids, "targets": ids}, ids


def test_update_falls_back_to_form_without_xla():
    trained = []
    for model_class in (toy.ToyModel, _NumpyModel):
        model, make = _make(model_class)
        lines = []
        update = shape_update.ShapeUpdate(make(True), lambda make=make: make(False), lines.append)
        for length in (3, 3, 4):
            update(_batch(length))
        assert update.is_compiled_for(_batch(4))
        assert int(model.table.numpy().size) and len(lines) == (model_class is _NumpyModel)
        trained.append([variable.numpy() for variable in model.trainable_variables])
    (line,) = lines
    assert "--xla_compile=auto" in line and "PyFunc is not supported" in line and "\n" not in line
    for compiled, not_compiled in zip(*trained, strict=True):
        np.testing.assert_allclose(compiled, not_compiled, atol=1e-6)


def test_update_falls_back_if_the_trace_fails():
    """Some operations raise an error in Python, before XLA compiles them."""
    _, make = _make(_TracedModel)
    lines = []
    update = shape_update.ShapeUpdate(make(True), lambda: make(False), lines.append)
    for length in (3, 4):
        assert np.isfinite(update(_batch(length)).loss)
    assert len(lines) == 1 and "needs a dynamic shape" in lines[0]


def test_update_without_fallback_raises_the_error_of_xla():
    _, make = _make(_NumpyModel)
    with pytest.raises(xla_errors.NOT_COMPILED, match="PyFunc"):
        shape_update.ShapeUpdate(make(True))(_batch(3))


def _traced_step(traced):
    """Return a function that sums the targets, and appends the length of each traced batch."""

    @tf.function(jit_compile=True)
    def step(batch):
        traced.append(batch[1].shape[1])
        return tf.reduce_sum(batch[1])

    return step


def test_many_shapes_give_no_warning_of_tensorflow(caplog):
    traced = []
    update = shape_update.ShapeUpdate(_traced_step(traced))
    for length in range(1, 11):
        update(_batch(length))
    assert traced == list(range(1, 11))
    assert "retracing" not in caplog.text


def test_each_new_shape_shows_a_line(capsys):
    traced = []
    update = shape_update.ShapeUpdate(_traced_step(traced))
    for number, length in enumerate((3, 3, 4)):
        assert update.is_compiled_for(_batch(length)) == (number == 1)
        assert int(update(_batch(length))) == 3 * 2 * length
    assert traced == [3, 4]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Compiling the update for batches of 2 × 4…"
    assert len(lines) == 2 and lines[1].startswith("Compiled the update for batches of 2 × 4 in ")


def test_reason_is_the_first_line_of_other_errors():
    assert xla_errors.why_not_compiled(ValueError("\n one \n two")) == "one"
    assert xla_errors.why_not_compiled(NotImplementedError()) == "NotImplementedError"
