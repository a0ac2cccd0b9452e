"""Subject-verb agreement: predict the number of a verb from the words before it.

    discipline in public schools of all levels is generally very tight …
    subject                                     the verb: is, not are

"schools" and "levels" are attractors: nouns with the other number between subject and verb.

A record of `sva_number_prediction`. The ids are those of a small vocabulary, which the tests use:

    inputs      discipline in public schools of all levels      [7318, 8, 161, 373, 5, 37, 498, 1]
    targets     VBZ, one class id                               [0]         0 VBZ (is), 1 VBP (are)
    attractors                                                  [2]         6 = more than 5

A record of `sva_language_modeling`, which also reads the verb:

    targets     discipline in public schools of all levels is   [7318, 8, 161, …, 498, 11, 1]
    wrong_verb  are                                             [9]         0 = not in vocabulary
    attractors                                                  [2]         7 = unknown

Names, splits, vocabulary and ids are the same as in T2T. T2T's records can be read too, although
they have no `attractors` and `wrong_verb`. The train split has 9 % of the rows and the dev split
has 1 %. Of the remaining rows, the test split has only rows in which all nouns between subject and
verb are attractors. The rows are shuffled by Python 3's generator. The vocabulary has the words of
all splits. agreement_files.py reads the raw table from tmp_dir.

Metrics:

- `accuracy/attractors_N`: accuracy of the number for examples with N attractors, N = 0 to 5.
- `verb_ranking_accuracy` of the language model: the share of examples in which the right form is
  more probable than the wrong form. This is the score of the paper's table 2.
- `verb_ranking_accuracy/attractors_N`: the same for examples with N attractors.

As in Linzen et al. 2016, the ranking ignores examples whose wrong form is not in the vocabulary.

`<problem>_linzen_testset`, `_gulordava` and `_edinburgh_nlu` are other test sets for a model that
was trained on the table. The vocabulary of the table must be in data_dir:

    python trainer.py --schedule=evaluate --problem=sva_language_modeling_gulordava …

These files have no parts of speech for words outside the vocabulary. Such a word is replaced by CD
if it contains a digit, by NNS if it ends in s, and otherwise by NN. This is a guess, so the scores
are close to those with the table's tags but not equal.

References: Linzen, Dupoux & Goldberg 2016.
"""

import collections
import functools
import os
import re

from ut_keras.data import features
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import agreement_files, last_word, problem, text_problems
from ut_keras.problems.problem import Encoders, Metrics, Records, Specs
from ut_keras.text import text_encoder

_MANY_ATTRACTORS, _ATTRACTORS_UNKNOWN = 6, 7
_ATTRACTORS = features.FeatureSpec(8, "class_label", default=_ATTRACTORS_UNKNOWN)


class _Agreement(text_problems.WordsProblem):
    """Base class of number prediction and language modeling."""

    splits: tuple[str, ...] = ("train", "dev", "test")
    paper = "Universal Transformers, table 2"
    raw_files: tuple[download.RawFile, ...] = (agreement_files.TABLE,)
    vocab_name: str

    def num_shards(self, split: str) -> int:
        return 10 if split == "test" else 1

    def words(self, tmp_dir: str | None) -> list[str]:
        sentences = agreement_files.read_sentences(tmp_dir)
        counts = collections.Counter(word for sentence in sentences for word in sentence.split())
        return text_problems.by_frequency(counts)

    # Function that takes (tmp_dir, split) and returns the `Example`s of the split.
    read_examples = staticmethod(agreement_files.read_split)

    def generate_encoded_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Records:
        words = _Words(self.text_encoder(data_dir))
        for example in self.read_examples(tmp_dir, split):
            yield {**self.encode(example, words), "attractors": [_bucket(example.attractors)]}

    def encode(self, example: agreement_files.Example, words: "_Words") -> dict[str, list[int]]:
        """Return all features of an `Example` except the attractors."""
        raise NotImplementedError


class NumberPrediction(_Agreement):
    """A task to classify the words before a verb as singular or plural."""

    eval_metrics = ("accuracy",)
    other_results = ("accuracy/attractors_*",)
    class_label_features = ("targets",)
    vocab_name = "sva_number_prediction"

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        return {
            "inputs": self.text_encoder(data_dir),
            "targets": text_encoder.ClassLabelEncoder(agreement_files.TAGS),
        }

    def record_specs(self, data_dir: str | None) -> Specs:
        return {**self.feature_specs(data_dir), "attractors": _ATTRACTORS}

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        return _by_attractors("accuracy", last_word.is_right())

    def encode(self, example: agreement_files.Example, words: "_Words") -> dict[str, list[int]]:
        return {
            "inputs": [*map(words.to_id, example.words), text_encoder.EOS],
            "targets": [agreement_files.TAGS.index(example.tag)],
        }


class LanguageModeling(_Agreement, text_problems.Text2SelfProblem):
    """A language model problem of the words up to and including the verb."""

    vocab_name = "sva_language_modeling"
    other_results = ("verb_ranking_accuracy", "verb_ranking_accuracy/attractors_*")

    def record_specs(self, data_dir: str | None) -> Specs:
        specs = self.feature_specs(data_dir)
        size = specs["targets"].vocab_size
        wrong_verb = features.FeatureSpec(size, "class_label", default=text_encoder.PAD)
        return {**specs, "wrong_verb": wrong_verb, "attractors": _ATTRACTORS}

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        name = "verb_ranking_accuracy"
        overall = features.FeatureMetric(last_word.mean(_is_right_verb_ahead))
        return {name: overall, **_by_attractors(name, _is_right_verb_ahead)}

    def encode(self, example: agreement_files.Example, words: "_Words") -> dict[str, list[int]]:
        verb, wrong_verb = words.verb_ids(example)
        return {
            "targets": [*map(words.to_id, example.words), verb, text_encoder.EOS],
            "wrong_verb": [wrong_verb],
        }


# A class and functions that convert words to ids.


class _Words:
    """Converts words to ids. A part of speech replaces an unknown word."""

    def __init__(self, encoder: text_encoder.TextEncoder) -> None:
        self._encoder = encoder
        self._known = {encoder.decode([i]) for i in range(encoder.vocab_size)}
        self.to_id = functools.lru_cache(maxsize=100_000)(self._to_id)

    def verb_ids(self, example: agreement_files.Example) -> tuple[int, int]:
        """Return (id of the right form, id of the wrong form or 0)."""
        verb, wrong = (self._find(form) for form in (example.verb, example.wrong_verb))
        if verb is None:  # the verb is rare, so the table contains a part of speech instead
            verb, wrong = example.tag, None
        if wrong is None:
            wrong = agreement_files.other_form(verb, example.tag, self._known)
        return self.to_id(verb), self.to_id(wrong) if wrong else text_encoder.PAD

    def _to_id(self, word):
        found = self._find(word) or self._find(_tag_of_unknown_word(word))
        if found is None:
            raise DataError(
                f"The vocabulary must contain the word, or parts of speech such as NN. Received: "
                f"{word!r}. The vocabulary of Linzen's table contains parts of speech."
            )
        (index,) = self._encoder.encode(found)
        return index

    def _find(self, word):
        """Return the word as the vocabulary spells it, or None."""
        if word is None or word in self._known:
            return word
        return word.lower() if word.lower() in self._known else None


def _tag_of_unknown_word(word):
    if re.search(r"\d", word):
        return "CD"
    return "NNS" if word.endswith("s") else "NN"


def _bucket(attractors):
    if attractors is None:
        return _ATTRACTORS_UNKNOWN
    return min(attractors, _MANY_ATTRACTORS)


# Functions that are the argument `value` of `last_word.mean`.


def _is_right_verb_ahead(logits, right, features):
    import tensorflow as tf

    wrong = tf.cast(features["wrong_verb"][:, 0], tf.int32)
    ahead = tf.gather(logits, right, batch_dims=1) > tf.gather(logits, wrong, batch_dims=1)
    return ahead, wrong != text_encoder.PAD


def _by_attractors(name, value):
    """Return a dict with one `FeatureMetric` for each number of attractors."""
    metrics = {}
    for number in range(_MANY_ATTRACTORS):
        value_of_number = functools.partial(_with_attractors, number, value)
        metric = features.FeatureMetric(last_word.mean(value_of_number))
        metrics[f"{name}/attractors_{number}"] = metric
    return metrics


def _with_attractors(number, value, logits, words, features):
    """Return the value, which counts only for examples with this number of attractors."""
    values, counts = value(logits, words, features)
    return values, (features["attractors"][:, 0] == number) & counts


class _OtherTestSet(_Agreement):
    """A mixin for sentences from another file, with the vocabulary of the table.

    This class must be the first base.
    """

    paper = ""
    num_shards = problem.Problem.num_shards

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        if not os.path.exists(os.path.join(data_dir, self.vocab_filename)):
            raise DataError(
                f"{self.name} requires the vocabulary of {self.vocab_name} in data_dir; generate "
                f"that problem first. Received: data_dir={data_dir!r} without "
                f"{self.vocab_filename}."
            )


# Dict from the suffix of a problem's name to (reader, splits, beginning of the data files' names).
_OTHER_TEST_SETS = {
    "linzen_testset": (agreement_files.read_linzen_testset, ("test",), "subj_agr_filtered"),
    "gulordava": (agreement_files.read_gulordava, ("test",), "generated"),
    "edinburgh_nlu": (agreement_files.read_edinburgh_nlu, ("dev", "test"), "wiki"),
}
for _base in (NumberPrediction, LanguageModeling):
    problem.REGISTRY.add(_base.vocab_name, _base)
    for _name, (_read, _splits, _stem) in _OTHER_TEST_SETS.items():
        problem.declare(
            f"{_base.vocab_name}_{_name}",
            _OtherTestSet,
            _base,
            read_examples=staticmethod(_read),
            splits=_splits,
            raw_files=tuple(
                raw for name, raw in agreement_files.OTHER_FILES.items() if name.startswith(_stem)
            ),
        )
