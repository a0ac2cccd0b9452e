"""The problems `NAME_rev` and `NAME_copy`, which reuse the files of `NAME`.

translate_ende_wmt32k_rev     German to English
translate_ende_wmt32k_copy    English to English: the inputs are also the targets

Both names have the same meaning as in T2T.
"""

import dataclasses
import re
from typing import Any

from ut_keras.data.reading import reading_options
from ut_keras.errors import DataError
from ut_keras.problems.problem import Encoders, Metrics, Problem, Specs
from ut_keras.text import sacre_bleu

_PARTS = ("", "_segmentation", "_position")  # only packed problems have the last two suffixes


class Derived:
    """A problem that exchanges or copies the features of a base problem.

    This problem uses the files of the base problem. Except for the features, it also uses the
    attributes and methods of the base problem.

    Args:
        base: `Problem`. The base problem.
        reverse: bool. Whether to exchange inputs and targets.
        copy: bool. Whether to use the inputs as targets, after the exchange.
    """

    def __init__(self, base: Problem, reverse: bool, copy: bool) -> None:
        self._base = base
        self._directions = reverse, copy
        base.set_direction(reverse, copy)
        source = "targets" if reverse else "inputs"
        self._sources = {"inputs": source, "targets": "targets" if reverse == copy else "inputs"}
        self.name = base.name + "_copy" * copy + "_rev" * reverse

    def __getattr__(self, name: str) -> Any:
        if name == "_base":  # while this object is copied, the attribute does not exist yet
            raise AttributeError(name)
        return getattr(self._base, name)

    def feature_encoders(self, data_dir: str | None) -> Encoders:
        return self.rearranged(self._base.feature_encoders(data_dir))

    def feature_specs(self, data_dir: str | None) -> Specs:
        specs = self.rearranged(self._base.feature_specs(data_dir))
        modalities = {spec.modality for spec in specs.values()}
        if modalities != {"symbol"}:
            raise DataError(
                f"_rev and _copy require a text-to-text problem. Received: {self.name} "
                f"with features {', '.join(sorted(modalities))}."
            )
        return specs

    def feature_metrics(self, data_dir: str | None) -> Metrics:
        return {}  # the metrics of the base problem expect the features of the base problem

    def feature_languages(self) -> dict[str, str]:
        languages = self._base.feature_languages()
        return self.rearranged(languages) if languages else {}

    def text_prefix(self, name: str) -> str:
        return self._base.text_prefix(self._sources[name])

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        """Return BLEU for a translation problem.

        Other scores require the targets of the base problem.
        """
        languages = self.feature_languages()
        if not languages:
            return {}
        references = list(map(self._base.text_for_bleu, references))
        hypotheses = list(map(self._base.text_for_bleu, hypotheses))
        return sacre_bleu.corpus_bleu(references, hypotheses, languages["targets"], self.name)

    @property
    def target_space_id(self) -> int:
        is_turned = self._sources["targets"] == "inputs"
        return self._base.input_space_id if is_turned else self._base.target_space_id

    def preprocess(self, records: dict[str, Any]) -> dict[str, Any]:
        return self.rearranged(self._base.preprocess(records))

    @property
    def preprocess_key(self) -> str:
        return f"{self.name} {self._base.preprocess_key}"

    # These functions read the features, the name and the languages of this object. Without these
    # lines, `__getattr__` would return the functions of the base problem, which read its own.
    dataset, training_batches = Problem.dataset, Problem.training_batches
    check_scores = Problem.check_scores

    def reading(self, split: str, data_dir: str, hparams: Any) -> reading_options.ReadingOptions:
        # The batches of an overridden `dataset` have the features of the base problem.
        if self._base.has_own_dataset:
            raise DataError(
                "_rev and _copy require a problem that does not override dataset. "
                f"Received: {self.name}, whose class {type(self._base).__name__} overrides it."
            )
        options = dataclasses.replace(
            self._base.reading(split, data_dir, hparams),
            preprocess=self.preprocess,
            lengths_vary=self.preprocess_needs_hparams,
        )
        is_copied = self._sources["inputs"] == self._sources["targets"]
        # As in T2T, the targets are the truncated inputs. The base truncates if it has other
        # limits.
        if is_copied and options.limits == reading_options.OWN_LIMITS:
            limits = {"inputs": "inputs", "targets": "inputs"}
            return dataclasses.replace(options, limits=limits)
        return options

    def with_hparams(self, hparams: Any, split: str | None = None) -> "Derived":
        return Derived(self._base.with_hparams(hparams, split), *self._directions)

    def for_decoding(self) -> "Derived":
        base = self._base.for_decoding()
        return self if base is self._base else Derived(base, *self._directions)

    def rearranged(self, features: dict[str, Any]) -> dict[str, Any]:
        """Convert a dict with the base problem's features to this problem's features."""
        if "inputs" not in features:
            raise DataError(
                f"_rev and _copy require a problem with inputs. Received: {self.name} "
                f"with {', '.join(features)}."
            )
        return {
            name + part: features[source + part]
            for name, source in self._sources.items()
            for part in _PARTS
            if source + part in features
        }


def parse(name: str) -> tuple[str, bool, bool]:
    """Return (base of the name, whether `_rev` follows, whether `_copy` follows).

    Each suffix is removed once, so the base of "a_rev_rev" is "a_rev".
    """
    base = re.sub(r"(_rev_copy|_copy_rev|_rev|_copy)\Z", "", name)
    endings = name[len(base) :]
    return base, "_rev" in endings, "_copy" in endings
