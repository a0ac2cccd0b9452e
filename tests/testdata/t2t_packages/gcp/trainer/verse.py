import os

import tensorflow as tf
from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry

from trainer import words


@registry.register_problem
class VersePairs(text_problems.Text2TextProblem):
    """The task to predict the next line of a raw file from a line."""

    @property
    def approx_vocab_size(self):
        return 2**8

    @property
    def is_generate_per_split(self):
        return False

    @property
    def dataset_splits(self):
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": 3},
            {"split": problem.DatasetSplit.EVAL, "shards": 1},
        ]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        with tf.gfile.GFile(os.path.join(tmp_dir, "raw.txt"), "r") as raw:
            before = ""
            for line in raw:
                line = words.normalized(line)
                if len(before) > 0 and len(line) > 0:
                    yield {"inputs": before, "targets": line}
                before = line


@registry.register_hparams
def transformer_verse():
    hparams = transformer.transformer_base()
    hparams.num_hidden_layers = 1
    hparams.hidden_size = 16
    hparams.filter_size = 32
    hparams.num_heads = 2
    hparams.attention_dropout = 0.6
    hparams.learning_rate = 0.05
    return hparams


@registry.register_hparams
def transformer_verse_tpu():
    hparams = transformer_verse()
    hparams.override_from_dict({"max_length": 64, "batch_size": 256})
    hparams.set_hparam("optimizer", "Adafactor")
    return hparams


@registry.register_ranged_hparams
def transformer_verse_range(rhp):
    rhp.set_float("learning_rate_constant", 0.05, 0.25, scale=rhp.LOG_SCALE)
    rhp.set_discrete("hidden_size", [16, 32])
