import os

from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.utils import registry


@registry.register_problem
class SecondCorpus(text_problems.Text2TextProblem):
    @property
    def approx_vocab_size(self):
        return 2**8

    @property
    def is_generate_per_split(self):
        return False

    @property
    def dataset_splits(self):
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": 4},
            {"split": problem.DatasetSplit.EVAL, "shards": 1},
        ]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        sources = open(os.path.join(data_dir, "second.en"))  # noqa: SIM115
        targets = open(os.path.join(data_dir, "second.fa"))  # noqa: SIM115
        with sources, targets:
            for source, target in zip(sources, targets):  # noqa: B905
                yield {"inputs": source.strip(), "targets": target.strip()}
