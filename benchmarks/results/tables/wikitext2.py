"""This task is not in the paper. The score is the perplexity per word on the test split of
WikiText-2. The training text was unavailable. Instead, nine tenths of the validation text (200,000
words) are used for training and the rest for validation. The vocabulary is therefore smaller than
that of published models.
"""

from results.definitions import Cell, Score, Table
from results.raw import read_lines, write_lines

_TRAIN_SHARE = 0.9


def prepare(raw, tmp_dir):
    """Split the validation text into training and validation."""
    valid = read_lines(raw, "wikitext2/valid.txt")
    test = read_lines(raw, "wikitext2/test.txt")
    if valid and test:
        cut = round(_TRAIN_SHARE * len(valid))
        for part, lines in (("test", test), ("valid", valid[cut:]), ("train", valid[:cut])):
            write_lines(tmp_dir, f"{part}.txt", lines)


TABLE = Table(
    title="WikiText-2, a part",
    prepare=prepare,
    block="small",
    cells=(
        Cell(
            name="part/adaptive",
            problem="languagemodel_wikitext2",
            model="universal_transformer",
            hparams_set="adaptive_universal_transformer_text",
            updates=1_000,
            every=250,
            valid="per_word_perplexity",
            scores=(Score("per_word_perplexity"),),
        ),
    ),
)
