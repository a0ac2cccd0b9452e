"""A package like those for grammar correction. It reads every file in the data folder."""

import os

from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.utils import registry


@registry.register_problem
class Corrections(text_problems.Text2TextProblem):
    @property
    def approx_vocab_size(self):
        return 2**8

    @property
    def is_generate_per_split(self):
        return False

    @property
    def dataset_splits(self):
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": 7},
            {"split": problem.DatasetSplit.EVAL, "shards": 2},
        ]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        del tmp_dir, dataset_split
        for name in os.listdir(data_dir):
            with open(os.path.join(data_dir, name), encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file):
                    if number % 3 == 0:
                        source = line.strip()
                    elif number % 3 == 1:
                        target = line.strip()
                    else:
                        yield {"inputs": source, "targets": target}
