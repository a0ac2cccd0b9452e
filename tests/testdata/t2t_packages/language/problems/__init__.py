"""A T2T package for a language model, whose folder has the name of a package of ut_keras."""

import os

from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry


@registry.register_problem
class SentenceModel(text_problems.Text2SelfProblem):
    """Bytes of sentences."""

    @property
    def vocab_type(self):
        return text_problems.VocabType.CHARACTER

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
        with open(os.path.join(tmp_dir, "raw.txt")) as raw:
            for line in raw:
                if line.strip():
                    yield {"targets": line.strip()}


@registry.register_hparams
def transformer_sentences():
    hparams = transformer.transformer_tiny()
    hparams.num_hidden_layers = 1
    hparams.hidden_size = 16
    hparams.filter_size = 32
    hparams.num_heads = 2
    return hparams
