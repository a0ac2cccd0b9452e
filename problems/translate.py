"""Base class of translation problems: parallel text, vocabulary and BLEU.

An example of `translate_ende_wmt32k`, which has one vocabulary for both languages:

    inputs   "Orlando Bloom and Miranda Kerr still love each other"
    targets  "Orlando Bloom und Miranda Kerr lieben sich noch immer"

The metric `decode/bleu` is sacreBLEU's cased BLEU in percent, which can be compared between
papers. The metric uses sacreBLEU's own tokenizers for Chinese, Japanese and Korean targets and
`13a` for all other languages. The metric `approx_bleu_score` is the same as in T2T. It compares ids
that were predicted with teacher forcing, so it does not measure the quality of translations.
"""

import itertools
import os
from collections.abc import Iterator

from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import parallel_text, text_problems
from ut_keras.problems.problem import Texts
from ut_keras.text import sacre_bleu

# Number of pairs that are read from tensorflow-datasets. This is about as much text as in T2T.
_PAIRS_FOR_VOCAB = 40_000


class TranslateProblem(text_problems.Text2TextProblem):
    """A translation problem.

    Attributes:
        source: str. The source language, such as "en".
        target: str. The target language, such as "de".
        files: dict from split to a tuple of `parallel_text.Corpus`, in the order in which they are
            read.
        tfds_name: str. The tensorflow-datasets builder that has the same data, or None.
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
        """Return the splits to generate.

        If `tmp_dir` contains the dev files but not the test files, "test" is skipped, so that the
        test split alone does not require a download. In all other cases, all splits are generated.
        """
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
            self._find_files(tmp_dir)
        super().prepare(data_dir, tmp_dir)

    def _find_files(self, tmp_dir):
        """Download the missing files. If several files are missing, print a list of them.

        Raises:
            DataError: if a missing file cannot be downloaded. The message names all missing files.
        """
        splits = self.splits_to_generate(tmp_dir)
        corpora = [files for split in splits for files in self.files[split]]
        missing = _missing(corpora, tmp_dir)
        if tmp_dir and len(missing) > 1:
            print(f"{self.name}: {len(missing)} files are missing in {tmp_dir}:")
            for raw in missing:
                print(f"  {raw.name} ({raw.size_text}) {raw.url or raw.page}", flush=True)
        try:
            for files in corpora:
                files.find(tmp_dir)
        except download.MissingFileError as error:
            missing = _missing(corpora, tmp_dir)
            if len(missing) < 2:
                raise
            names = ", ".join(f"{raw.name} ({raw.size_text})" for raw in missing)
            raise DataError(
                f"tmp_dir={tmp_dir!r} must contain {names}. Received: none of them, and a download "
                f"failed: {error.reason}."
            ) from error

    def side_files_of_samples(self) -> tuple[str, ...]:
        return ()  # the vocabulary is built from a part of each file

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
        references = list(map(self.text_for_bleu, references))
        hypotheses = list(map(self.text_for_bleu, hypotheses))
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
        return not any(files.missing(tmp_dir) for files in self.files[split])

    def _builder(self, tmp_dir):
        """Return the tensorflow-datasets builder's folder if the raw files are missing.

        If the raw files exist, or if there is no builder, the return value is None.
        """
        if not self.tfds_name or self._is_available(tmp_dir, "train"):
            return None
        return parallel_text.find_builder(tmp_dir, self.tfds_name)


def _missing(corpora, tmp_dir):
    """Return the raw files of the corpora to download, without repetitions."""
    every = (raw for files in corpora for raw in files.missing(tmp_dir))
    there = os.path.join(tmp_dir or "", "{}")
    return [raw for raw in dict.fromkeys(every) if not os.path.lexists(there.format(raw.name))]
