"""A model that trains in milliseconds, with the interface that the trainer needs."""

import functools
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tests import seeds
from ut_keras import metrics, optimizers
from ut_keras.decoding import beam_search
from ut_keras.inference import decode_hparams, free_decoding
from ut_keras.metrics import losses
from ut_keras.training import distribution, evaluation, train_settings
from ut_keras.training import trainer as trainer_lib

VOCAB_SIZE = 8


class ToyStack(NamedTuple):
    ponder_times: tf.Tensor | None
    attention_weights: tf.Tensor | None = None


class ToyOutput(NamedTuple):
    logits: tf.Tensor
    encoder: ToyStack | None
    decoder: ToyStack | None


class ToyModel(keras.Model):
    """A model with an embedding table, dropout and a dense layer that learns to copy its inputs.

    The model reports a ponder time of two steps at real positions and of nine steps at padding.
    Averages of the ponder time must exclude the padding.
    """

    def __init__(self, dropout=0.0, vocab_size=VOCAB_SIZE, width=16, **kwargs):
        super().__init__(name="toy", **kwargs)
        self.table = self.add_weight(
            shape=(vocab_size, width), initializer="uniform", name="embedding_table"
        )
        self.dropout = keras.layers.Dropout(dropout, name="dropout")
        self.head = keras.layers.Dense(vocab_size, name="head")
        self.head.build((None, None, width))
        self.dropout.build((None, None, width))
        self.built = True

    def call(self, features, training=None):
        return self.forward(features, training).logits

    def forward(self, features, training=None):
        state = tf.gather(self.table.value, features["inputs"])
        logits = self.head(self.dropout(state, training=training))
        ponder = tf.where(features["inputs"] != 0, 2.0, 9.0)
        return ToyOutput(logits, ToyStack(ponder), None)

    def loss_terms(self, output, targets, training):
        weights = tf.cast(targets != 0, tf.float32)
        target = losses.cross_entropy(output.logits, targets, 0.0, weights)
        ponder = output.encoder.ponder_times
        cost = losses.LossTerm(0.01 * tf.reduce_sum(ponder), tf.cast(tf.size(ponder), tf.float32))
        return {"training": [target], "act_loss": [cost]}

    class_labels = False
    encoder = decoder = "one"  # These values mean that the model has an encoder and a decoder.
    why_source_padding_matters = why_encoder_padding_matters = ""

    def search(self, features, options):
        ids = tf.argmax(self.forward(features).logits, axis=-1, output_type=tf.int32)
        return beam_search.Decoded(ids[:, tf.newaxis], tf.zeros([len(ids), 1]))


def make_trainer(output_dir, dropout=0.2, learning_rate=0.05, seed=1, **settings):
    """Return (trainer, model) for twelve steps, with an evaluation after every six steps."""
    seeds.set_seed(seed)
    strategy = distribution.get_strategy(devices=["CPU:0"])
    with strategy.scope():
        model = ToyModel(dropout)
        optimizer = optimizers.Adam(learning_rate)
    values = {"train_steps": 12, "eval_every_steps": 6, "log_every_steps": 5, **settings}
    return trainer_of(model, optimizer, strategy, output_dir, values), model


def trainer_of(
    model,
    optimizer,
    strategy,
    output_dir,
    settings,
    feature_metrics=None,
    summarize=lambda results: {},
    decode_settings=None,
    score=lambda *texts: {},
    names=("accuracy", "accuracy_per_sequence"),
):
    """Return a trainer that trains a model and evaluates the metrics `names`."""
    return trainer_lib.Trainer(
        model,
        optimizer,
        strategy,
        str(output_dir),
        train_settings.TrainSettings(**settings),
        evaluation.Evaluator(
            model, strategy, {n: metrics.get(n) for n in names}, feature_metrics or {}, summarize
        ),
        free_decoder(model, decode_settings or decode_hparams.parse(""), score),
        problem_name="toy_copy",
    )


def free_decoder(model, settings, score=lambda *texts: {}):
    """Return a `FreeDecoder` that converts the ids of a sequence to a text of numbers."""
    return free_decoding.FreeDecoder(model, settings, lambda _, ids: " ".join(map(str, ids)), score)


def epoch(number):
    """Return the training batches of an epoch."""
    return dataset(seed=number)


def eval_dataset():
    return dataset(seed=99)


@functools.cache
def dataset(num_batches=5, batch_size=4, max_length=6, seed=0):
    """Return batches of sequences to copy, which have different lengths and end with EOS."""
    random = np.random.RandomState(seed)
    ids = np.zeros((num_batches, batch_size, max_length), "int32")
    sizes = np.full((num_batches, 2), batch_size, "int32")
    for batch, size in zip(ids, sizes, strict=True):
        lengths = random.randint(1, max_length, batch_size)
        size[1] = lengths.max() + 1
        for row, length in enumerate(lengths):
            batch[row, :length] = random.randint(2, VOCAB_SIZE, length)
            batch[row, length] = 1

    def example(ids, size):
        ids = tf.slice(ids, [0, 0], size)  # static shape [None, None]
        return {"inputs": ids, "targets": ids}, ids

    return tf.data.Dataset.from_tensor_slices((ids, sizes)).map(example)
