"""Invariants of models with random hparams.

Each model has these properties:

- A graph gives the outputs of eager calls.
- The outputs of an example do not depend on its batch.
- Padding has no effect, unless a property such as `why_source_padding_matters` gives a reason.
- Decoding token by token with a cache matches a full forward pass.
- The gradients are finite.
"""

import numpy as np
import pytest
import tensorflow as tf

from ut_keras import hparams, models
from ut_keras.data.features import FeatureSpec
from ut_keras.decoding import beam_search
from ut_keras.decoding import next_logits as next_logits_lib

V, C = 9, 4
_TASKS = ("both", "both", "both", "language_model", "classes", "encoder_classes", "tags")
_FAMILIES = ("transformer", "universal", "universal", "universal", "lstm")
_ATTENTIONS = (
    "self_attention_type=dot_product",
    "self_attention_type=dot_product_relative,max_relative_position=2",
    "self_attention_type=dot_product_relative_v2,max_relative_position=3",
    "self_attention_type=dot_product_relative_v2,max_relative_position=9,relative_mask_future=True",
    "self_attention_type=local_mask_right,block_length=1",
    "self_attention_type=local_mask_right,block_length=2",
    "self_attention_type=local_unmasked,block_length=2",
)
_TRANSITIONS = ("dense_relu_dense", "dense_relu_dense", "conv_relu_conv", "parameter_attention")
_HALTINGS = ("basic", "accumulated", "global", "stick_breaking", "convergence")
_RECURRENCES = ("act", "act", "act", "basic", "highway", "skip", "dwa", "gru", "lstm")


class RandomModel:
    """A random model with its batch and its description.

    Args:
        seed: int, the seed of all random choices.
    """

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.task = self.random.choice(_TASKS)
        family = self.random.choice(_FAMILIES)
        if self.task in ("encoder_classes", "tags") and family == "lstm":
            family = "universal"
        name, hparams_set, self.overrides = getattr(self, f"_{family}")()
        if self.task in ("encoder_classes", "tags"):
            name += "_encoder"
        targets = FeatureSpec(C, "class_label") if "classes" in self.task else FeatureSpec(V)
        specs = {"inputs": FeatureSpec(V), "targets": targets}
        if self.task == "language_model":
            del specs["inputs"]
        self.model = models.from_specs(name, hparams.get(hparams_set, self.overrides), specs)
        self._shake()
        self.features = self._batch()

    def _pick(self, *choices):
        return choices[self.random.randint(len(choices))]

    def _transformer(self):
        parts = [*self._common(), f"pos={self._pick('timing', 'emb', 'none')}"]
        return "transformer", "transformer_tiny", ",".join([*parts, "num_hidden_layers=2"])

    def _universal(self):
        kind = self._pick(*_RECURRENCES)
        parts = [*self._common(), f"recurrence_type={kind}", "num_rec_steps=3,act_max_steps=4"]
        counts = kind in ("gru", "lstm")
        if counts:
            parts.append("add_step_timing_signal=False")
        if self._pick(True, False, False):
            parts.append(f"position_start_index={self._pick('step', '')}")
        if not counts:
            parts.append(f"add_or_concat_timing_signal={self._pick('add', 'concat')}")
            parts.append(f"num_inrecurrence_layers={self._pick(1, 1, 2)}")
            parts.append(f"step_timing_signal_type={self._pick('learned', 'sinusoid')}")
            parts.append(f"transformer_ffn_type={self._pick('fc', 'fc', 'sepconv')}")
        parts.append(f"mix_with_transformer={self._pick('', '', 'before_ut', 'after_ut')}")
        parts.append("num_mixedin_layers=1")
        parts.append(f"act_type={self._pick(*_HALTINGS)}")
        parts.append(f"act_halted_state={self._pick('transform', 'copy')}")
        for name in ("act_mask_padding", "act_force_final_remainder"):
            parts.append(f"{name}={self._pick(True, False)}")
        parts.append(f"gates_inputs={self._pick('i', 'st', 'sti')}")
        return "universal_transformer", "adaptive_universal_transformer_tiny", ",".join(parts)

    def _lstm(self):
        if self.task == "language_model" or self._pick(True, False):
            return "lstm_seq2seq", "lstm_seq2seq", "hidden_size=12,num_hidden_layers=2"
        parts = [
            "hidden_size=12,attention_layer_size=12,num_hidden_layers=2",
            f"num_heads={self._pick(1, 2)},attention_mask_padding={self._pick(True, False)}",
            f"output_attention={self._pick(True, False)}",
        ]
        hparams_set = self._pick("lstm_bahdanau_attention", "lstm_luong_attention")
        return "lstm_seq2seq_attention", hparams_set, ",".join(parts)

    def _common(self):
        heads = self._pick(1, 1, 2, 4)
        sequences = self._pick(
            "layer_preprocess_sequence=n,layer_postprocess_sequence=da",
            "layer_preprocess_sequence=none,layer_postprocess_sequence=dan",
        )
        return [
            f"hidden_size=16,filter_size=20,num_heads={heads}",
            f"hard_attention_k={self._pick(0, 0, 0, 2)}",
            f"use_pad_remover={self._pick(True, False)}",
            f"ffn_layer={self._pick(*_TRANSITIONS)}",
            f"shared_embedding_and_softmax_weights={self._pick(True, False)}",
            f"multiply_embedding_mode={self._pick('sqrt_depth', 'none')}",
            sequences,
            self._attention(heads),
        ]

    def _attention(self, heads):
        chosen = self._pick(*_ATTENTIONS)
        # The keys and values of dot_product_relative must have the same size.
        if "dot_product_relative," not in chosen:
            chosen += f",attention_key_channels={self._pick(0, 4 * heads)}"
        if "relative_v2" in chosen:
            values = self._pick(True, False)
            shared = self._pick(True, False)
            chosen += f",add_relative_to_values={values},heads_share_relative_embedding={shared}"
        return chosen

    def _shake(self):
        for variable in self.model.trainable_variables:
            scale = 0.1
            if "pondering" in variable.path and variable.ndim == 2:
                scale = 2.0  # positions halt after different numbers of steps
            variable.assign_add(scale * self.random.normal(size=variable.shape))

    def _batch(self):
        batch, features = self._pick(1, 3, 5), {}
        for name, spec in self.model.specs.items():
            length = self.random.randint(1, 8)
            if name == "targets" and self.task == "tags":
                features[name] = np.where(features["inputs"], 2, 0).astype("int32")
            elif spec.modality == "class_label":
                features[name] = self.random.randint(0, C, [batch, 1]).astype("int32")
            else:
                ids = self.random.randint(2, V, [batch, length])
                real = np.arange(length) < self.random.randint(1, length + 1, [batch, 1])
                real[0] = True
                features[name] = np.where(real, ids, 0).astype("int32")
        return features

    def logits(self, features):
        return self.model(features, training=False)


def _check_graph(drawn):
    signature = [{name: tf.TensorSpec([None, None], tf.int32) for name in drawn.features}]
    graph = tf.function(drawn.logits, input_signature=signature, autograph=False)
    _assert_close(graph(drawn.features), drawn.logits(drawn.features))
    # `inspect` records attention, so it computes every position at every step.
    _assert_close(drawn.model.inspect(drawn.features).logits, drawn.logits(drawn.features))


def _check_rows_and_padding(drawn):
    model, features = drawn.model, drawn.features
    has_classes = model.class_labels
    may_pad = {
        "inputs": not (model.why_source_padding_matters or drawn.task == "encoder_classes"),
        "targets": not (model.why_target_padding_matters or has_classes or drawn.task == "tags"),
    }
    together = drawn.logits(features)
    wider = {name: np.pad(ids, [(0, 0), (0, 2 * may_pad[name])]) for name, ids in features.items()}
    got = drawn.logits(wider)
    _assert_close(got if has_classes else got[:, : together.shape[1]], together)
    for row in range(len(together)):
        alone = {name: ids[row : row + 1] for name, ids in features.items()}
        for name, ids in alone.items():
            if may_pad[name]:
                alone[name] = ids[:, : np.count_nonzero(ids)]
        got, want = drawn.logits(alone)[0], together[row]
        _assert_close(got, want if has_classes else want[: len(got)])


def _check_gradients(drawn):
    with tf.GradientTape() as tape:
        loss = tf.add_n(list(drawn.model.inspect(drawn.features, training=True).losses.values()))
    gradients = tape.gradient(loss, drawn.model.trainable_variables)
    assert np.isfinite(loss)
    assert sum(gradient is not None for gradient in gradients) > len(gradients) / 2
    for gradient in gradients:
        assert gradient is None or np.isfinite(tf.convert_to_tensor(gradient)).all()


def _check_cache(drawn):
    """Compare cached decoding with full forward passes.

    The check decodes three tokens with two beams, and reorders the beams after each token.
    """
    model, beams, room = drawn.model, 2, 3
    if model.class_labels or model.decoder is None or model.why_not_cached:
        return
    source = drawn.features.get("inputs", drawn.features["targets"])
    is_prompt = "inputs" not in drawn.features
    if is_prompt:
        source = np.maximum(source, 2)  # a prompt has no padding
    given = {"prompt" if is_prompt else "inputs": tf.constant(source)}
    batch = len(source)
    next_logits, cache = next_logits_lib.make(model, given, beams, tf.constant(room))
    ids, ancestors = np.zeros([2, batch, beams, room], np.int32)
    for position in range(room):
        query = beam_search.Query(tf.constant(position), tf.constant(ids), tf.constant(ancestors))
        logits, cache = next_logits(query, cache)
        written = np.concatenate([ids[:, :, :position], np.full([batch, beams, 1], 2)], axis=2)
        written = written.reshape(batch * beams, -1)
        repeated = np.repeat(source, beams, axis=0)
        if is_prompt:
            whole = {"targets": np.concatenate([repeated, written], axis=1)}
        else:
            whole = {"inputs": repeated, "targets": written}
        want = drawn.logits(whole)[:, -1]
        _assert_close(tf.reshape(logits, want.shape), want)
        parents = drawn.random.randint(0, beams, size=(batch, beams))
        ids = np.take_along_axis(ids, parents[..., None], axis=1)
        ids[:, :, position] = drawn.random.randint(2, V, size=(batch, beams))
        ancestors = np.take_along_axis(ancestors, parents[..., None], axis=1)
        ancestors[:, :, position] = parents


def _assert_close(got, want):
    scale = max(1.0, float(np.max(np.abs(want))))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * scale)


def _check(seed):
    drawn = RandomModel(seed)
    try:
        for check in (_check_graph, _check_rows_and_padding, _check_gradients, _check_cache):
            check(drawn)
    except Exception as error:
        raise AssertionError(f"{drawn.model.name} of {drawn.task}: {drawn.overrides}") from error


def test_random_model_keeps_invariants():
    _check(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 16))
def test_more_random_models_keep_invariants(seed):
    _check(seed)
