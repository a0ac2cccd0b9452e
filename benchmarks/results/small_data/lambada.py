"""LAMBADA without the novels: training on nine tenths of the development passages.

The last tenth of the development passages is the dev split. The test split has every fifth test
passage and every fifth control passage. Each metric of the last word is also computed for the two
sets of the test split: `last_word_accuracy/test` and `last_word_accuracy/control`.

The vocabulary has the 10,000 most frequent words of LAMBADA's vocabulary.
"""

import itertools

from ut_keras.data import features
from ut_keras.problems import lambada, problem, text_problems

_TRAIN_SHARE = 0.9
_TEST_EVERY = 5
_SETS = ("test", "control")


class _Part:
    """A mixin for a class of ut_keras/problems/lambada.py. It must be the first base."""

    approx_vocab_size = 10_000
    eval_metrics = ("accuracy", "neg_log_perplexity")
    other_results = ("last_word_*",)

    def splits_to_generate(self, tmp_dir):
        return self.splits

    def prepare(self, data_dir, tmp_dir):
        text_problems.WordsProblem.prepare(self, data_dir, tmp_dir)

    def lines(self, split, tmp_dir):
        return (line for line, _ in _marked(split, tmp_dir))

    def generate_encoded_samples(self, split, data_dir, tmp_dir, seed):
        samples = super().generate_encoded_samples(split, data_dir, tmp_dir, seed)
        for sample, (_, number) in zip(samples, _marked(split, tmp_dir), strict=True):
            yield {**sample, "set": [number]}

    def record_specs(self, data_dir):
        specs = super().record_specs(data_dir)
        return {**specs, "set": features.FeatureSpec(len(_SETS), "class_label", default=0)}

    def feature_metrics(self, data_dir):
        metrics = super().feature_metrics(data_dir)
        of_sets = {
            f"{name}/{of}": metric._replace(function=_of_set(metric.function, number))
            for name, metric in metrics.items()
            for number, of in enumerate(_SETS)
        }
        return {**metrics, **of_sets}


def _marked(split, tmp_dir):
    """Return the passages of a split, each with the number of its set in `_SETS`."""
    if split == "test":
        names = (lambada.TEST, lambada.CONTROL)
        return itertools.chain.from_iterable(
            ((line, number) for line in [*lambada.read(tmp_dir, name)][::_TEST_EVERY])
            for number, name in enumerate(names)
        )
    passages = list(lambada.read(tmp_dir, lambada.DEV))
    cut = round(_TRAIN_SHARE * len(passages))
    return [(line, 0) for line in (passages[:cut] if split == "train" else passages[cut:])]


def _of_set(function, number):
    """Return a metric that counts only the examples of one set."""

    def of_examples(logits, targets, features):
        import tensorflow as tf

        is_in_set = features["set"][:, 0] == number
        if len(logits.shape) == 3:  # a language model, whose logits are large
            # The metric skips an example whose targets have no EOS.
            return function(logits, tf.where(is_in_set[:, None], targets, 0), features)
        logits, targets = (tf.boolean_mask(values, is_in_set) for values in (logits, targets))
        masked = {name: tf.boolean_mask(values, is_in_set) for name, values in features.items()}
        return function(logits, targets, masked)

    return of_examples


problem.declare("small_lambada_lm", _Part, lambada.LambadaLm)
problem.declare("small_lambada_rc", _Part, lambada.LambadaRc)
