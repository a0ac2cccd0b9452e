import numpy as np
import pytest
import tensorflow as tf

from tests.layers import layer_checks
from ut_keras.layers.basic.signature import StepInputs
from ut_keras.layers.depth import recurrence, step_sampling
from ut_keras.layers.position import timing_signal


@pytest.mark.parametrize("mode", ["graph", "xla"])
@pytest.mark.parametrize("kind", step_sampling.KINDS)
def test_distribution(kind, mode):
    layer, count = step_sampling.StepSampling(kind, 6), 4000

    @tf.function(jit_compile=mode == "xla")
    def draw():
        none = tf.zeros([count], tf.int32)
        return tf.map_fn(lambda _: layer.draw(), none, parallel_iterations=1)

    numbers = draw().numpy()
    if kind == "uniform":
        shares = np.bincount(numbers, minlength=7) / count
        assert shares[0] == 0 and len(shares) == 7 == layer.most + 1
        np.testing.assert_allclose(shares[1:], 1 / 6, atol=5 * (1 / 6 / count) ** 0.5)
    else:
        # Var(n) = E(r) + Var(r);  Var(r) = (e^(1/4) - 1) E(r)^2
        variance = 6 + (np.exp(0.25) - 1) * 36
        assert abs(numbers.mean() - 7) < 5 * (variance / count) ** 0.5
        assert abs(numbers.var() / variance - 1) < 0.2
        assert numbers.min() >= 1 and 15 < numbers.max() <= layer.most == 24


@pytest.mark.parametrize("kind", step_sampling.KINDS)
def test_steps_of_a_recurrence(kind):
    """Drawn in training, the same of a whole batch; as many as ever at inference."""
    timing = timing_signal.StepTimingSignal(3, position=False, step=None)
    block = layer_checks.StubBlock(lambda x, training: x + 1.0)
    layer = recurrence.BasicRecurrence(block, timing, 3, steps_sampling=kind)
    call = tf.function(lambda x, training: layer.forward(x, StepInputs(training=training)).output)
    zeros, drawn = tf.zeros([2, 4, 8]), set()
    for _ in range(40):
        (steps,) = np.unique(call(zeros, True))
        drawn.add(steps)
    assert drawn >= {1, 2, 3} and max(drawn) <= layer.steps_sampling.most
    assert (max(drawn) > 3) == (kind != "uniform")
    assert np.all(call(zeros, False) == 3.0)
    layer = recurrence.BasicRecurrence(layer_checks.make_block(8), timing, 3, steps_sampling=kind)
    assert layer.from_config(layer.get_config()).steps_sampling.kind == kind


def test_refuses():
    with pytest.raises(ValueError, match="kind must be one of .*Received: 'normal'"):
        step_sampling.StepSampling("normal", 3)
