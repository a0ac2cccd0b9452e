"""Tests of the Neural GPUs. `t2t_golden_test.py` compares the models with T2T."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.models import examples
from ut_keras import export, hparam_schema, hparams, models, t2t_import
from ut_keras.decoding import options
from ut_keras.decoding.beam_search import EOS
from ut_keras.hparam_schema import HParamError
from ut_keras.hparam_schema.neural_gpu_hparams import NeuralGPUHParams
from ut_keras.inference.predictor import Predictor
from ut_keras.metrics import lengths, losses, teacher_forced
from ut_keras.training import distribution, evaluation, train_step

KINDS = ("neural_gpu", "diagonal_neural_gpu")
SIZES = {"inputs": 9, "targets": 9}
LAST = "diagonal_final_state=last,diagonal_shift_axis=length"


def _write_eos(model):
    """Make EOS likely at some positions."""
    weights = model.softmax.embedding
    weights.assign(tf.tensor_scatter_nd_update(3 * weights, [[EOS]], 5 * weights[2:3]))
    return model


def test_paper_form_of_diagonal_model_differs_from_t2t():
    features = examples.features("diagonal_neural_gpu")
    t2t = examples.shared("diagonal_neural_gpu")(features)
    for change in LAST.split(","):
        changed = examples.make("diagonal_neural_gpu", change)
        assert np.abs(changed(features) - t2t).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_masked_padding_has_no_effect(kind):
    features, pad = examples.features(kind), [(0, 0), (0, 2)]
    wider = {name: np.pad(ids, pad) for name, ids in features.items()}
    length = features["inputs"].shape[1]
    model = examples.make(kind, "conv_mask_padding=True" + f",{LAST}" * (kind != "neural_gpu"))
    np.testing.assert_allclose(model(wider)[:, :length], model(features), atol=1e-5)
    assert model.why_source_padding_matters == ""
    as_in_t2t = examples.shared("neural_gpu")
    assert np.abs(as_in_t2t(wider)[:, :length] - as_in_t2t(features)).max() > 1e-4
    assert "neural_gpu" in as_in_t2t.why_source_padding_matters


@pytest.mark.parametrize("target_length", [3, 5, 8])
def test_loss_and_metrics_pad_the_shorter_of_outputs_and_targets(target_length):
    model = examples.shared("neural_gpu")
    ids = np.random.RandomState(0).randint(2, examples.V, [3, target_length]).astype("int32")
    features = {"inputs": examples.INPUTS, "targets": ids}
    out = model.inspect(features)
    length = max(5, target_length)
    logits = np.zeros([3, length, examples.V], "float32")
    logits[:, :5] = out.logits
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    padded = np.zeros([3, length], "int32")
    padded[:, :target_length] = ids
    picked = np.take_along_axis(log_probs, padded[..., None], 2)[..., 0]
    want = -picked[padded != 0].mean()
    np.testing.assert_allclose(out.losses["training"], want, rtol=1e-5)
    np.testing.assert_allclose(model.score(features), (picked * (padded != 0)).sum(1), rtol=1e-5)

    results = evaluation.Evaluator(
        model, tf.distribute.get_strategy(), {"accuracy": teacher_forced.accuracy}
    )(tf.data.Dataset.from_tensors((features, ids)))
    np.testing.assert_allclose(results["loss"], want, rtol=1e-5)
    right = (logits.argmax(-1) == padded)[padded != 0].mean()
    np.testing.assert_allclose(results["accuracy"], right, rtol=1e-5)


def test_pad_to_same_length_pads_weights_of_targets():
    logits, targets = tf.ones([2, 5, 3]), tf.ones([2, 4], tf.int32)
    for weights, shape in (
        (tf.ones([2, 4]), (2, 5)),
        (tf.ones([2, 1]), (2, 1)),
        (tf.ones([2]), (2,)),
    ):
        found = lengths.pad_to_same_length(logits, targets, weights)
        assert [tuple(part.shape) for part in found] == [(2, 5, 3), (2, 5), shape]
    # In a graph with unknown shapes, weights with a single column apply to all targets.
    graph = tf.function(
        lengths.pad_to_same_length,
        input_signature=[
            tf.TensorSpec([None, None, 3]),
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None]),
        ],
    )
    for weights, width in ((tf.ones([2, 4]), 5), (tf.ones([2, 1]), 1)):
        assert graph(logits, targets, weights)[2].shape == [2, width]
    assert len(lengths.pad_to_same_length(logits, targets)) == 2


def test_fit_and_trainer_compute_the_same_loss():
    features = examples.features("diagonal_neural_gpu")  # the targets are shorter than the inputs
    targets = features["targets"]
    weights = np.ones(targets.shape, "float32")
    model = examples.make("diagonal_neural_gpu", "dropout=0.0")
    model.compile(run_eagerly=True)  # tracing is slow
    wanted = model.inspect(features, training=True).losses
    wanted = float(wanted["training"] + wanted["extra"])
    fitted = model.evaluate(features, targets, sample_weight=weights, verbose=0, return_dict=True)
    np.testing.assert_allclose(fitted["loss"], wanted, rtol=1e-5)
    trained = model.train_on_batch(features, targets, sample_weight=weights, return_dict=True)
    np.testing.assert_allclose(trained["loss"], wanted, rtol=1e-5)

    strategy = distribution.get_strategy(1)
    other = examples.make("diagonal_neural_gpu", "dropout=0.0")
    other.compile()
    other.optimizer.build(other.trainable_variables)
    step = train_step.make_train_step(other, other.optimizer, strategy, None)
    result = step((features, targets))
    np.testing.assert_allclose(result.loss, wanted, rtol=1e-5)
    for one, two in zip(model.trainable_variables, other.trainable_variables, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_target_embedding_is_unread_and_unchanged():
    """The embedding table of the targets is part of T2T's checkpoints.

    Keras does not warn about the missing gradient of this table. The model runs eagerly, because
    tracing is slow.
    """
    model, features = examples.make("neural_gpu"), examples.features("neural_gpu")
    before = model.target_embedding.embedding.numpy()
    model.compile(run_eagerly=True)
    model.fit(features, features["targets"], epochs=2, shuffle=False, verbose=0)
    np.testing.assert_array_equal(model.target_embedding.embedding, before)
    shared = hparams.get("neural_gpu", "hidden_size=4,shared_embedding_and_softmax_weights=True")
    assert models.get("neural_gpu", shared, vocab_sizes=SIZES).unread_weights == ()


@pytest.mark.parametrize("kind", KINDS)
def test_generate_returns_most_likely_tokens_up_to_eos(kind):
    model = _write_eos(examples.make(kind))
    found = model.generate({"inputs": examples.INPUTS}, per_example_length=True)
    assert found.ids.shape == (3, 1, 5) and found.scores.shape == (3, 1)
    for row, ids in enumerate(examples.INPUTS):
        real = ids[ids != 0]
        logits = model({"inputs": real[np.newaxis]})[0].numpy()
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        best = log_probs.argmax(-1)
        end = [*np.flatnonzero(best == EOS) + 1, len(best)][0]
        np.testing.assert_array_equal(found.ids[row, 0, :end], best[:end])
        np.testing.assert_array_equal(found.ids[row, 0, end:], 0)
        np.testing.assert_allclose(found.scores[row, 0], log_probs.max(-1)[:end].sum(), rtol=1e-4)


def test_generate_keeps_padding_of_batch_as_in_t2t():
    model = examples.shared("neural_gpu")
    padded = model.generate({"inputs": examples.INPUTS})
    as_t2t = options.from_keywords({"per_example_length": False})
    found = Predictor(model).batch(examples.INPUTS, as_t2t)
    np.testing.assert_array_equal(found.ids, padded.ids)
    best = model({"inputs": examples.INPUTS}).numpy().argmax(-1)
    written = np.cumsum(best == EOS, axis=1) - (best == EOS) == 0
    np.testing.assert_array_equal(padded.ids[:, 0], np.where(written, best, 0))


def test_masked_model_writes_nothing_at_padding():
    model = examples.make("neural_gpu", "conv_mask_padding=True")
    together = model.generate({"inputs": examples.INPUTS})
    apart = model.generate({"inputs": examples.INPUTS}, per_example_length=True)
    np.testing.assert_array_equal(together.ids, apart.ids)
    np.testing.assert_allclose(together.scores, apart.scores, rtol=1e-5)
    np.testing.assert_array_equal(together.ids[2, 0, 2:], 0)


def test_score_of_output_is_its_score():
    model = _write_eos(examples.make("neural_gpu"))
    inputs = examples.INPUTS[:1]
    found = model.generate({"inputs": inputs})
    score = model.score({"inputs": inputs, "targets": found.ids[:, 0]})
    np.testing.assert_allclose(score, found.scores[:, 0], rtol=1e-5)


def test_masked_model_scores_do_not_depend_on_the_batch():
    model = examples.make("neural_gpu", "conv_mask_padding=True")
    # The last targets are longer than their source.
    targets = np.int32([[5, 6, 1, 0], [3, 4, 5, 1], [3, 4, 5, 1]])
    together = model.score({"inputs": examples.INPUTS, "targets": targets})
    for row, ids in enumerate(examples.INPUTS):
        alone = {"inputs": ids[np.newaxis, ids != 0], "targets": targets[row : row + 1]}
        np.testing.assert_allclose(together[row], model.score(alone)[0], rtol=1e-5)


def test_predictor_groups_sources_by_length():
    model = examples.shared("neural_gpu")
    rows = [[5, 3, 1], [4, 1], [9, 2, 1], [0]]
    found = Predictor(model)(rows, beam_size=4, alpha=0.6)
    for row, decoded in zip(rows, found, strict=True):
        alone = model.generate({"inputs": np.int32([row])})
        np.testing.assert_array_equal(decoded.ids, alone.ids[0])
        np.testing.assert_allclose(decoded.scores, alone.scores[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"beam_size": 2}, "beam_size=2"),
        ({"temperature": 0.5}, "temperature=0.5"),
        ({"min_length": 2}, "min_length=2"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size=2"),
        ({"eos_penalty": 1.0}, "eos_penalty=1.0"),
        ({"forced_prefix": [[1]] * 3}, "forced_prefix="),
        ({"return_steps": True}, "return_steps=True"),
        ({"jit_compile": True}, "jit_compile=True"),
        ({"num_steps": 3}, "num_steps=3"),
        ({"decode_length": -1}, "-1"),
    ],
)
def test_generate_rejects_options_of_a_search(options, received):
    with pytest.raises(ValueError, match="Received: ") as error:
        examples.shared("neural_gpu").generate({"inputs": examples.INPUTS}, **options)
    assert received in str(error.value) and "\n" not in str(error.value)


def test_model_rejects_other_hparams_and_features():
    with pytest.raises(HParamError, match="NeuralGPU .*Received: LSTMHParams"):
        models.get("neural_gpu", hparams.get("lstm_seq2seq"), vocab_sizes=SIZES)
    with pytest.raises(HParamError, match="Transformer .*Received: NeuralGPUHParams"):
        models.get("transformer", hparams.get("neural_gpu"), vocab_sizes=SIZES)
    hp = hparams.get("neural_gpu", "hidden_size=8")
    with pytest.raises(ValueError, match="NeuralGPU requires .* inputs. Received: .*targets"):
        models.get("neural_gpu", hp, vocab_sizes={"targets": 9})
    stories = {"inputs": examples.SENTENCES, "targets": examples.SYMBOLS}
    with pytest.raises(ValueError, match="NeuralGPU requires .* Received: inputs of sentences"):
        models.from_specs("neural_gpu", hp, stories)
    packed = {**examples.features("neural_gpu"), "inputs_segmentation": examples.INPUTS}
    with pytest.raises(ValueError, match="Received: inputs_segmentation"):
        examples.shared("neural_gpu")(packed)
    with pytest.raises(ValueError, match="num_steps=2 for a NeuralGPU"):
        examples.shared("neural_gpu").with_steps(2)


def test_litert_export_is_rejected(tmp_path):
    for masks in (False, True):
        model = examples.make("neural_gpu", f"conv_mask_padding={masks}")
        with pytest.raises(ValueError, match="must have a decoder .*Received: a NeuralGPU"):
            export.export_litert(model, tmp_path / "m.tflite", source_length=5)
    assert not list(tmp_path.iterdir())


def test_t2t_hparams_have_the_class_of_their_model():
    """The hparams.json that T2T writes for a Neural GPU has no field that identifies the model."""
    values = hparams.get("neural_gpu", "hidden_size=20").to_dict()
    added = ("conv_mask_padding", "diagonal_final_state", "diagonal_shift_axis")
    t2t = {name: value for name, value in values.items() if name not in added}
    for name in ("neural_gpu", "diagonal_neural_gpu"):
        found = hparam_schema.from_dict(hparam_schema.for_t2t_model(name, t2t))
        assert type(found) is NeuralGPUHParams and found.to_dict() == values
    assert hparam_schema.for_t2t_model("transformer", t2t) == t2t


def test_t2t_variables_of_kernel_and_classes():
    hp = hparams.get("neural_gpu", "hidden_size=4,kernel_height=5,kernel_width=3")
    specs = {"inputs": examples.SYMBOLS, "targets": examples.LABELS}
    model = models.from_specs("neural_gpu", hp, specs)
    variables = t2t_import.export_variables(model)
    scope = "neural_gpu/body/neural_gpu/cgru_0"
    assert variables[f"{scope}/candidate_single/kernel"].shape == (5, 3, 4, 4)
    classes = "neural_gpu/class_label_modality_4_4/class_label_modality_4_4/dense"
    assert variables[f"{classes}/kernel"].shape == (4, 4)
    again = t2t_import.build_model("neural_gpu", hp.to_dict(), variables)
    features = examples.features("neural_gpu_classifier")
    np.testing.assert_allclose(again(features), model(features), atol=1e-6)


def test_bfloat16_trains():
    hp = hparams.get("neural_gpu", "hidden_size=8,activation_dtype=bfloat16")
    seeds.set_seed(0)
    model = models.get("neural_gpu", hp, vocab_sizes=SIZES)
    features = {"inputs": np.int32([[3, 4, 1]]), "targets": np.int32([[4, 3, 1]])}
    model.compile(run_eagerly=True)  # tracing is slow
    history = model.fit(features, features["targets"], verbose=0, shuffle=False).history
    assert np.isfinite(history["loss"]).all()
    assert model(features).dtype == tf.float32


def test_neural_gpu_learns_to_reverse():
    """Each output token depends on the token at the mirrored position of the input."""
    seeds.set_seed(1)
    random = np.random.RandomState(0)
    inputs = random.randint(2, 4, [512, 4]).astype("int32")
    inputs = np.pad(inputs, [(0, 0), (0, 1)], constant_values=1)
    targets = np.concatenate([inputs[:, 3::-1], inputs[:, 4:]], axis=1)
    hp = hparams.get(
        "neural_gpu",
        "hidden_size=24,num_hidden_layers=1,dropout=0.0,learning_rate_schedule=constant,"
        "learning_rate_constant=0.01,clip_grad_norm=1.0",
    )
    model = models.get("neural_gpu", hp, vocab_sizes={"inputs": 4, "targets": 4})
    model.compile(jit_compile=False)
    features = {"inputs": inputs, "targets": targets}
    history = model.fit(features, targets, batch_size=64, epochs=12, shuffle=False, verbose=0)
    assert history.history["accuracy_per_sequence"][-1] > 0.9, history.history
    found = model.generate({"inputs": inputs[:64]}).ids[:, 0].numpy()
    assert (found == targets[:64]).all(axis=1).mean() > 0.9
    assert isinstance(model.loss, losses.PaddedCrossEntropy) and isinstance(model, keras.Model)
