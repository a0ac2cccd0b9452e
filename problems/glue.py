"""Classification of one or two texts: tasks of GLUE, SNLI and SciTail.

The problems have T2T's names.

    cola                      "Our friends won't buy this analysis."                    acceptable
    sentiment_sst_binary      "hide new secretions from the parental units"             neg
    msr_paraphrase_corpus     two sentences                                             paraphrase
    quora_question_pairs      two questions                                             duplicate
    multi_nli                 premise, hypothesis                                       neutral
    question_nli              question, sentence                                        entailment
    rte, winograd_nli         two sentences                                             entailment
    stanford_nli              premise, hypothesis (Bowman et al. 2015)                  neutral
    sci_tail                  premise, hypothesis of science (Khot et al. 2018)         entails

In a record with two texts, `inputs` are the ids of the first text, the first id of "$", the ids of
the second text and EOS. `targets` is the number of the class, from 0.

- As in T2T, pairs of paraphrases and of questions are used in both orders.
- The dev split is GLUE's dev split. For `multi_nli`, it is GLUE's matched dev split.
- GLUE does not publish the labels of its test splits, so only `msr_paraphrase_corpus` has a test
  split.
- `stanford_nli` skips pairs on which the annotators did not agree.
- `_shared_vocab` uses the subwords of the One Billion Word benchmark.

References: Wang et al. 2019 (GLUE).
"""

import functools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ut_keras.data import contract
from ut_keras.data.writing import download
from ut_keras.errors import DataError
from ut_keras.problems import problem, raw_text, text_problems
from ut_keras.problems.problem import Texts

_LM1B = "languagemodel_lm1b32k"


class LabelledTables(raw_text.FromArchive, text_problems.TextConcat2ClassProblem):
    """A problem from a tab-separated table with columns for texts and for a class.

    Attributes:
        text_columns: tuple of int. Indices of the columns with texts, from 0.
        label_column: int. Index of the column with the name or number of a class.
        has_header: bool. Whether the first row contains the names of the columns.
        num_columns: int. The number of columns of a table without a header row. None means that
            further columns are ignored.
        both_orders: bool. Whether a row with two texts gives a second sample in reverse order.
        not_labelled: str. The value of rows without a label, which are skipped.
    """

    class_labels: tuple[str, ...]
    text_columns: tuple[int, ...] = (1, 2)
    label_column = 3
    has_header = True
    num_columns: int | None = None
    both_orders = False
    not_labelled: str | None = None
    num_train_shards = 10
    approx_vocab_size = 2**13

    @property
    def line_note(self) -> str:  # type: ignore[override]
        return super().line_note if len(self.text_columns) > 1 else ""

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterator[dict[str, Any]]:
        path = self.path(split, tmp_dir)
        most = self.num_columns
        lines = raw_text.read_lines(path, raw_text.ASCII_SPACES)
        for number, line in enumerate(lines, start=1):
            row = line.split("\t")
            if number == 1 and self.has_header:
                most = len(row) if len(row) > max(self.text_columns) else None
                continue
            if most and len(row) > most:  # a TAB in a text would shift the later values
                expected = f"A row must have at most {most} columns, so a text must have no TAB."
                raise contract.line_error(expected, path, number, line)
            try:
                yield from self.samples(row, split, tmp_dir)
            except IndexError as error:
                expected = (
                    f"A row must have texts in columns {self.text_columns} and a class, one of "
                    f"{', '.join(self.class_labels)}, or its number in column {self.label_column}."
                )
                raise contract.line_error(expected, path, number, line) from error

    def samples(self, row: list[str], split: str, tmp_dir: str | None) -> Iterator[dict[str, Any]]:
        """Yield the samples of a row, which is a list of str.

        Raises:
            IndexError: if the row has too few columns, or if it has no class.
        """
        texts = tuple(row[i] for i in self.text_columns)
        label = row[self.label_column]
        if label == self.not_labelled:
            self.left_out["without a label"] += 1
            return
        if label not in self.class_labels:  # names have precedence, because they can be numbers
            if not re.fullmatch("[0-9]{1,9}", label):
                raise IndexError(label)
            label = self.class_labels[int(label)]
        for inputs in (texts, texts[::-1]) if self.both_orders else (texts,):
            yield {"inputs": inputs, "targets": label}


class SharedVocab(text_problems.Text2TextProblem):
    """A mixin with the vocabulary of `languagemodel_lm1b32k`, as in T2T.

    This class must precede the problem in the list of bases.
    """

    vocab_name = _LM1B
    approx_vocab_size = 2**15

    def build_vocab(self, texts: Iterable[str]) -> text_problems.Vocabulary:
        raise DataError(
            f"{self.name} requires {self.vocab_filename} in data_dir, the vocabulary of "
            f"{_LM1B}. Received: a folder without it. Generate {_LM1B} in data_dir first."
        )


_GLUE = "GLUE: research use, each task under its own terms"
_URL = "https://dl.fbaipublicfiles.com/"
_ENTAILMENT = ("not_entailment", "entailment")
_NLI = ("contradiction", "entailment", "neutral")
_LARGE = {"num_train_shards": 100, "approx_vocab_size": 2**15}


def _register(name, class_labels, base=LabelledTables, shared_vocab=False, **attributes):
    """Register a problem and its variant `_characters`.

    With `shared_vocab=True`, the variant `_shared_vocab` is also registered.
    """
    made = problem.declare(name, base, class_labels=class_labels, **attributes)
    if shared_vocab:
        problem.declare(f"{name}_shared_vocab", SharedVocab, made)
    problem.declare(f"{name}_characters", made, vocab_type="characters")
    return made


def _glue(folder, sha256, name=None, most_bytes=10**9):
    archive = download.at(
        f"{_URL}glue/data/{name or folder}.zip",
        sha256,
        licence=_GLUE,
        members=(f"{folder}/*.tsv",),
        most_bytes=most_bytes,
    )
    return {"archive": archive, "members": (f"{folder}/{{}}.tsv",)}


# --- One text -------------------------------------------------------------------------------------

_register(
    "cola",
    ("unacceptable", "acceptable"),
    **_glue("CoLA", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
    text_columns=(3,),
    label_column=1,
    has_header=False,
    num_columns=4,
)
_register(
    "sentiment_sst_binary",  # phrases of film reviews
    ("neg", "pos"),
    **_glue("SST-2", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
    text_columns=(0,),
    label_column=1,
    approx_vocab_size=2**14,
)

# --- Two texts ------------------------------------------------------------------------------------


class _QuoraQuestionPairs(LabelledTables):
    def samples(self, row: list[str], split: str, tmp_dir: str | None) -> Iterator[dict[str, Any]]:
        if len(row) < 6:
            self.left_out["with fewer columns"] += 1
            return
        yield from super().samples(row, split, tmp_dir)


_register(
    "quora_question_pairs",
    ("not_duplicate", "duplicate"),
    _QuoraQuestionPairs,
    **_glue("QQP", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
    **_LARGE,
    text_columns=(3, 4),
    label_column=5,
    both_orders=True,
)
_register(
    "question_nli",  # GLUE's second version
    _ENTAILMENT,
    **_glue("QNLI", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5", "QNLIv2"),
    **_LARGE,
)
_register(
    "rte",
    _ENTAILMENT,
    **_glue("RTE", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
    num_train_shards=1,
)
_register(
    "winograd_nli",  # sentences with a replaced pronoun
    _ENTAILMENT,
    **_glue("WNLI", "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46"),
    num_train_shards=1,
    vocab_filename="vocab.wnli.8192",
)
_MNLI = "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"
_MULTI_NLI = _register(
    "multi_nli",  # ten genres
    _NLI,
    shared_vocab=True,
    **_glue("MNLI", _MNLI, most_bytes=5 * 10**9),
    **_LARGE,
    parts={"train": "train", "dev": "dev_matched"},
    text_columns=(8, 9),
    label_column=-1,
)
_SNLI = "snli_1.0"
_register(
    "stanford_nli",
    _NLI,
    shared_vocab=True,
    archive=download.at(
        f"https://nlp.stanford.edu/projects/snli/{_SNLI}.zip",
        "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
        licence="CC BY-SA",
        members=(f"{_SNLI}/{_SNLI}_*.txt",),
        most_bytes=2 * 10**9,
    ),
    members=(f"{_SNLI}/{_SNLI}_{{}}.txt",),
    **_LARGE,
    text_columns=(5, 6),
    label_column=0,
    not_labelled="-",
)
_SCI_TAIL = "SciTailV1.1/tsv_format/scitail_1.0_"
_register(
    "sci_tail",
    ("neutral", "entails"),
    shared_vocab=True,
    archive=download.at(
        "http://data.allenai.org.s3.amazonaws.com/downloads/SciTailV1.1.zip",
        "3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5",
        licence="Apache 2.0",
        members=(f"{_SCI_TAIL}*.tsv",),
    ),
    members=(f"{_SCI_TAIL}{{}}.tsv",),
    text_columns=(0, 1),
    label_column=2,
    has_header=False,
)


@problem.register("multi_nli_text2text")
class MultiNLIText2text(text_problems.Text2TextProblem):
    """MultiNLI as text: "multinli premise: … hypothesis: …" and the name of the class."""

    raw_files = (_MULTI_NLI.archive,)

    def generate_samples(self, split: str, data_dir: str, tmp_dir: str | None, seed: int) -> Texts:
        for sample in _MULTI_NLI().generate_samples(split, data_dir, tmp_dir, seed):
            premise, hypothesis = sample["inputs"]
            yield {
                "inputs": f"multinli premise: {premise} hypothesis: {hypothesis}",
                "targets": sample["targets"],
            }


_SENTEVAL = f"{_URL}senteval/senteval_data/msr_paraphrase_"
_MRPC = {
    split: download.at(f"{_SENTEVAL}{split}.txt", sha256, licence=_GLUE)
    for split, sha256 in (
        ("train", "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"),
        ("test", "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"),
    )
}
_MRPC["dev"] = download.RawFile(
    "dev_ids.tsv",
    f"{_URL}glue/data/mrpc_dev_ids.tsv",
    "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
    _GLUE,
)


class _MSRParaphraseCorpus(LabelledTables):
    """The problem whether two sentences of news mean the same.

    As in T2T, the files are in tmp_dir/MRPC.
    """

    raw_files = tuple(_MRPC.values())
    splits = ("train", "dev", "test")
    text_columns = (3, 4)
    label_column = 0
    both_orders = True

    def path(self, split: str, tmp_dir: str | None) -> str:
        return _mrpc_path("test" if split == "test" else "train", tmp_dir)

    def samples(self, row: list[str], split: str, tmp_dir: str | None) -> Iterator[dict[str, Any]]:
        is_dev = tuple(row[1:3]) in _dev_ids(raw_text.version(_mrpc_path("dev", tmp_dir)))
        if is_dev == (split == "dev"):
            yield from super().samples(row, split, tmp_dir)


@functools.lru_cache(maxsize=1)
def _dev_ids(version):
    """Return the rows of the train table that form the dev split, as pairs of ids."""
    path, *_ = version
    return {tuple(line.split("\t")) for line in raw_text.read_lines(path)}


def _mrpc_path(split, tmp_dir):
    folder = os.path.join(tmp_dir or "", "MRPC")
    os.makedirs(folder, exist_ok=True)
    return download.fetch(folder, _MRPC[split])


_register("msr_paraphrase_corpus", ("not_paraphrase", "paraphrase"), _MSRParaphraseCorpus)
