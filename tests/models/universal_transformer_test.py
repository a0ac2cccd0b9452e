import numpy as np
import pytest
import tensorflow as tf

from tests.models import examples
from ut_keras import hparam_schema, hparams, models, parts
from ut_keras.layers.depth import recurrence, recurrence_arguments, state_layer
from ut_keras.layers.halting import halting
from ut_keras.metrics import losses


def _ponder_times(out):
    return [stack.ponder_times.numpy() for stack in (out.encoder, out.decoder)]


def test_act_loss_is_mean_of_steps_and_remainders():
    """As in T2T, the mean is over all positions of the encoder and the decoder.

    The positions include padding.
    """
    model, features = (
        examples.make("adaptive", "act_loss_weight=0.1"),
        examples.features("adaptive"),
    )
    out = model.inspect(features)
    expected = sum(
        0.1 * np.mean(stack.ponder_times + stack.remainders) for stack in (out.encoder, out.decoder)
    )
    np.testing.assert_allclose(out.losses["act_loss"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "pos"),
    [
        *(("universal", "timing"), ("encoder", "emb"), ("adaptive_language_model", "timing")),
        *(
            pytest.param(kind, pos, marks=pytest.mark.slow)
            for kind, pos in (
                *(("universal", "emb"), ("encoder", "timing")),
                ("adaptive_language_model", "emb"),
            )
        ),
    ],
)
def test_pos_has_no_effect_with_step_signals(kind, pos):
    """With step signals, T2T sets pos=None.

    Without step signals, and in a Transformer, pos has an effect.
    """
    model, plain = examples.make(kind, f"pos={pos}"), examples.shared(kind)
    paths = [[variable.path for variable in each.trainable_variables] for each in (model, plain)]
    assert paths[0] == paths[1]
    features = examples.features(kind)
    np.testing.assert_array_equal(model(features), examples.logits(kind))
    alone = examples.make(kind, f"pos={pos},add_position_timing_signal=False")
    without = examples.make(kind, "add_position_timing_signal=False")
    assert np.abs(alone(features) - without(features)).max() > 1e-3
    hp = hparams.get("universal_transformer_tiny", f"{examples.SIZE},pos={pos}")
    assert models.get("transformer", hp, vocab_sizes={"targets": 9}).target_position is not None


def test_act_loss_skips_masked_padding():
    model = examples.make("adaptive", "act_loss_weight=0.1,act_mask_padding=True")
    features = examples.features("adaptive")
    features["targets"] = features["targets"].copy()
    features["targets"][0, 1] = 0  # a 0 between other tokens is not padding
    out = model.inspect(features)
    real_targets = np.arange(4) < [[4], [2], [3]]
    expected = 0.0
    for stack, real in ((out.encoder, features["inputs"] != 0), (out.decoder, real_targets)):
        assert not np.any(stack.ponder_times.numpy()[~real])
        assert np.all(stack.ponder_times.numpy()[real] >= 1)
        expected += 0.1 * (stack.ponder_times + stack.remainders).numpy()[real].mean()
    np.testing.assert_allclose(out.losses["act_loss"], expected, rtol=1e-6)


@pytest.mark.parametrize("act_type", ["basic", "global"])
@pytest.mark.parametrize(
    "kind",
    # The language model tests the decoder alone.
    ["adaptive", pytest.param("adaptive_language_model", marks=pytest.mark.slow)],
)
def test_ponder_cost_matches_single_examples(kind, act_type):
    """The batches have padding, segments, or an example that consists only of padding."""
    overrides = f"act_mask_padding=True,act_type={act_type},act_halting_bias_init=-1"
    model = examples.make(kind, overrides)
    features = examples.features(kind)
    rows = [
        {name: ids[row : row + 1, : (ids[row] != 0).sum()] for name, ids in features.items()}
        for row in range(3)
    ]
    batch = {
        name: np.pad(ids, [(0, 1), (0, 2 if name == "targets" else 0)])
        for name, ids in features.items()
    }
    packed = {f"{name}_segmentation": np.int32(ids != 0) for name, ids in batch.items()}
    want = _ponder_sums(model, rows)
    np.testing.assert_allclose(_ponder_sums(model, [batch]), want, rtol=1e-5)
    np.testing.assert_allclose(_ponder_sums(model, [{**batch, **packed}]), want, rtol=1e-5)


def _ponder_sums(model, batches):
    """Return [stacks, 2]: the numerator and the denominator of the ponder cost of each stack."""
    terms = [
        model.loss_terms(model.forward(features), features["targets"], False)["act_loss"]
        for features in batches
    ]
    return np.sum(np.float32(terms), axis=0)


def test_masked_padding_may_be_attended_to():
    """The attention of a unidirectional encoder does not mask empty sentences."""
    overrides = "unidirectional_encoder=True,act_halted_state=copy,act_mask_padding=True"
    model, features = examples.make("stories", overrides), examples.features("stories")
    want = model.inspect(features).logits
    np.testing.assert_allclose(model(features, training=False), want, atol=1e-5)


def test_padding_does_not_extend_the_loop():
    """All examples consist of masked padding, so the loop runs no step."""
    model = examples.make("adaptive", "act_mask_padding=True,act_halting_bias_init=20.0")
    features = {name: 0 * ids for name, ids in examples.features("adaptive").items()}
    out = model.inspect(features)
    for stack in (out.encoder, out.decoder):
        assert stack.attention_weights.shape[0] == 0
        assert not np.any(stack.ponder_times)


@pytest.mark.parametrize("start", ["step", "random"])
def test_halted_positions_are_skipped_for_any_start(start):
    """At inference, `forward` skips halted positions. `inspect` computes all positions."""
    overrides = f"act_halted_state=copy,position_start_index={start},act_max_steps=5"
    model = examples.make("adaptive", overrides)
    features = examples.features("adaptive")
    kernel = model.encoder.depth.halting.kernel
    kernel.assign(np.random.RandomState(0).normal(size=kernel.shape))
    ponder_times = model.forward(features, training=False).encoder.ponder_times.numpy()
    assert ponder_times.min() < ponder_times.max()
    if start == "step":
        want = model.inspect(features).logits
        np.testing.assert_allclose(model(features, training=False), want, atol=1e-5)


def test_call_adds_ponder_cost_to_keras_losses():
    model, features = examples.shared("adaptive"), examples.features("adaptive")
    model(features, training=False)
    np.testing.assert_allclose(sum(model.losses), model.inspect(features).losses["act_loss"])
    for kind in ("universal", "transformer"):
        examples.shared(kind)(examples.features(kind))
        assert not examples.shared(kind).losses


class _Taxed(recurrence.BasicRecurrence):
    """A recurrence with a fixed number of steps and a ponder cost."""

    def forward(self, state, inputs):
        result = super().forward(state, inputs)
        steps = tf.fill(tf.shape(state)[:2], float(self.num_steps))
        return result._replace(ponder_times=steps)

    def ponder_terms(self, result, padding_mask, rows=None):
        return [state_layer.ponder_term(result.ponder_times, 0.5, padding_mask, rows)]


@pytest.mark.parametrize("mixed", ["", ",mix_with_transformer=before_ut"])
def test_loss_includes_ponder_cost_of_user_recurrence(monkeypatch, mixed):
    def make(hp, side):
        return _Taxed(**recurrence_arguments.arguments(hp, side), num_steps=3)

    monkeypatch.setitem(parts.recurrences._entries, "taxed", make)
    model = examples.make("universal", "recurrence_type=taxed" + mixed)
    features = examples.features("universal")
    terms = model.loss_terms(model.forward(features), features["targets"], True)
    assert [float(term.value()) for term in terms["act_loss"]] == [1.5, 1.5]
    assert model.inspect(features).losses["act_loss"] == 3.0
    model.compile(run_eagerly=True)
    with_cost = model.evaluate(features, features["targets"], verbose=0, return_dict=True)["loss"]
    free = model.loss_terms(model.forward(features), features["targets"], False)["training"]
    np.testing.assert_allclose(with_cost, 3.0 + free[0].value(), rtol=1e-6)


def test_user_rule_that_looks_ahead_is_not_cached(monkeypatch):
    class Together(halting.ACTHalting):
        def __init__(self, max_steps):
            super().__init__(max_steps)
            self.per_example, self.halts_independently = True, False

        def halt(self, step, halting):
            p = tf.reduce_mean(tf.sigmoid(self(step.x)), axis=[1, 2])
            return self.accumulate(p, step, halting, forced=True)

    monkeypatch.setitem(parts.haltings._entries, "together", lambda hp, side: Together(3))
    for mixed in ("", ",mix_with_transformer=before_ut"):
        model = examples.make("adaptive", "act_type=together" + mixed)
        assert "act_type=together lets a position depend" in model.why_not_cached
        assert not model.decoder_is_causal
        assert "act_type=together halts by a mean" in model.why_source_padding_matters
    assert model.forward(examples.features("adaptive")).decoder.ponder_times.shape == (3,)


def test_act_loss_weight_zero():
    model = examples.make("adaptive", "act_loss_weight=0.0")
    out = model.inspect(examples.features("adaptive"))
    assert set(out.losses) == {"training", "extra"}
    assert out.encoder.ponder_times is not None


def test_dwa_decodes_in_bfloat16():
    """The model uses the step embedding outside of a Keras call, so Keras does not cast it."""
    model = examples.make("universal", "recurrence_type=dwa,activation_dtype=bfloat16")
    inputs = {"inputs": examples.INPUTS}
    cached, whole = (model.generate(inputs, decode_length=2, cache=use) for use in (True, False))
    np.testing.assert_allclose(cached.scores, whole.scores, rtol=0.05)


def test_halting_bias_determines_steps():
    features = examples.features("adaptive")
    for bias, steps in ((20.0, 1), (-20.0, 3)):
        model = examples.make("adaptive", f"act_halting_bias_init={bias}")
        for ponder_times in _ponder_times(model.inspect(features)):
            np.testing.assert_array_equal(ponder_times, np.full_like(ponder_times, steps))


def test_options_reach_the_layers():
    model = examples.make(
        "adaptive",
        "act_type=accumulated,act_epsilon=0.2,act_halted_state=copy,act_mask_padding=True,"
        "act_force_final_remainder=True,position_start_index=step,num_inrecurrence_layers=2,"
        "step_timing_signal_type=sinusoid,add_or_concat_timing_signal=concat,norm_epsilon=0.1",
    )
    for stack in (model.encoder, model.decoder):
        assert stack.depth.halted_state == "copy"
        config = stack.depth.halting.get_config()
        wanted = {
            "act_type": "accumulated",
            "epsilon": 0.2,
            "mask_padding": True,
            "force_final_remainder": True,
            "max_steps": 3,
        }
        assert {name: config[name] for name in wanted} == wanted
        timing = stack.depth.timing
        assert (timing.position_start_index, timing.step, timing.combine) == (
            "step",
            "sinusoid",
            "concat",
        )
        assert len(stack.depth.block.layers) == 2
        assert {layer.epsilon for layer in stack.depth.block.layers} == {0.1}
    out = model.inspect(examples.features("adaptive"))
    assert np.isfinite(out.logits).all()
    # The weights of every real position sum to 1, so the last step has a remainder.
    real = examples.INPUTS != 0
    assert np.all(out.encoder.remainders.numpy()[real] > 0)


# For "global", exit_threshold_test.py covers searches, and t2t_golden_test.py covers training.
@pytest.mark.parametrize("act_type", [pytest.param("global", marks=pytest.mark.slow), "random"])
def test_other_act_types_train(act_type):
    model, features = (
        examples.make("adaptive", f"act_type={act_type}"),
        examples.features("adaptive"),
    )
    out = model.inspect(features, training=True)
    for ponder_times, length in zip(_ponder_times(out), (5, 4), strict=True):
        assert ponder_times.shape == ((3,) if act_type == "global" else (3, length))
        assert np.all((ponder_times >= 1) & (ponder_times <= 3))
    assert np.isfinite(out.losses["act_loss"])
    ids = model.generate({"inputs": features["inputs"]}, decode_length=1).ids
    assert ids.shape[2] <= 6


@pytest.mark.parametrize("start", ["random", "step"])
def test_start_index_depends_on_length(start):
    model = examples.make("universal", f"position_start_index={start}")
    assert not model.decoder_is_causal
    features = examples.features("universal")
    assert np.isfinite(model(features)).all()
    assert model.generate(features, decode_length=1).ids.shape[2] <= 6


def test_convolutional_transition():
    model = examples.make("universal", "transformer_ffn_type=sepconv")
    features = examples.features("universal")
    changed = {**features, "targets": features["targets"].copy()}
    changed["targets"][:, 2:] = 5
    logits = model(features)
    np.testing.assert_allclose(logits[:, :3], model(changed)[:, :3], atol=1e-5)
    wider = {**features, "inputs": np.pad(features["inputs"], [(0, 0), (0, 3)])}
    np.testing.assert_allclose(logits, model(wider), atol=1e-4)


def test_more_steps_use_the_same_weights():
    features, signal = examples.features("universal"), "add_step_timing_signal=False"
    one, two = (examples.make("universal", f"num_rec_steps={steps},{signal}") for steps in (1, 2))
    for a, b in zip(one.get_weights(), two.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(one(features) - two(features)).max() > 1e-2


def test_class_mean_includes_padding():
    """As in T2T, the mean is over all positions, so padding changes the logits of a class."""
    model, features = examples.shared("encoder"), examples.features("encoder")
    wider = {**features, "inputs": np.pad(features["inputs"], [(0, 0), (0, 5)])}
    assert np.abs(examples.logits("encoder") - model(wider)).max() > 1e-3


_NO_DROPOUT = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
_PONDER_NET = "act_type=ponder_net,act_halting_bias_init=-1,act_loss_weight=0.1"


def test_ponder_net_loss_is_expected_loss_over_steps():
    """The reference is the weighted sum of the losses of models with 1, 2 and 3 steps."""
    kind = "adaptive_language_model"
    common = f"{_NO_DROPOUT},step_timing_signal_type=sinusoid,label_smoothing=0.1"
    model = examples.make(kind, f"{common},{_PONDER_NET}")
    features = examples.features(kind)
    targets = features["targets"]
    rows = np.float32([2, 0, 0.5])
    output = model.forward(features, training=True)
    weights = output.decoder.steps.weights
    assert np.sum((weights > 0.05) & (weights < 0.95)) > 6
    want = 0.0
    for n in (1, 2, 3):
        steps = examples.make(kind, f"{common},act_type=convergence,act_max_steps={n}")
        for to, source in zip(steps.trainable_variables, _but_pondering(model), strict=True):
            to.assign(source)
        (term,) = steps.loss_terms(
            steps.forward(features, training=True), targets, True, rows[:, None] * weights[n - 1]
        )["training"]
        want += term.numerator
    terms = model.loss_terms(output, targets, True, rows)
    (term,) = terms["training"]
    np.testing.assert_allclose(term.numerator, want, rtol=1e-5)
    np.testing.assert_allclose(term.denominator, np.sum(rows * (targets != 0).sum(1)))
    (cost,) = terms["act_loss"]
    by_row = 0.1 * output.decoder.ponder_cost.numpy().sum(1)
    np.testing.assert_allclose(cost.numerator, np.sum(rows * by_row), rtol=1e-5)
    # As in T2T, evaluation includes only the loss of the prediction.
    output = model.forward(features, training=False)
    (term,) = model.loss_terms(output, targets, False)["training"]
    want = losses.target_term(output.logits, targets, 0.0, False)
    assert term.numerator == want.numerator


def _but_pondering(model):
    return [value for value in model.trainable_variables if "pondering" not in value.path]


@pytest.mark.parametrize("kind", ["adaptive", "classes"])
def test_ponder_net_in_fit_matches_trainer(kind):
    """The model has an encoder and a decoder. For class targets, the decoder has one position."""
    overrides = f"{_NO_DROPOUT},{_PONDER_NET}"
    features = examples.features("adaptive")
    model = examples.make("adaptive", overrides)
    if kind == "classes":
        hp = model.hparams
        specs = {"inputs": examples.SYMBOLS, "targets": examples.LABELS}
        model = models.from_specs("universal_transformer", hp, specs)
        features["targets"] = examples.CLASSES
    targets = features["targets"]
    output = model.forward(features, training=True)
    assert output.encoder.steps is None
    terms = model.loss_terms(output, targets, True)
    assert len(terms["act_loss"]) == 2
    model.compile(run_eagerly=True)
    got = model.train_on_batch(features, targets, return_dict=True)["loss"]
    np.testing.assert_allclose(got, losses.total(terms), rtol=1e-5)
    model.compile(loss="sparse_categorical_crossentropy", run_eagerly=True)
    with pytest.raises(ValueError, match="^loss .*Received: 'sparse_categorical_crossentropy'"):
        model.train_on_batch(features, targets)


@pytest.mark.parametrize("kind", ["encoder", "tagger"])
def test_ponder_net_without_decoder(kind):
    """For a class, the weight of a step is the mean of its probabilities over all positions."""
    settings = f"recurrence_type=act,act_max_steps=3,{_NO_DROPOUT},{_PONDER_NET},act_mask_padding=1"
    model, features = examples.make(kind, settings), examples.features(kind)
    targets = features["targets"]
    output = model.forward(features, training=True)
    states, weights, _ = output.encoder.steps
    real = features["inputs"] != 0
    np.testing.assert_allclose(tf.reduce_sum(weights, 0), real, atol=1e-5)
    if kind == "encoder":
        weights = (np.sum(weights, axis=2) / real.sum(1))[..., None]
    want = 0.0
    for state, weight in zip(states, weights, strict=True):
        of_step = losses.target_term(model.logits(state), targets, 0.0, kind == "encoder", weight)
        want += of_step.numerator
    terms = model.loss_terms(output, targets, False)
    np.testing.assert_allclose(terms["training"][0].numerator, want, rtol=1e-5)
    model.compile(run_eagerly=True)
    got = model.train_on_batch(features, targets, return_dict=True)["loss"]
    wanted = losses.total(model.loss_terms(output, targets, True))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert model.forward(features).encoder.steps is None


def test_class_loss_matches_prediction():
    """The model predicts a class from the mean of all positions. Masked padding has the state 0."""
    settings = f"{_NO_DROPOUT},act_type=ponder_net,act_mask_padding=1,act_halting_bias_init=20"
    model, features = examples.make("encoder", settings), examples.features("encoder")
    trained, answered = (  # the model takes one step
        model.loss_terms(model.forward(features, training), features["targets"], False)["training"]
        for training in (True, False)
    )
    np.testing.assert_allclose(trained[0].value(), answered[0].value(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "tagger"])
def test_q_halt_trains_all_steps_and_confidence(kind):
    """Training uses the losses and the confidence of all steps.

    For a class, all positions of an example halt at the same step.
    """
    settings = "recurrence_type=act,act_max_steps=3,act_mask_padding=1,act_loss_weight=0.1"
    settings += f",{_NO_DROPOUT},label_smoothing=0,act_type=q_halt,act_epsilon=0.5"
    of_rows = kind == "encoder"
    model = examples.make(kind, f"{settings},class_label_pooling={'last' if of_rows else 'mean'}")
    features = examples.features(kind)
    targets = features["targets"] if of_rows else features["inputs"]
    real = features["inputs"] != 0
    output = model.forward(features, training=True)
    rule, first = model.encoder.depth.halting, output.encoder.steps.confidence[0]
    rule.bias.assign_sub([np.median(first[real] if kind == "tagger" else first)])
    output = model.forward(features, training=True)
    states, _, confidence = output.encoder.steps
    # The shape is [N, B, C] or [N, B, T, V].
    logits = np.stack([model.logits(state, padding_mask=real) for state in states])

    want = sum(losses.target_term(x, targets, 0.0, of_rows).numerator for x in logits) / 3
    terms = model.loss_terms(output, targets, training=True)
    np.testing.assert_allclose(terms["training"][0].numerator, want, rtol=1e-5)
    labels, counted = (targets[:, 0], np.ones(examples.B)) if of_rows else (targets, real)
    right = logits.argmax(-1) == labels
    missed = np.log1p(np.exp(np.where(right, -1, 1) * np.asarray(confidence)))
    term = terms["act_loss"][-1]
    np.testing.assert_allclose(term.numerator, 0.1 * np.sum(counted * missed) / 3, rtol=1e-5)
    np.testing.assert_allclose(term.denominator, counted.sum())

    # At inference, the model predicts from one of the trained steps.
    answer = model.forward(features)
    taken = np.int64(answer.encoder.ponder_times)
    units = np.ones(examples.B, bool) if of_rows else real
    assert len(set(taken[units])) > 1 and answer.encoder.steps is None
    chosen = np.moveaxis(logits, 0, -1)[units, :, taken[units] - 1]
    np.testing.assert_allclose(answer.logits[units], chosen, atol=1e-5)

    model.compile(run_eagerly=True)
    got = model.train_on_batch(features, targets, return_dict=True)["loss"]
    np.testing.assert_allclose(
        got, losses.total(model.loss_terms(output, targets, True)), rtol=1e-5
    )


def test_losses_of_steps_require_recurrence_at_the_end(monkeypatch):
    monkeypatch.setattr(halting.ACTHalting, "expected_loss", True)  # a user's rule may do this
    for kind, more in (
        ("adaptive", "act_type=ponder_net"),
        ("encoder", "act_type=ponder_net"),
        ("encoder", "act_type=q_halt"),
        ("encoder", "act_type=basic"),
        ("universal", "recurrence_supervised_every=2"),
    ):
        with pytest.raises(
            hparam_schema.HParamError, match="Received: mix_with_transformer='after_ut'"
        ):
            examples.make(kind, f"{more},mix_with_transformer=after_ut")
    with pytest.raises(hparam_schema.HParamError, match="act_type=q_halt .*Received: univ"):
        examples.make("adaptive", "act_type=q_halt")
    model = examples.make("adaptive", "act_type=ponder_net,mix_with_transformer=before_ut")
    output = model.inspect(examples.features("adaptive"), training=True)
    assert np.isfinite(output.losses["training"])


def test_universal_transformer_rejects_arguments():
    sizes = {"inputs": 9, "targets": 9}
    with pytest.raises(
        hparam_schema.HParamError, match="UniversalTransformer .*Received: TransformerHParams"
    ):
        models.get("universal_transformer", hparams.get("transformer_tiny"), vocab_sizes=sizes)
    hp = hparams.get("universal_transformer_tiny")
    with pytest.raises(ValueError, match="inputs.* Received: a problem with targets"):
        models.get("universal_transformer_encoder", hp, vocab_sizes={"targets": 9})
    hp = hp.override("activation_dtype=float16")
    with pytest.raises(hparam_schema.HParamError, match="activation_dtype='float16'"):
        models.get("universal_transformer", hp, vocab_sizes=sizes)


def test_packed_rows_need_a_position_that_is_added_once(caplog):
    """As in T2T, position signals that each step adds count from the start of a packed row."""
    short, long = np.array([[9, 1]], "int32"), np.array([[5, 3, 7, 2, 1]], "int32")
    packed = {
        "inputs": np.concatenate([short, long], axis=1),
        "inputs_segmentation": np.array([[1, 1, 2, 2, 2, 2, 2]], "int32"),
        "inputs_position": np.array([[0, 1, 0, 1, 2, 3, 4]], "int32"),
    }
    for overrides, are_equal in (
        ("", False),
        ("add_position_timing_signal=False,pos=timing", True),
    ):
        model = examples.make("tagger", overrides)
        caplog.clear()
        logits = [model(packed, training=False) for _ in range(2)][0]
        notes = [record for record in caplog.records if "pos=timing" in record.getMessage()]
        assert len(notes) == (0 if are_equal else 1)
        difference = np.abs(logits[:, 2:] - model({"inputs": long}, training=False)).max()
        assert (difference < 1e-5) == are_equal
