import numpy as np
import pytest
import tensorflow as tf

from tests import t2t_golden_test as t2t
from tests.models import examples
from ut_keras import errors, hparam_schema, t2t_import
from ut_keras.decoding import batch_plan

PREFIX = "transformer_encoder/"


def test_transformer_encoder_matches_t2t():
    """T2T's `TransformerEncoder` is the encoder of its `Transformer` in another variable scope."""
    setting, arrays = t2t._load("model", "transformer_prenorm.a")
    variables = {
        name.replace("transformer/", PREFIX, 1): value
        for name, value in t2t._group(arrays, "var/").items()
        if "/decoder/" not in name
    }
    model = t2t_import.build_model(
        "transformer_encoder", t2t._t2t_hparams(setting), variables, setting["target_space_id"]
    )
    out = model.inspect({"inputs": arrays["inputs"], "targets": arrays["inputs"]})
    np.testing.assert_allclose(out.encoder.output, arrays["encoder_output"], atol=2e-5)
    assert out.decoder is None
    assert t2t_import.export_variables(model).keys() == variables.keys()


def test_class_weights_have_t2t_names():
    exported = t2t_import.export_variables(examples.shared("plain_encoder"))
    head = PREFIX + "class_label_modality_4_16/class_label_modality_4_16/dense/"
    assert {head + "kernel", head + "bias"} < exported.keys()


@pytest.mark.parametrize("kind", ["plain_encoder", "transformer", "tagger"])
def test_unidirectional_encoder_is_causal(kind):
    """As in T2T, a position does not depend on later positions, with and without segments."""
    model, features = examples.make(kind, "unidirectional_encoder=True"), examples.features(kind)
    changed = {**features, "inputs": features["inputs"].copy()}
    changed["inputs"][:, 2:] = 11
    segments = {f"{name}_segmentation": np.ones_like(ids) for name, ids in features.items()}
    for more in ({}, segments):
        output, other = (
            model.forward({**batch, **more}).encoder.output for batch in (features, changed)
        )
        np.testing.assert_allclose(output[:, :2], other[:, :2], atol=1e-5)
        assert np.abs(output[:, 2:] - other[:, 2:]).max() > 1e-2
    both_ways = examples.shared(kind)
    output, other = (both_ways.forward(batch).encoder.output for batch in (features, changed))
    assert np.abs(output[:, :2] - other[:, :2]).max() > 1e-2


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("plain_encoder", "class_label_pooling=last"),
        ("encoder", "class_label_pooling=masked_mean,act_mask_padding=True"),
        (
            "encoder",
            "class_label_pooling=last,act_type=ponder_net,act_mask_padding=True",
        ),
    ],
)
def test_class_ignores_padding(kind, overrides):
    """Padding changes neither the class nor the loss."""
    model, features = examples.make(kind, overrides), examples.features(kind)
    assert not batch_plan.why_equal_lengths(model)

    def read(**changed):
        batch = {**features, **changed}
        output = model.forward(batch, training=False)
        terms = model.loss_terms(output, batch["targets"], training=False)
        return output.logits, terms["training"][0].value()

    logits, loss = read()
    wider, loss_of_wider = read(inputs=np.pad(features["inputs"], [(0, 0), (0, 3)]))
    np.testing.assert_allclose(wider, logits, atol=1e-5)
    np.testing.assert_allclose(loss_of_wider, loss, rtol=1e-5)
    alone, _ = read(inputs=features["inputs"][1:2, :3], targets=features["targets"][1:2])
    np.testing.assert_allclose(alone, logits[1:2], atol=1e-5)
    assert "class_label_pooling=mean" in batch_plan.why_equal_lengths(examples.shared(kind))


def test_decoder_rejects_class_label_pooling():
    pooled = "class_label_pooling=last"
    assert examples.make("plain_encoder", pooled)
    message = "class_label_pooling must be mean .* Received: class_label_pooling=last for a Trans"
    with pytest.raises(hparam_schema.HParamError, match=message):
        examples.make("classifier", pooled)


def test_targets_of_other_length_raise_a_user_error():
    """A user may train an encoder on data for a model with a decoder, such as translations."""

    def batches():
        yield {"inputs": [[5, 6, 1]], "targets": [[7, 1]]}, [[7, 1]]

    ids = tf.TensorSpec([None, None], tf.int32)
    data = tf.data.Dataset.from_generator(
        batches, output_signature=({"inputs": ids, "targets": ids}, ids)
    )
    model = examples.make("tagger")
    model.compile("adam")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        model.fit(data, shuffle=False, verbose=0)
    assert str(errors.from_graph(caught.value)) == errors.ENCODER_LENGTHS
