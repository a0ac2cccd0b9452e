"""Stanford's natural language inference (Bowman et al. 2015), T2T's names: 550,000 pairs.

    premise     "A person on a horse jumps over a broken down airplane."
    hypothesis  "A person is training his horse for a competition."          neutral

`inputs` are ids of the premise, the first id of "$", those of the hypothesis, EOS; `targets` 0 of
contradiction, 1 of entailment, 2 of neutral. Pairs that people did not agree on are left out.

train 549,367          dev 9,842
"""

from problems import labelled_tables, problem, text_problems
from ut_keras.data.writing import download

_LICENCE = "CC BY-SA"
_NAME = "snli_1.0"


@problem.register("stanford_nli")
@text_problems.register_characters("stanford_nli_characters")
class StanfordNLI(labelled_tables.LabelledTables):
    """32k subwords."""

    licence = _LICENCE
    archive = download.RawFile(
        f"{_NAME}.zip",
        f"https://nlp.stanford.edu/projects/snli/{_NAME}.zip",
        "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
        _LICENCE,
        (f"{_NAME}/{_NAME}_*.txt",),
        most_bytes=2 * 10**9,
    )
    tables = {split: f"{_NAME}/{_NAME}_{split}.txt" for split in ("train", "dev")}
    text_columns = (5, 6)
    label_column = 0
    not_labelled = "-"
    num_train_shards = 100
    approx_vocab_size = 2**15
    class_labels = ("contradiction", "entailment", "neutral")


@problem.register("stanford_nli_shared_vocab")
class StanfordNLISharedVocab(labelled_tables.SharedVocab, StanfordNLI):
    """Subwords of the One Billion Word benchmark."""
