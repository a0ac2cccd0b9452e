"""Stand-in for data_generators.translate: translation from files or archives.

References: tensor2tensor/data_generators/translate.py.
"""

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from ut_keras.errors import DataError
from ut_keras.files import whole_file
from ut_keras.problems import parallel_text
from ut_keras.problems.problem import Samples
from ut_keras.t2t import generator_utils, missing, problem, text_files, text_problems
from ut_keras.text import sacre_bleu, text_lines

_NAMED = re.compile(r"translate_([a-z]{2})_?([a-z]{2})(?![a-z])")
_LANGUAGE = re.compile(r"(?!(txt|sgm|tgz|zip|bz2|gz|xz|tok|bpe|spm|src|ref|dev|lc)$)[a-z]{2,3}")

_joined: set[str] = set()  # the files that this process has joined, without their extensions


class TranslateProblem(text_problems.Text2TextProblem):
    """A translation problem. A subclass defines `source_data_files`."""

    is_generate_per_split = True
    datatypes_to_clean: list[str] | None = None

    # (dataset_split) -> list of [URL or archive, [source file, target file]]
    source_data_files: Any = problem.RequiredAttribute()

    def vocab_data_files(self) -> list[Any]:
        return self.source_data_files(problem.DatasetSplit.TRAIN)

    def generate_samples(
        self,
        data_dir: str,
        tmp_dir: str | None,
        dataset_split: str,
        custom_iterator: Callable[[str, str], Samples] = text_problems.text2text_txt_iterator,
    ) -> Samples:
        training = dataset_split == problem.DatasetSplit.TRAIN
        # T2T joins the raw files of "test" under the name for "dev", so it may read the wrong
        # sentences. Here "test" has its own name.
        split = "dev" if dataset_split == problem.DatasetSplit.EVAL else dataset_split
        base = compile_data(
            tmp_dir or "",
            self.source_data_files(dataset_split),
            f"{self.name}-compiled-{split}",
            self.datatypes_to_clean if training else None,
        )
        return custom_iterator(f"{base}.lang1", f"{base}.lang2")

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str | None) -> Iterator[str]:
        return generator_utils.generate_lines_for_vocab(tmp_dir or "", self.vocab_data_files())


def languages(t2t: TranslateProblem, target_space_id: int) -> dict[str, str]:
    """Return the languages, such as {"inputs": "en", "targets": "zh"}; "" if unknown.

    T2T's problems have no attribute for the languages. They are determined from the problem's name,
    such as `translate_enzh_mine`, or from the names of its files, such as `train.en` and
    `train.zh`. The four letters in the problem's name can also be a word, as in
    `translate_test_mine`. Therefore the file names have precedence if they name a language for
    which sacreBLEU has a tokenizer. Otherwise the target language is Chinese if
    `target_space_id` is ZH_TOK, and unknown if not.
    """
    named, of_files = _NAMED.match(t2t.name), _languages_of_files(t2t)
    if named:
        codes = {sacre_bleu.language_of(code) for code in named.groups()}
        of_file = sacre_bleu.language_of(of_files["targets"])
        if of_file in codes or of_file not in sacre_bleu.LANGUAGES:
            return {"inputs": named[1], "targets": named[2]}
    if not of_files["targets"] and target_space_id == problem.SpaceID.ZH_TOK:
        of_files["targets"] = "zh"
    return of_files


def _languages_of_files(t2t):
    # The package's code can raise any error. Training does not need the languages.
    with contextlib.suppress(Exception):
        for _, files in (dataset[:2] for dataset in t2t.vocab_data_files()):
            if files[0] not in ("tmx", "tsv"):
                source, target = map(_language_of_file, files)
                return {"inputs": source, "targets": target}
    return {"inputs": "", "targets": ""}


def _language_of_file(name):
    """Return the last part of a file name that can be a language.

    For `dev-ref.zh.sgm`, the result is "zh".
    """
    parts = re.split(r"[._-]", os.path.basename(name).lower())
    return next((part for part in reversed(parts) if _LANGUAGE.fullmatch(part)), "")


def compile_data(
    tmp_dir: str, datasets: list[Any], filename: str, datatypes_to_clean: list[str] | None = None
) -> str:
    """Join all pairs of files to FILENAME.lang1 and FILENAME.lang2, unless both exist.

    Args:
        tmp_dir: str. Folder of the raw files.
        datasets: list of [URL or archive, [source file, target file]], or [URL, ["tsv", index of
            the source column, index of the target column, pattern of files]].
        filename: str. Name of the new files.
        datatypes_to_clean: list of str. Must be empty, because cleaning is not supported.

    Returns:
        tmp_dir/FILENAME.

    Raises:
        DataError: if `datatypes_to_clean` is not empty, if a file has another format, or if there
            are no sentences.
    """
    if datatypes_to_clean:
        raise DataError(
            "datatypes_to_clean must be empty, because cleaning is not supported. "
            f"Received: {datatypes_to_clean}."
        )
    base = os.path.join(tmp_dir, filename)
    paths = (f"{base}.lang1", f"{base}.lang2")
    if all(map(os.path.exists, paths)):
        if base not in _joined:
            missing.print_once(
                f"note: as in T2T, the existing files {base}.lang1 and .lang2 are read. If a raw "
                "file has changed, remove them."
            )
        return base
    count = 0
    with whole_file.writing(paths[0]) as sources, whole_file.writing(paths[1]) as targets:
        for source, target in itertools.chain.from_iterable(_pairs(tmp_dir, d) for d in datasets):
            if source and target:
                sources.write(f"{source}\n")
                targets.write(f"{target}\n")
                count += 1
        if not count:  # this error leaves no file, so the next call reads the data again
            raise DataError(f"{filename} must have at least one pair of sentences. Received: none.")
    _joined.add(base)
    return base


def _pairs(tmp_dir, dataset):
    url, files = dataset[0], dataset[1]
    if files[0] == "tmx":
        raise DataError(
            f"Files of sentences must be text or tsv. Received: {files[1]}, a tmx file."
        )
    if files[0] == "tsv":
        yield from _columns(tmp_dir, url, *files[1:])
        return
    paths = [generator_utils.archived(tmp_dir, url, name) for name in files]
    lines = [text_problems.txt_line_iterator(path) for path in paths]
    if all(path.endswith("sgm") for path in paths):
        lines = [
            iter(parallel_text.segments(side, path))
            for side, path in zip(lines, paths, strict=True)
        ]
    sources, targets = lines
    yield from text_files.pairs(sources, targets, paths)


def _columns(tmp_dir, url, source, target, pattern):
    def found(folder):
        return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))

    paths = found(tmp_dir)
    if not paths:
        raw = generator_utils.maybe_download(tmp_dir, os.path.basename(url), url)
        paths = found(tmp_dir) or found(generator_utils.unpacked(raw))
    most, skipped = max(source, target), 0
    lines_of_files = map(text_lines.lines_without_carriage_returns, paths)
    for line in itertools.chain.from_iterable(lines_of_files):
        parts = line.split("\t")  # split before strip, because a column may be empty
        if len(parts) > most:
            yield parts[source].strip(), parts[target].strip()
        else:
            skipped += bool(line.strip())
    if skipped:
        missing.print_once(
            f"note: {skipped:,} lines of {pattern} have fewer than {most + 1} columns. They are "
            "skipped."
        )
