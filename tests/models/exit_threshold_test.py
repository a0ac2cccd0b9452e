"""`exit_threshold` changes the halting threshold of a trained model at inference."""

import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import parts
from ut_keras.layers.halting import halting

_SHALLOW = "act_max_steps=4,act_halting_bias_init=-1.5"
VARIANTS = {
    "act": ("adaptive", _SHALLOW, 0.4),
    "act_copy": ("adaptive", f"{_SHALLOW},act_halted_state=copy", 0.4),
    "global": ("adaptive", f"{_SHALLOW},act_type=global", 0.4),
    "ponder_net": ("adaptive", f"{_SHALLOW},act_type=ponder_net", 0.4),
    "stick_breaking": ("adaptive", f"{_SHALLOW},act_type=stick_breaking", 0.2),
    "q_halt": ("encoder", f"{_SHALLOW},act_type=q_halt", 0.15),
    "convergence": ("encoder", f"{_SHALLOW},act_type=convergence", 0.2),
}


def _both(variant):
    """Return (model, reference model, features, threshold).

    The hparams of the reference model set the threshold. Both models have the same weights.
    """
    kind, overrides, threshold = VARIANTS[variant]
    model = examples.make(kind, overrides)
    wanted = examples.make(kind, f"{overrides},act_epsilon={1 - threshold}")
    wanted.set_weights(model.get_weights())
    return model, wanted, examples.features(kind), threshold


@pytest.mark.parametrize("variant", VARIANTS)
def test_exit_threshold_matches_model_made_with_it(variant):
    model, wanted, features, threshold = _both(variant)
    as_ever = model.inspect(features).encoder.ponder_times
    got = model.forward(features, exit_threshold=threshold)
    want = wanted.forward(features)
    np.testing.assert_allclose(got.logits, want.logits, atol=1e-5)
    np.testing.assert_array_equal(got.encoder.ponder_times, want.encoder.ponder_times)
    assert np.sum(got.encoder.ponder_times) < np.sum(as_ever)
    np.testing.assert_array_equal(model.inspect(features).encoder.ponder_times, as_ever)


@pytest.mark.slow
@pytest.mark.parametrize("variant", [n for n in VARIANTS if VARIANTS[n][0] == "adaptive"])
def test_exit_threshold_decodes_like_model_made_with_it(variant):
    model, wanted, features, threshold = _both(variant)
    one, other = (
        model.generate(features, 2, exit_threshold=threshold, decode_length=1, **options)
        for options in ({"return_steps": True}, {"cache": False})
    )
    found = wanted.generate(features, 2, decode_length=1, return_steps=True)
    np.testing.assert_array_equal(one.ids, found.ids)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_allclose(one.scores, found.scores, rtol=1e-4)
    np.testing.assert_array_equal(one.source_steps, found.source_steps)
    np.testing.assert_array_equal(one.target_steps, found.target_steps)
    score = model.score(features, exit_threshold=threshold)
    np.testing.assert_allclose(score, wanted.score(features), rtol=1e-4)


def test_higher_exit_threshold_takes_more_steps():
    model = examples.make("adaptive", "act_max_steps=4,act_type=ponder_net,act_epsilon=0.1")
    features = examples.features("adaptive")
    as_ever, deep = (
        np.array(model.forward(features, exit_threshold=threshold).encoder.ponder_times)
        for threshold in (None, 0.9999)
    )
    assert np.all(deep >= as_ever) and np.sum(deep) > np.sum(as_ever)


def test_exit_threshold_rejects_models_and_values():
    features = examples.features("universal")
    methods = ("generate", "score", "forward")
    for kind, message in {
        "universal": "^exit_threshold .*recurrence_type=",
        "transformer": "^exit_threshold .*exit_threshold=.* Transformer",
        "lstm": "^exit_threshold .*exit_threshold=.* LSTMSeq2seq",
    }.items():
        model = examples.make(kind)
        for method in methods:
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(features, exit_threshold=0.5)
    model = examples.make("adaptive")
    for wrong in (-0.1, 0, 0.0, 1.5, float("nan"), "0.5"):
        for method in methods:
            with pytest.raises(ValueError, match="exit_threshold must be"):
                getattr(model, method)(features, exit_threshold=wrong)


@pytest.mark.parametrize(
    "rest", ["", pytest.param(",act_halted_state=copy", marks=pytest.mark.slow)]
)
def test_exit_threshold_rejects_rule_that_ignores_it(monkeypatch, rest):
    class OwnLimit(halting.ACTHalting):
        def halt(self, step, before):
            p = tf.sigmoid(self(step.x))[..., 0]
            return self.halt_where(p > 1 - self.epsilon, step, before)

    monkeypatch.setitem(parts.haltings._entries, "own_limit", lambda hp, side: OwnLimit(3))
    model, features = (
        examples.make("adaptive", f"act_type=own_limit{rest}"),
        examples.features("adaptive"),
    )
    model.generate(features, decode_length=1)
    for method in ("generate", "score", "forward"):
        with pytest.raises(ValueError, match="reads `step.epsilon`. Received: OwnLimit"):
            getattr(model, method)(features, exit_threshold=0.5)
