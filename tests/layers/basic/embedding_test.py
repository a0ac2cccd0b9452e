import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import seeds
from tests.layers import layer_checks
from ut_keras.layers.attention import attention
from ut_keras.layers.basic import embedding
from ut_keras.layers.depth import stack, transformer_layer
from ut_keras.layers.transition import transition

V, D, W = 11, 6, 3  # vocabulary size, width, words per sentence
IDS = np.array([[3, 10, 1, 0], [5, 0, 1, 0], [1, 1, 0, 0]], "int32")
STORIES = np.array(
    [
        [[3, 4, 1], [5, 1, 0], [0, 0, 0], [6, 1, 0]],
        [[7, 1, 0], [0, 0, 0], [0, 0, 0], [8, 9, 1]],
    ],
    "int32",
)


def _without_training(layer, ids, training=None):
    del training
    return layer(ids)


def test_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: embedding.SymbolEmbedding(V, D, dtype=dtype),
        {"ids": IDS},
        num_weights=1,
        call=_without_training,
    )


@pytest.mark.parametrize(("multiply", "factor"), [(True, math.sqrt(D)), (False, 1.0)])
def test_matches_reference(multiply, factor):
    layer = embedding.SymbolEmbedding(V, D, multiply)
    got = layer(IDS)
    (table,) = layer.get_weights()
    for row in range(3):
        for position in range(4):
            symbol = IDS[row, position]
            expected = table[symbol] * factor if symbol else np.zeros(D)
            np.testing.assert_allclose(got[row, position], expected, rtol=1e-6)


def test_padding_gets_no_gradient():
    layer = embedding.SymbolEmbedding(V, D)
    layer.build()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(IDS))
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.embedding)).numpy()
    counts = np.bincount(IDS.ravel(), minlength=V)
    counts[0] = 0
    np.testing.assert_allclose(gradient, np.outer(counts, [math.sqrt(D)] * D), rtol=1e-6)


def test_initial_stddev_matches_t2t():
    layer = embedding.SymbolEmbedding(400, 100)
    layer.build()
    assert abs(np.std(layer.get_weights()[0]) - 0.1) < 0.002


def test_logits_use_unscaled_table():
    layer = embedding.SymbolEmbedding(V, D)
    layer.build()
    x = layer_checks.normal(2, 3, D)
    np.testing.assert_allclose(layer.logits(x), x @ layer.get_weights()[0].T, atol=1e-5)
    mixed = embedding.SymbolEmbedding(V, D, dtype="mixed_bfloat16")
    mixed.build()
    assert mixed.logits(tf.cast(x, tf.bfloat16)).dtype == "float32"


def test_sentence_layer_behaviors():
    layer_checks.check_layer(
        lambda dtype: embedding.SentenceEmbedding(V, D, W, dtype=dtype),
        {"ids": STORIES},
        num_weights=3,
        call=_without_training,
    )


def test_sentence_matches_reference():
    layer = embedding.SentenceEmbedding(V, D, W)
    layer.build()
    layer_checks.shake(layer)
    got = layer(STORIES)
    table = layer.words.get_weights()[0]
    story_mask, question_mask = layer.story_mask.numpy(), layer.question_mask.numpy()
    for row in range(2):
        for sentence in range(4):
            mask = question_mask if sentence == 3 else story_mask
            expected = np.zeros(D)
            for word, symbol in enumerate(STORIES[row, sentence]):
                if symbol:
                    expected += table[symbol] * math.sqrt(D) * mask[word]
            np.testing.assert_allclose(got[row, sentence], expected, atol=1e-5)
    empty = ~STORIES.any(axis=-1)
    assert empty.sum() == 3
    assert not np.any(got.numpy()[empty])


def test_question_is_last_sentence_with_words():
    layer = embedding.SentenceEmbedding(V, D, W)
    layer.build()
    layer_checks.shake(layer)
    moved = np.concatenate([STORIES[0, [0, 1, 3, 2]], np.zeros([2, W], "int32")])
    expected = tf.gather(layer(STORIES)[0], [0, 1, 3, 2])
    np.testing.assert_allclose(layer(moved[np.newaxis])[0, :4], expected, atol=1e-6)


def test_sentence_masks_have_given_initial_spread():
    seeds.set_seed(1)
    ones = embedding.SentenceEmbedding(V, 500, W)
    spread = embedding.SentenceEmbedding(V, 500, W, mask_stddev=0.5)
    for layer in (ones, spread):
        layer.build()
    assert np.all(ones.story_mask.numpy() == 1) and np.all(ones.question_mask.numpy() == 1)
    swapped = STORIES[:, :, [1, 0, 2]]
    np.testing.assert_allclose(ones(STORIES), ones(swapped), atol=1e-4)
    assert np.max(np.abs(spread(STORIES) - spread(swapped))) > 1
    masks = np.stack([spread.story_mask.numpy(), spread.question_mask.numpy()])
    assert abs(masks.mean() - 1) < 0.1 and abs(masks.std() - 0.5) < 0.05
    assert not np.array_equal(masks[0], masks[1])


def test_sentence_gradient_has_no_padded_slices():
    layer = embedding.SentenceEmbedding(V, D, W)
    layer.build()

    @tf.function
    def gradients(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(layer(ids)))
        return tape.gradient(loss, layer.trainable_variables)

    operations = gradients.get_concrete_function(STORIES).graph.get_operations()
    filled = [op.outputs[0].shape for op in operations if op.type == "StridedSliceGrad"]
    assert all(shape.rank < 4 for shape in filled)  # Word embeddings have rank 4.


def test_sentence_embedding_rejects_other_shapes():
    layer = embedding.SentenceEmbedding(V, D, W)
    for ids in (IDS, STORIES[..., :2]):
        with pytest.raises(ValueError, match=r"inputs must be \[batch, sentences, 3\]"):
            layer(ids)


def test_target_space_embedding_adds_its_vector():
    layer = layer_checks.check_layer(
        lambda dtype: embedding.TargetSpaceEmbedding(5, dtype=dtype),
        {"ids": layer_checks.normal(2, 3, D)},
        num_weights=1,
        call=_without_training,
    )
    x = layer_checks.normal(2, 3, D)
    (kernel,) = layer.get_weights()
    assert kernel.shape == (32, D)
    np.testing.assert_allclose(layer(x), x + kernel[5], atol=1e-6)
    for wrong in (-1, 32):
        with pytest.raises(ValueError, match=rf"in \[0, 32\). Received: {wrong}"):
            embedding.TargetSpaceEmbedding(wrong)


@pytest.mark.parametrize(
    ("layer", "ids"),
    [(embedding.SymbolEmbedding(V, 8), IDS), (embedding.SentenceEmbedding(V, 8, W), STORIES)],
)
def test_keras_model_does_not_attend_to_padding(layer, ids):
    """The layer's Keras mask hides padding, so additional padding changes nothing."""
    transformer = transformer_layer.TransformerLayer(
        attention.MultiHeadAttention(2, 8), transition.FeedForward(12, 8)
    )
    block = stack.TransformerBlock([transformer])
    inputs = keras.Input((None, *ids.shape[2:]), dtype="int32")
    states = stack.Stack(stack.LayeredDepth(block))(layer(inputs))
    pooled = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(states))
    wider = np.insert(
        ids, [3] * 4, 0, axis=1
    )  # The padding is inserted before the question, which must be the last sentence.
    np.testing.assert_allclose(pooled(wider), pooled(ids), atol=1e-6)


class UsersModel(keras.Model):
    """A model that Keras builds when it loads the model from a file."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding.SymbolEmbedding(V, D)
        self.head = keras.layers.Dense(2)

    def call(self, ids):
        return self.head(self.embedding(ids))


def test_keras_loads_users_model(tmp_path):
    """Keras builds a loaded model with floats, because the file contains no dtypes."""
    model = UsersModel()
    outputs = model(IDS)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"UsersModel": UsersModel}
    )
    np.testing.assert_array_equal(loaded(IDS), outputs)
    with pytest.raises(ValueError, match="must have an int dtype"):
        loaded(IDS.astype("float32"))


def test_symbol_embedding_rejects_floats():
    with pytest.raises(ValueError, match="ids must .*int.* Received: float32.*dtype='int32'"):
        embedding.SymbolEmbedding(9, 4)(np.ones([1, 2], "float32"))


def test_embedding_of_an_id_out_of_range_is_nan_under_xla():
    """Under XLA, a gather would return the first or the last row."""
    layer = embedding.SymbolEmbedding(V, D)
    layer.build()
    ids = tf.constant([[1, V - 1, V, -1, 0]])
    found = tf.function(layer.call, jit_compile=True)(ids).numpy()
    np.testing.assert_allclose(found[:, [0, 1, 4]], layer(ids.numpy()[:, [0, 1, 4]]), rtol=1e-6)
    assert np.isnan(found[:, 2:4]).all()
