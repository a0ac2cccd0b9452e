"""T2T's own problems as classes to derive from, on those of ours.

    from tensor2tensor.data_generators import imdb

    class MyReviews(imdb.SentimentIMDB): …      samples, labels and vocabulary of "sentiment_imdb"

A class has T2T's name of the problem that is registered here, in CamelCase.
"""

import functools
from collections.abc import Iterable
from typing import Any

from ut_keras import problems
from ut_keras.problems import text_problems as our_text
from ut_keras.problems import translate as our_translate
from ut_keras.problems.problem import DEFAULT_SEED, REGISTRY, Problem
from ut_keras.t2t import hparam, naming, overridden, text_problems, translate

_SPLITS = {"train": "train", "dev": "eval", "test": "test"}
_VOCAB_TYPES = {
    "subwords": text_problems.VocabType.SUBWORD,
    "tokens": text_problems.VocabType.TOKEN,
    "characters": text_problems.VocabType.CHARACTER,
}


@functools.cache
def find(class_name: str) -> type | None:
    """The class of a name; None if there is no such problem of text here."""
    name = naming.camelcase_to_snakecase(class_name)
    ours = problems.get(name) if name in REGISTRY else None
    one_vocabulary = getattr(ours, "feature_encoders", find).__module__ == our_text.__name__
    if not isinstance(ours, our_text.Text2TextProblem) or not one_vocabulary:
        return None
    if type(ours).generate_encoded_samples is not Problem.generate_encoded_samples:
        return None  # its samples are not of texts alone
    base = _base(ours)
    said = {
        "OURS": name,
        "name": name,
        "vocab_type": _VOCAB_TYPES[ours.vocab_type],
        "approx_vocab_size": ours.approx_vocab_size,
        "max_samples_for_vocab": ours.max_samples_for_vocab,
        "oov_token": ours.oov_token,
        "packed_length": getattr(ours, "packed_length", None),
    }
    kind = _ClassesOfOurs if isinstance(ours, our_text.Text2ClassProblem) else _OnOurs
    return base and type(class_name, (kind, base), said)


def _base(ours):
    if isinstance(ours, our_text.TextConcat2ClassProblem):
        return text_problems.TextConcat2ClassProblem if ours.class_labels else None
    if isinstance(ours, our_text.Text2ClassProblem):
        return text_problems.Text2ClassProblem if ours.class_labels else None
    if isinstance(ours, our_text.Text2SelfProblem):
        return text_problems.Text2SelfProblem
    if isinstance(ours, our_translate.TranslateProblem):
        return translate.TranslateProblem
    return text_problems.Text2TextProblem


class _OnOurs:
    """What a problem of ours says, by T2T's methods; a class of a package may say otherwise."""

    OURS = ""
    is_generate_per_split = True

    @property
    def _ours(self) -> Any:
        return problems.get(self.OURS)

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        ours = self._ours
        return [{"split": _SPLITS[name], "shards": ours.num_shards(name)} for name in ours.splits]

    @property
    def vocab_filename(self) -> str:
        shared: Any = self._ours if self._ours.vocab_name else super()
        return shared.vocab_filename

    def generate_samples(
        self, data_dir: str, tmp_dir: str | None, dataset_split: str
    ) -> Iterable[dict[str, Any]]:
        if self._has_own("source_data_files"):
            return super().generate_samples(data_dir, tmp_dir, dataset_split)  # type: ignore[misc]
        ours = self._ours
        split = next(name for name, word in _SPLITS.items() if word == dataset_split)
        samples = ours.generate_samples(split, data_dir, tmp_dir, DEFAULT_SEED)
        if not isinstance(ours, our_text.Text2ClassProblem):
            return samples
        t2t: Any = self
        labels = t2t.class_labels(data_dir)
        return (
            {"inputs": sample["inputs"], "label": labels.index(sample["targets"])}
            for sample in samples
        )

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterable[str]:
        if self._has_own("source_data_files", "vocab_data_files", "generate_samples"):
            return super().generate_text_for_vocab(data_dir, tmp_dir)  # type: ignore[misc]
        return self._ours.texts_for_vocab(data_dir, tmp_dir)

    def _has_own(self, *names):
        t2t: Any = self
        return not all(overridden.is_ours(t2t, name) for name in names)

    def hparams(self, defaults: hparam.HParams, model_hparams: hparam.HParams) -> None:
        super().hparams(defaults, model_hparams)  # type: ignore[misc]
        defaults.target_space_id = self._ours.target_space_id


class _ClassesOfOurs(_OnOurs):
    """The same of a problem whose targets are classes."""

    @property
    def num_classes(self) -> int:
        return len(self._ours.class_labels)

    def class_labels(self, data_dir: str | None) -> list[str]:
        del data_dir
        return list(self._ours.class_labels)
