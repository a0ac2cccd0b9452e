"""The tasks of GLUE (Wang et al. 2019) that T2T has, T2T's names: a class of one text or of two.

    cola                      "Our friends won't buy this analysis."                    acceptable
    sentiment_sst_binary      "hide new secretions from the parental units"             neg
    msr_paraphrase_corpus     two sentences                                             paraphrase
    quora_question_pairs      two questions                                             duplicate
    multi_nli                 premise, hypothesis                                       neutral
    question_nli              question, sentence                                        entailment
    rte, winograd_nli         two sentences                                             entailment

A record of two texts: `inputs` ids of the first, the first id of "$", ids of the second, EOS;
`targets` the number of the class, from 0 on. Pairs of paraphrases and of questions come in both
orders, as in T2T. The dev split is GLUE's, of `multi_nli` the matched one; GLUE keeps the labels of
its test splits to itself, but for `msr_paraphrase_corpus`.
"""

import functools
import os
from collections.abc import Iterator
from typing import Any

from problems import labelled_tables, problem, raw_text, text_problems
from ut_keras.data.writing import download

_LICENCE = "GLUE: research use, each task under its own terms"
_URL = "https://dl.fbaipublicfiles.com/"
_ENTAILMENT = ("not_entailment", "entailment")


def _archive(name, sha256, folder, most_bytes=10**9):
    return download.RawFile(
        name, f"{_URL}glue/data/{name}", sha256, _LICENCE, (f"{folder}/*.tsv",), most_bytes
    )


def _tables(folder, dev="dev"):
    return {"train": f"{folder}/train.tsv", "dev": f"{folder}/{dev}.tsv"}


# --- One text -------------------------------------------------------------------------------------


@problem.register("cola")
@text_problems.register_characters("cola_characters")
class Cola(labelled_tables.LabelledTables):
    """Whether a sentence is acceptable English."""

    licence = _LICENCE
    archive = _archive(
        "CoLA.zip", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff", "CoLA"
    )
    tables = _tables("CoLA")
    text_columns = (3,)
    label_column = 1
    has_header = False
    class_labels = ("unacceptable", "acceptable")


@problem.register("sentiment_sst_binary")
@text_problems.register_characters("sentiment_sst_binary_characters")
class SentimentSSTBinary(labelled_tables.LabelledTables):
    """Whether a phrase of a review of a film is for or against it."""

    licence = _LICENCE
    archive = _archive(
        "SST-2.zip", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa", "SST-2"
    )
    tables = _tables("SST-2")
    text_columns = (0,)
    label_column = 1
    approx_vocab_size = 2**14
    class_labels = ("neg", "pos")


# --- Two texts ------------------------------------------------------------------------------------


def _mrpc(name, address, sha256):
    return download.RawFile(name, _URL + address, sha256, _LICENCE)


_MRPC = {
    "train": _mrpc(
        "msr_paraphrase_train.txt",
        "senteval/senteval_data/msr_paraphrase_train.txt",
        "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
    ),
    "test": _mrpc(
        "msr_paraphrase_test.txt",
        "senteval/senteval_data/msr_paraphrase_test.txt",
        "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
    ),
    "dev": _mrpc(
        "dev_ids.tsv",
        "glue/data/mrpc_dev_ids.tsv",
        "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
    ),
}


@problem.register("msr_paraphrase_corpus")
@text_problems.register_characters("msr_paraphrase_corpus_characters")
class MSRParaphraseCorpus(labelled_tables.LabelledTables):
    """Whether two sentences of news say the same; `MRPC` in tmp_dir, as in T2T."""

    licence = _LICENCE
    raw_files = tuple(_MRPC.values())
    splits = ("train", "dev", "test")
    text_columns = (3, 4)
    label_column = 0
    both_orders = True
    class_labels = ("not_paraphrase", "paraphrase")

    def table(self, split: str, tmp_dir: str | None) -> str:
        return _of_mrpc("test" if split == "test" else "train", tmp_dir)

    def samples(self, row: list[str], split: str, tmp_dir: str | None) -> Iterator[dict[str, Any]]:
        is_dev = tuple(row[1:3]) in _dev_ids(tmp_dir)
        if is_dev == (split == "dev"):
            yield from super().samples(row, split, tmp_dir)


@functools.lru_cache(maxsize=1)
def _dev_ids(tmp_dir):
    """The pairs of ids of the rows that are held out of the train table."""
    lines = raw_text.read_lines(_of_mrpc("dev", tmp_dir))
    return {tuple(line.split("\t")) for line in lines}


def _of_mrpc(split, tmp_dir):
    folder = os.path.join(tmp_dir or "", "MRPC")
    os.makedirs(folder, exist_ok=True)
    return download.fetch(folder, _MRPC[split])


@problem.register("quora_question_pairs")
@text_problems.register_characters("quora_question_pairs_characters")
class QuoraQuestionPairs(labelled_tables.LabelledTables):
    """Whether two questions ask the same."""

    licence = _LICENCE
    archive = _archive(
        "QQP.zip", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0", "QQP"
    )
    tables = _tables("QQP")
    text_columns = (3, 4)
    label_column = 5
    both_orders = True
    num_train_shards = 100
    approx_vocab_size = 2**15
    class_labels = ("not_duplicate", "duplicate")

    def samples(self, row: list[str], split: str, tmp_dir: str | None) -> Iterator[dict[str, Any]]:
        if len(row) < 6:
            self.left_out["with fewer columns"] += 1
            return
        yield from super().samples(row, split, tmp_dir)


_MNLI = _archive(
    "MNLI.zip",
    "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    "MNLI",
    most_bytes=5 * 10**9,
)


@problem.register("multi_nli")
@text_problems.register_characters("multi_nli_characters")
class MultiNLI(labelled_tables.LabelledTables):
    """Whether a hypothesis follows from a premise, in ten kinds of text."""

    licence = _LICENCE
    archive = _MNLI
    tables = _tables("MNLI", "dev_matched")
    text_columns = (8, 9)
    label_column = -1
    num_train_shards = 100
    approx_vocab_size = 2**15
    class_labels = ("contradiction", "entailment", "neutral")


@problem.register("multi_nli_shared_vocab")
class MultiNLISharedVocab(labelled_tables.SharedVocab, MultiNLI):
    """Subwords of the One Billion Word benchmark."""


@problem.register("multi_nli_text2text")
class MultiNLIText2text(text_problems.Text2TextProblem):
    """The same as text: "multinli premise: … hypothesis: …" and the name of the class."""

    licence = _LICENCE
    raw_files = (_MNLI,)

    def prepare(self, data_dir: str, tmp_dir: str | None) -> None:
        for table in MultiNLI.tables.values():
            raw_text.find(tmp_dir, _MNLI, table)
        super().prepare(data_dir, tmp_dir)

    def generate_samples(
        self, split: str, data_dir: str, tmp_dir: str | None, seed: int
    ) -> Iterator[dict[str, str]]:
        for sample in MultiNLI().generate_samples(split, data_dir, tmp_dir, seed):
            premise, hypothesis = sample["inputs"]
            yield {
                "inputs": f"multinli premise: {premise} hypothesis: {hypothesis}",
                "targets": sample["targets"],
            }


@problem.register("question_nli")
@text_problems.register_characters("question_nli_characters")
class QuestionNLI(labelled_tables.LabelledTables):
    """Whether a sentence of Wikipedia answers a question. (GLUE's second edition.)"""

    licence = _LICENCE
    archive = _archive(
        "QNLIv2.zip", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5", "QNLI"
    )
    tables = _tables("QNLI")
    num_train_shards = 100
    approx_vocab_size = 2**15
    class_labels = _ENTAILMENT


@problem.register("rte")
@text_problems.register_characters("rte_characters")
class RTE(labelled_tables.LabelledTables):
    """Whether a sentence follows from a text."""

    licence = _LICENCE
    archive = _archive(
        "RTE.zip", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee", "RTE"
    )
    tables = _tables("RTE")
    num_train_shards = 1
    class_labels = _ENTAILMENT


@problem.register("winograd_nli")
@text_problems.register_characters("winograd_nli_characters")
class WinogradNLI(labelled_tables.LabelledTables):
    """Whether a sentence follows, in which a pronoun was replaced."""

    licence = _LICENCE
    archive = _archive(
        "WNLI.zip", "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46", "WNLI"
    )
    tables = _tables("WNLI")
    num_train_shards = 1
    class_labels = _ENTAILMENT
    vocab_filename = "vocab.wnli.8192"
