import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import forks
from tests.training import toy
from ut_keras import optimizers
from ut_keras.metrics import losses
from ut_keras.training import distribution, train_step


@pytest.fixture(scope="module")
def two_replicas():
    """Return the results of two_replicas.py, which trains on one and on two logical CPUs."""
    done = forks.run(["-m", "tests.training.two_replicas"], timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


_RUNS = [
    *("toy", "adaptive", "recomputed", "truncated", "segmented"),
    *("adafactor", "multistep_adam", "rms_prop"),
]


@pytest.mark.slow
@pytest.mark.parametrize("model", _RUNS)
def test_two_replicas_equal_one(two_replicas, model):
    one, two = two_replicas[model]
    assert (one["replicas"], two["replicas"]) == (1, 2)
    for key in ("losses", "tokens", "sequences", "ponder"):
        np.testing.assert_allclose(two[key], one[key], rtol=1e-5, err_msg=key)
    for a, b in zip(two["weights"], one["weights"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert two["evaluation"] == pytest.approx(one["evaluation"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", _RUNS)
def test_replicas_stay_equal_and_are_traced_once(two_replicas, model):
    _, two = two_replicas[model]
    assert two["replica_difference"] == 0.0
    assert two["traces"] == 1


def _step(jit_compile=False):
    keras.utils.set_random_seed(0)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        model = toy.ToyModel()
        optimizer = optimizers.Adam(0.01, epsilon=1e-3)
        optimizer.build(model.trainable_variables)
    spec = tf.TensorSpec((None, None), tf.int32)
    element_spec = ({"inputs": spec, "targets": spec}, spec)
    step = train_step.make_train_step(model, optimizer, strategy, element_spec, jit_compile)
    return model, step


def _batches():
    return list(toy.dataset())


def test_step_minimises_the_total_loss():
    model, step = _step()
    features, targets = _batches()[0]
    terms = model.loss_terms(model.forward(features, training=True), targets, training=True)
    result = step((features, targets))
    assert float(result.loss) == pytest.approx(float(losses.total(terms)), rel=1e-6)
    assert set(result.losses) == {"training", "act_loss"}
    assert float(step((features, targets)).loss) < float(result.loss)


def test_counts_exclude_padding():
    _, step = _step()
    ids = tf.constant([[3, 4, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    result = step(({"inputs": ids, "targets": ids}, ids))
    assert float(result.tokens) == 8
    assert float(train_step._count_tokens({"inputs_position": ids, "targets": ids}, ids)) == 4
    assert float(result.sequences) == 2
    assert float(result.ponder_count) == 4
    assert float(result.ponder_sum) == 8


def test_xla_equals_graph():
    model, step = _step()
    compiled_model, compiled = _step(jit_compile=True)
    # XLA compiles the update once per shape, so this test uses only one shape.
    batch = _batches()[0]
    for _ in range(2):
        expected, actual = step(batch), compiled(batch)
    assert float(actual.loss) == pytest.approx(float(expected.loss), rel=1e-5)
    for a, b in zip(compiled_model.trainable_variables, model.trainable_variables, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)


def test_all_lengths_share_one_trace():
    _, step = _step()
    batches = _batches()
    assert len({batch[1].shape for batch in batches}) > 1
    for batch in batches:
        step(batch)
    assert step.experimental_get_tracing_count() == 1


def test_sequence_of_padding_and_length_one():
    _, step = _step()
    for ids in ([[0, 0]], [[1]], [[0]]):
        ids = tf.constant(ids)
        assert np.isfinite(float(step(({"inputs": ids, "targets": ids}, ids)).loss))


def test_accumulated_batches_equal_one_large_batch():
    """The updates are equal only because the small batches have equal numbers of tokens."""
    ids = np.random.RandomState(0).randint(2, toy.VOCAB_SIZE, (8, 5)).astype("int32")
    halves, wholes = np.split(ids, 4), np.split(ids, 2)
    accumulating = optimizers.MultistepAdam(0.01, accumulate_steps=2, epsilon=1e-3)
    trained = {}
    for name, optimizer, batches in (
        ("halves", accumulating, halves),
        ("wholes", optimizers.Adam(0.01, epsilon=1e-3), wholes),
    ):
        keras.utils.set_random_seed(0)
        model = toy.ToyModel()
        optimizer.build(model.trainable_variables)
        spec = tf.TensorSpec((None, None), tf.int32)
        element_spec = ({"inputs": spec, "targets": spec}, spec)
        strategy = distribution.get_strategy(devices=["CPU:0"])
        step = train_step.make_train_step(model, optimizer, strategy, element_spec)
        for batch in map(tf.constant, batches):
            step(({"inputs": batch, "targets": batch}, batch))
        trained[name] = [variable.numpy() for variable in model.trainable_variables]
    for a, b in zip(trained["halves"], trained["wholes"], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
