"""SciTail (Khot et al. 2018), T2T's names: what follows from sentences of science, 27,000 pairs.

    premise     "Pluto rotates once on its axis every 6.39 Earth days;"
    hypothesis  "Earth rotates on its axis once times in one day."               neutral

`inputs` are ids of the premise, the first id of "$", those of the hypothesis, EOS; `targets` 0 of
neutral, 1 of entails.

train 23,596          dev 1,304
"""

from problems import labelled_tables, problem, text_problems
from ut_keras.data.writing import download

_LICENCE = "Apache 2.0"
_FOLDER = "SciTailV1.1/tsv_format"


@problem.register("sci_tail")
@text_problems.register_characters("sci_tail_characters")
class SciTail(labelled_tables.LabelledTables):
    """8k subwords."""

    licence = _LICENCE
    archive = download.RawFile(
        "SciTailV1.1.zip",
        "http://data.allenai.org.s3.amazonaws.com/downloads/SciTailV1.1.zip",
        "3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5",
        _LICENCE,
        (f"{_FOLDER}/scitail_1.0_*.tsv",),
    )
    tables = {split: f"{_FOLDER}/scitail_1.0_{split}.tsv" for split in ("train", "dev")}
    text_columns = (0, 1)
    label_column = 2
    has_header = False
    class_labels = ("neutral", "entails")


@problem.register("sci_tail_shared_vocab")
class SciTailSharedVocab(labelled_tables.SharedVocab, SciTail):
    """Subwords of the One Billion Word benchmark."""
