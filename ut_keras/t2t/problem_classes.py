"""T2T's own problems as base classes for a package's problems.

    from tensor2tensor.data_generators import imdb

    class MyReviews(imdb.SentimentIMDB): …

`MyReviews` has the samples, labels and vocabulary of the built-in problem "sentiment_imdb".

The base classes use the built-in problems of ut_keras. As in T2T, the name of a class is the
registered name of the built-in problem in CamelCase.
"""

import copy
import functools
import os
from collections.abc import Iterable
from typing import Any

from ut_keras import problems
from ut_keras.errors import DataError
from ut_keras.problems import text_problems as built_in_text
from ut_keras.problems import translate as our_translate
from ut_keras.problems.problem import DEFAULT_SEED, REGISTRY, Problem, Samples
from ut_keras.t2t import hparam, naming, overridden, text_problems, translate
from ut_keras.t2t.problem import SPLIT_OF_FILES, SPLIT_OF_T2T
from ut_keras.text.text_encoder import store_new

# Base class of a built-in problem -> base class in T2T.
_BASES = {
    built_in_text.Text2TextProblem: text_problems.Text2TextProblem,
    built_in_text.Text2SelfProblem: text_problems.Text2SelfProblem,
    built_in_text.Text2ClassProblem: text_problems.Text2ClassProblem,
    built_in_text.TextConcat2ClassProblem: text_problems.TextConcat2ClassProblem,
    our_translate.TranslateProblem: translate.TranslateProblem,
}
# {beginnings of the names of built-in problems: methods and attributes of T2T's classes}. In T2T,
# the samples of these problems depend on the methods and attributes. The built-in problems of
# ut_keras do not read them.
_HOOKS = {
    (
        "cola",
        "multi_nli",
        "question_nli",
        "quora_",
        "rte",
        "sci_tail",
        "stanford_nli",
        "winograd_",
    ): (
        *("example_generator", "_maybe_download_corpora", "_COLA_URL", "_QNLI_URL", "_QQP_URL"),
        *("_RTE_URL", "_SCITAIL_URL", "_SNLI_URL", "_WNLI_URL"),
    ),
    "lambada_": ("control_set", "use_control_set", "vocab_size"),
    "languagemodel_": (
        *("combine_characters_threshold", "train_names_ids", "eval_names_ids", "test_names_ids"),
        "sequence_length",
    ),
    "msr_paraphrase_": (
        *("example_generator", "_maybe_download_corpora", "DATA_DIR", "DEV_IDS", "MRPC_TRAIN"),
        "MRPC_TEST",
    ),
    "paraphrase_generation_": ("bidirectional", "prepare_data", "_get_captions", "_maybe_download"),
    "program_search_": (
        *("DATA_URLS", "maybe_download_dataset", "_parse_json_to_dict"),
        "_flatten_target_programs",
    ),
    "sentiment_sst_": ("example_generator", "_maybe_download_corpora", "_SST2_URL"),
    ("sentiment_imdb", "sentiment_yelp"): ("doc_generator", "URL"),
    "style_transfer_": ("dataset_url", "source", "target", "source_target_paths"),
    "translate_": ("additional_training_datasets", "use_small_dataset"),
    "wsj_parsing": ("TRAIN_FILES", "TRAIN_FILES_TREE", "EVAL_FILES_TREE"),
}


@functools.cache
def find(class_name: str) -> type | None:
    """Return the class `class_name` of a text problem, or None if there is none."""
    name = naming.camelcase_to_snakecase(class_name)
    if name not in REGISTRY:
        return None
    built_in = problems.get(name)
    if not isinstance(built_in, built_in_text.Text2TextProblem) or not _fits_t2t(built_in):
        return None
    class_attributes = ("approx_vocab_size", "max_samples_for_vocab", "oov_token", "packed_length")
    values = {"_built_in": built_in, "name": name} | {
        name: getattr(built_in, name, None) for name in class_attributes
    }
    values["vocab_type"] = built_in.vocab_type.replace("characters", "character")  # T2T's word
    if isinstance(built_in, built_in_text.Text2ClassProblem):
        labels = list(built_in.class_labels or ())
        if not labels:
            return None
        values["num_classes"] = len(labels)
        values["class_labels"] = lambda self, data_dir: list(labels)
    base = next(_BASES[cls] for cls in type(built_in).__mro__ if cls in _BASES)
    return type(class_name, (_BuiltInProblem, base), values)


def _fits_t2t(built_in):
    """Return whether T2T's methods can describe a built-in text problem."""
    # If another module defines `feature_encoders`, the problem has several vocabularies.
    has_one_vocabulary = built_in.feature_encoders.__module__ == built_in_text.__name__
    has_texts = type(built_in).generate_encoded_samples is Problem.generate_encoded_samples
    is_class_problem = isinstance(built_in, built_in_text.Text2ClassProblem)
    # The classes of other problems than `Text2ClassProblem` are words of the vocabulary.
    has_class_words = bool(built_in.class_label_features) and not is_class_problem
    return has_one_vocabulary and has_texts and not has_class_words


class _BuiltInProblem:
    """A built-in problem with T2T's methods, which a package's class may override."""

    _built_in: Any

    def check_hooks(self) -> None:
        """Check that the package overrides only members that have an effect.

        Raises:
            DataError: if the package overrides a method or attribute in `_HOOKS`, and overrides
                neither generate_samples nor source_data_files.
        """
        if not overridden.is_unchanged(self, "generate_samples", "source_data_files"):
            return
        names = [names for start, names in _HOOKS.items() if self._built_in.name.startswith(start)]
        for name in (name for some in names for name in some):
            if not overridden.is_unchanged(self, name):
                raise DataError(
                    f"{type(self).__name__} must override generate_samples and not {name}. "
                    f"Received: an override of {name}, which is not called here."
                )

    @property
    def is_generate_per_split(self) -> bool:
        # In T2T, one call of generate_samples yields the samples of all splits of this problem.
        is_one_call = self._built_in.name == "algorithmic_math_two_variables"
        return not is_one_call or overridden.is_unchanged(self, "generate_samples")

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        shards = {name: self._built_in.num_shards(name) for name in self._built_in.splits}
        own_text = not overridden.is_unchanged(self, "source_data_files", "generate_samples")
        if own_text and isinstance(self, translate.TranslateProblem):
            shards.pop("test", None)  # this problem has no test split in T2T
        return [{"split": SPLIT_OF_T2T[name], "shards": shards[name]} for name in shards]

    @property
    def vocab_filename(self) -> str:
        built_in = type(self._built_in)
        names_file = built_in.vocab_filename is not built_in_text.Text2TextProblem.vocab_filename
        source: Any = self._built_in if names_file or built_in.vocab_name else super()
        return source.vocab_filename

    def generate_samples(self, data_dir: str, tmp_dir: str | None, dataset_split: str) -> Samples:
        if not overridden.is_unchanged(self, "source_data_files"):
            return super().generate_samples(data_dir, tmp_dir, dataset_split)  # type: ignore[misc]
        built_in = self._built_in
        split = SPLIT_OF_FILES[dataset_split]
        if split not in built_in.splits:  # T2T's problems only distinguish training from evaluation
            split = "dev"
        if built_in.vocab_type == "tokens":  # T2T's problems build this vocabulary here
            path = os.path.join(data_dir, self.vocab_filename)
            if not os.path.exists(path):
                store_new(built_in.build_vocab(built_in.texts_for_vocab(data_dir, tmp_dir)), path)
        samples = built_in.generate_samples(split, data_dir, tmp_dir, DEFAULT_SEED)
        if not isinstance(built_in, built_in_text.Text2ClassProblem):
            return samples
        t2t: Any = self
        labels = t2t.class_labels(data_dir)
        return (
            {"inputs": sample["inputs"], "label": labels.index(sample["targets"])}
            for sample in samples
        )

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterable[str]:
        sources = ["source_data_files", "vocab_data_files"]
        # The vocabulary of a translation problem comes from files, not from samples.
        if not isinstance(self, translate.TranslateProblem):
            sources.append("generate_samples")
        if not overridden.is_unchanged(self, *sources):
            return super().generate_text_for_vocab(data_dir, tmp_dir)  # type: ignore[misc]
        t2t: Any = self
        built_in = copy.copy(self._built_in)
        built_in.max_samples_for_vocab = t2t.max_samples_for_vocab
        built_in._max_cases = t2t._max_cases
        return built_in.texts_for_vocab(data_dir, tmp_dir)

    @property
    def own_max_length(self) -> int | None:
        """The maximum length that T2T's class sets. None means the length in the hparams."""
        t2t: Any = self
        return None if t2t.packed_length else self._built_in.max_length

    def max_length(self, model_hparams: hparam.HParams) -> int:
        if self.own_max_length:
            return model_hparams.split_to_length or self.own_max_length
        return super().max_length(model_hparams)  # type: ignore[misc]

    def hparams(self, defaults: hparam.HParams, model_hparams: hparam.HParams) -> None:
        super().hparams(defaults, model_hparams)  # type: ignore[misc]
        defaults.target_space_id = self._built_in.target_space_id
