import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers import optimizer_examples as examples
from ut_keras.optimizers import adam, learning_rate


def _mean(batches):
    return {name: np.mean([batch[name] for batch in batches], axis=0) for name in batches[0]}


@pytest.mark.parametrize("mode", examples.MODES)
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_accumulation_equals_adam_on_the_mean(mode, steps):
    batches = examples.gradients()
    means = [_mean(batches[at : at + steps]) for at in range(0, len(batches), steps)]
    expected = examples.train(adam.Adam(0.1), batches=means)
    optimizer = adam.MultistepAdam(0.1, accumulate_steps=steps)
    examples.assert_same(examples.train(optimizer, mode), expected)
    assert int(optimizer.iterations) == examples.STEPS


def test_accumulation_updates_only_at_the_last_batch():
    optimizer = adam.MultistepAdam(0.1, accumulate_steps=4)
    examples.assert_same(
        examples.train(optimizer, batches=examples.gradients()[:3]), examples.values(0)
    )
    accumulated = optimizer.slots()["bias"][2].numpy()
    np.testing.assert_allclose(accumulated, 3 * _mean(examples.gradients()[:3])["bias"], rtol=1e-5)


def test_accumulation_uses_the_rate_of_the_last_batch():
    """As in T2T, the schedule divides the number of batches by `accumulate_steps`.

    Therefore, the step of the first update is 1/2.
    """
    schedule = learning_rate.HParamsSchedule(
        learning_rate_schedule="constant*linear_warmup",
        learning_rate_constant=0.1,
        learning_rate_warmup_steps=10,
        optimizer_multistep_accumulate_steps=2,
    )
    batches = examples.gradients()
    first = examples.train(adam.MultistepAdam(schedule, 2), batches=batches[:2])
    expected = examples.train(adam.Adam(0.1 * 0.5 / 10), batches=[_mean(batches[:2])])
    examples.assert_same(first, expected)


def test_accumulate_steps_must_be_positive():
    with pytest.raises(ValueError, match="at least 1. Received: accumulate_steps=0"):
        adam.MultistepAdam(accumulate_steps=0)


@pytest.mark.parametrize("mode", examples.MODES)
def test_adam_w_decays_weights_before_each_update(mode):
    """Adam's updates do not depend on the weights, so weight decay does not change the updates."""
    batches, share = examples.gradients(), 0.25
    expected = examples.values(0)
    plain = [examples.train(adam.Adam(0.1), batches=batches[:n]) for n in range(len(batches) + 1)]
    for before, after in zip(plain, plain[1:], strict=False):
        expected = {
            name: (1 - share) * value + after[name] - before[name]
            for name, value in expected.items()
        }
    optimizer = adam.AdamW(0.1, share)
    examples.assert_same(examples.train(optimizer, mode), expected)
    assert adam.AdamW.from_config(optimizer.get_config()).decay == share


@pytest.mark.parametrize("cls", [adam.Adam, adam.AdamW])
def test_variables_of_an_update_share_the_powers(cls):
    variables = [keras.Variable(tf.ones([size])) for size in (1, 2, 3)]
    optimizer = cls(0.1)
    optimizer.build(variables)
    gradients = [2 * tf.ones(variable.shape) for variable in variables]
    update = tf.function(lambda: optimizer.apply(gradients), autograph=False)
    operations = [op.type for op in update.get_concrete_function().graph.get_operations()]
    assert operations.count("Pow") == 2 and operations.count("ResourceApplyAdam") == 3
    together = []
    for _ in range(3):
        update()
        optimizer.apply(gradients)  # an eager update computes new powers
        together.append([float(variable[0]) for variable in variables])
    alone, values = cls(0.1), []
    single = keras.Variable(tf.ones([1]))
    alone.build([single])
    for _ in range(3):
        alone.apply(gradients[:1])
        alone.apply(gradients[:1])
        values.append([float(single[0])] * 3)
    assert together == values


@pytest.mark.parametrize("make", [adam.Adam, adam.AdamW, adam.MultistepAdam])
def test_build_rejects_a_decay_that_is_1_in_the_dtype_of_a_weight(make):
    weight = keras.Variable(np.ones([2]), dtype="bfloat16", name="weight")
    with pytest.raises(ValueError, match=r"beta_2=0\.999, which is 1 in bfloat16.*weight"):
        make(0.1, beta_2=0.999).build([weight])


def test_weights_in_bfloat16_are_trained():
    weight = keras.Variable(np.ones([2]), dtype="bfloat16", name="weight")
    adam.Adam(0.1).apply([tf.ones([2], tf.bfloat16)], [weight])
    np.testing.assert_allclose(weight.numpy().astype("float32"), 0.9, rtol=0.02)
