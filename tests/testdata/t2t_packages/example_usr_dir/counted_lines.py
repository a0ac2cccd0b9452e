import re

from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.layers import common_hparams
from tensor2tensor.utils import registry

_LINE = "Line {} of the Verse, which counts!"


@registry.register_hparams
def counted_small():
    hp = common_hparams.basic_params1()
    hp.num_hidden_layers = 1
    hp.hidden_size = 16
    hp.add_hparam("filter_size", 32)
    hp.add_hparam("num_heads", 2)
    return hp


@registry.register_problem
class CountedLines(text_problems.Text2TextProblem):
    """The task to predict the next line."""

    @property
    def approx_vocab_size(self):
        return 2**8

    @property
    def is_generate_per_split(self):
        return False

    @property
    def dataset_splits(self):
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": 9},
            {"split": problem.DatasetSplit.EVAL, "shards": 1},
        ]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        del data_dir, tmp_dir, dataset_split
        before = None
        for number in range(101):
            line = re.sub("[^a-z0-9]+", " ", _LINE.format(number).lower()).strip()
            if before:
                yield {"inputs": before, "targets": line}
            before = line
