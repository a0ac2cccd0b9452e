"""`NAME_rev` and `NAME_copy`: a problem from text to text turned round, on its files, as in T2T.

translate_ende_wmt32k_rev     German to English
translate_ende_wmt32k_copy    English to English: the targets are the inputs
"""

import re
from typing import Any

from ut_keras.errors import DataError
from ut_keras.problems.problem import Encoders, Metrics, Problem, Specs
from ut_keras.text import sacre_bleu

_PARTS = ("", "_segmentation", "_position")  # The last two are those of packed problems.


class Derived:
    """A problem that reads and writes the files of another; all but the features is the other's.

    Args:
        reverse: bool. Exchange inputs and targets.
        copy: bool. Then take the inputs for targets.
    """

    def __init__(self, base: Problem, reverse: bool, copy: bool) -> None:
        self._base = base
        self._directions = reverse, copy
        source = "targets" if reverse else "inputs"
        self._sources = {"inputs": source, "targets": "targets" if reverse == copy else "inputs"}
        self.name = base.name + "_copy" * copy + "_rev" * reverse

    def __getattr__(self, name: str) -> Any:
        if name == "_base":  # while a copy of this is made
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
        return {}  # They read the features the right way round.

    def feature_languages(self) -> dict[str, str]:
        languages = self._base.feature_languages()
        return self.rearranged(languages) if languages else {}

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        """BLEU of a translation problem; other scores are of the base problem's targets."""
        languages = self.feature_languages()
        if not languages:
            return {}
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

    dataset, reading, check_scores = Problem.dataset, Problem.reading, Problem.check_scores

    def with_hparams(self, hparams: Any, split: str | None = None) -> "Derived":
        return Derived(self._base.with_hparams(hparams, split), *self._directions)

    def rearranged(self, features: dict[str, Any]) -> dict[str, Any]:
        """The features, or what there is of each by its name, of this problem."""
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
    """Returns (name of the base problem, whether reversed, whether copied).

    Every ending counts once; "a_rev_rev" is no turned "a".
    """
    base = re.sub(r"(_rev_copy|_copy_rev|_rev|_copy)\Z", "", name)
    endings = name[len(base) :]
    return base, "_rev" in endings, "_copy" in endings
