"""What translation problems share: parallel text, its vocabulary, BLEU.

A sample of `translate_ende_wmt32k`, encoded with subwords that both languages share:

    inputs   "Orlando Bloom and Miranda Kerr still love each other"
    targets  "Orlando Bloom und Miranda Kerr lieben sich noch immer"

`decode/bleu` is sacreBLEU's cased BLEU in percent, which is comparable between papers. Chinese,
Japanese and Korean targets have sacreBLEU's tokenizers of their own, all others `13a`.
`approx_bleu_score` is T2T's, of teacher-forced ids, and is not a score of translations.
"""

import itertools
from collections.abc import Iterator

from ut_keras.data.writing import download
from ut_keras.problems import parallel_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import sacre_bleu

_PAIRS_FOR_VOCAB = 40_000  # About as much text as T2T takes of the files.


class TranslateProblem(text_problems.Text2TextProblem):
    """From one language to another.

    Attributes:
        source, target: str. The languages, as in "en", "de".
        files: dict from split to a tuple of `parallel_text.Corpus`, read one after the
            other.
        tfds_name: str. The builder of tensorflow-datasets with these data; None if there is none.
    """

    source = "en"
    target = ""
    files: dict[str, tuple[parallel_text.Corpus, ...]] = {}
    tfds_name: str | None = None
    other_results: tuple[str, ...] = ("decode/bleu",)

    @property
    def splits(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.files)

    @property
    def raw_files(self) -> tuple[download.RawFile, ...]:  # type: ignore[override]
        every = (raw for parts in self.files.values() for files in parts for raw in files.raw_files)
        return tuple(dict.fromkeys(every))

    def splits_to_generate(self, tmp_dir: str | None) -> tuple[str, ...]:
        """All; but "test", which T2T does not have, not where it alone would need a download."""
        if self._builder(tmp_dir):
            return self.splits
        return tuple(
            split
            for split in self.splits
            if split != "test"
            or self._is_available(tmp_dir, "test")
            or not self._is_available(tmp_dir, "dev")
        )

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        folder = self._builder(tmp_dir)
        if folder:
            print(f"{self.name}: reading tensorflow-datasets' {folder}", flush=True)
        else:
            for split in self.splits_to_generate(tmp_dir):
                for files in self.files[split]:
                    files.find(tmp_dir)
        super().prepare(data_dir, tmp_dir)

    def texts_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        folder = self._builder(tmp_dir)
        if folder:
            pairs = parallel_text.read_builder(
                folder, "train", self.source, self.target, _PAIRS_FOR_VOCAB
            )
            yield from itertools.chain.from_iterable(pairs)
            return
        for files in self.files["train"]:
            yield from files.texts_for_vocab(tmp_dir)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for source, target in self._pairs(split, tmp_dir):
            if source and target:
                yield {"inputs": source, "targets": target}
            else:
                self.left_out["with an empty side"] += 1

    def score_decoded(
        self, sources: list[str], references: list[str], hypotheses: list[str]
    ) -> dict[str, float]:
        return sacre_bleu.corpus_bleu(references, hypotheses, self.target, self.name)

    def feature_languages(self) -> dict[str, str]:
        return {"inputs": self.source, "targets": self.target}

    def _pairs(self, split, tmp_dir):
        folder = self._builder(tmp_dir)
        if folder:
            name = {"dev": "validation"}.get(split, split)
            yield from parallel_text.read_builder(folder, name, self.source, self.target)
            return
        for files in self.files[split]:
            yield from files.pairs(tmp_dir)

    def _is_available(self, tmp_dir, split):
        return all(files.is_available(tmp_dir) for files in self.files[split])

    def _builder(self, tmp_dir):
        """The folder of tensorflow-datasets, where the files themselves are not there."""
        if not self.tfds_name or self._is_available(tmp_dir, "train"):
            return None
        return parallel_text.find_builder(tmp_dir, self.tfds_name)
