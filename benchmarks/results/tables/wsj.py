"""This task is not in the paper of the Universal Transformer. The model parses sentences into
trees, as in Vinyals et al. 2015. The score is the F1 of labelled brackets in greedily decoded
trees. The treebank requires a licence, so its public sample of 3,914 trees is used instead. The
files wsj_0180 to wsj_0199 are the test split (245 trees), and 200 of the other trees are the
validation split.
"""

from results.definitions import Cell, Score, Table
from results.raw import read_lines, write_lines

_VALIDATE = 200


def prepare(raw, tmp_dir):
    """Hold out the last training trees for validation.

    The test split is the test split of the sample.
    """
    train = read_lines(raw, "wsj_sample.train.clean.trees.gz")
    test = read_lines(raw, "wsj_sample.eval.clean.trees.gz")
    if train and test:
        parts = {"Train": train[:-_VALIDATE], "Eval": train[-_VALIDATE:], "Test": test}
        for part, lines in parts.items():
            write_lines(tmp_dir, f"wsj{part}.trees", lines)


TABLE = Table(
    title="Parsing, the treebank's sample",
    prepare=prepare,
    block="small",
    cells=(
        Cell(
            name="sample/adaptive",
            problem="wsj_parsing",
            model="universal_transformer",
            hparams_set="adaptive_universal_transformer_text",
            updates=3_000,
            every=500,
            valid="neg_log_perplexity",
            scores=(Score("decode/labelled_f1"),),
            decode="beam_size=1,extra_length=300",
        ),
    ),
)
