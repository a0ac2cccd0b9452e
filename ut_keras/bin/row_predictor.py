"""Rows of ids to what the model makes of them, as text: by search, or the most likely class."""

import numpy as np
import tensorflow as tf

from ut_keras.bin import decode_hparams, decode_setup
from ut_keras.decoding import equal_lengths, side_by_side


class RowPredictor:
    """Function from rows of ids to beams of (text, score), best first.

    Args:
        model: with its weights.
        setup: `decode_setup.Setup`.
    """

    def __init__(self, model, setup):
        self._model = model
        self._setup = setup
        self._values = dict(setup.values)
        self._writes = not setup.class_labels and model.decoder is not None

        def predict(ids):
            features = {"inputs": ids, "targets": tf.zeros([tf.shape(ids)[0], 1], tf.int32)}
            log_probs = tf.nn.log_softmax(model.forward(features, training=False).logits)
            best = tf.argmax(log_probs, axis=-1, output_type=tf.int32)
            return best, tf.reduce_max(log_probs, axis=-1)

        if not self._writes:
            # Sentences have a fixed number of words.
            ids = tf.TensorSpec([None, None, *model.specs["inputs"].shape[1:]], tf.int32)
            self._predict = tf.function(predict, input_signature=[ids])

    @property
    def needs_equal_lengths(self):
        """Whether padding would change what comes out."""
        scores = self._setup.mode == decode_setup.SCORE
        return bool(equal_lengths.why_needed(self._model, scores))

    def __call__(self, rows, batch=0, **changed):
        """Decodes rows.

        Args:
            rows: list of int arrays: [length] each, or all of one shape.
            batch: int, the batch's number, by which sampling differs.
            changed: decode hparams to replace.
        Returns:
            list of lists of (text, score).
        """
        ids = tf.constant(_padded(rows))
        if not self._writes:
            return self._classes(ids, rows)
        options = decode_hparams.search_options({**self._values, **changed}, batch)
        decoded = self._model.generate({"inputs": ids}, **options)
        return [
            [(self._setup.to_text("targets", beam), float(score)) for beam, score in pairs]
            for pairs in (
                zip(*row, strict=True)
                for row in zip(decoded.ids.numpy(), decoded.scores.numpy(), strict=True)
            )
        ]

    def scores(self, targets, sources=None):
        """T2T's score of given targets: the mean of -log p over their ids, EOS included.

        Args:
            targets, sources: lists of lists of ids.
        Returns:
            list of float.
        """
        features = {"targets": tf.constant(_padded(targets))}
        if sources is not None:
            features["inputs"] = tf.constant(_padded(sources))
        log_probs = self._model.score(features).numpy()
        return [-value / len(row) for value, row in zip(log_probs, targets, strict=True)]

    def _classes(self, ids, rows):
        """One class for each row; or, of an encoder with symbol targets, one for each position."""
        parts = side_by_side.run(self._predict, ids)
        best, log_probs = (np.concatenate(x) for x in zip(*parts, strict=True))
        found = []
        for row, classes, values in zip(rows, best, log_probs, strict=True):
            classes, values = np.atleast_1d(classes)[: len(row)], np.atleast_1d(values)[: len(row)]
            found.append([(self._setup.to_text("targets", classes), float(values.sum()))])
        return found


def _padded(rows):
    """int32 [B, longest], 0 behind shorter rows; rows of more axes are stacked."""
    rows = [np.asarray(row, np.int32) for row in rows]
    if rows[0].ndim > 1:
        return np.stack(rows)
    padded = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    return padded
