"""Measure the training step of T2T, in a worker process of train_step.py.

The worker reads lines from its standard input. Each line is a number of steps. For each line, the
worker prints a JSON list with the seconds of each step. train_step.py runs the worker with the
Python of T2T's environment (requirements.txt).
"""

import json
import os
import sys
import time

MODEL, SHAPE = sys.argv[1], json.loads(sys.argv[2])
os.environ["TF_ENABLE_ONEDNN_OPTS"] = os.environ["T2T_ONEDNN"] = "1"

import shim
import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.models import transformer
from tensor2tensor.models.research import universal_transformer
from tensor2tensor.utils import contrib

# T2T's summaries need tf.contrib, which no longer exists.
contrib.summary = lambda: contrib.DummyModule(scalar=lambda *args, **kwargs: None)


def hparams():
    if MODEL == "transformer":
        hp = transformer.transformer_base()
    else:
        hp = universal_transformer.universal_transformer_base()
        hp.num_rec_steps = hp.act_max_steps = SHAPE["steps"]
        if MODEL.startswith("adaptive"):
            hp.recurrence_type = "act"
            hp.act_halting_bias_init = SHAPE["halting_bias"]
    hp.hidden_size, hp.filter_size = SHAPE["hidden"], SHAPE["filter"]
    hp.num_heads, hp.num_hidden_layers = SHAPE["heads"], SHAPE["steps"]
    hp.symbol_modality_num_shards = 1
    for name in ("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout"):
        setattr(hp, name, SHAPE["dropout"])
    return hp


def ids(rng, length):
    x = rng.randint(2, SHAPE["vocab"], size=(SHAPE["batch"], length, 1, 1)).astype(np.int32)
    x[:, -1] = 1
    return x


tf.set_random_seed(1)
rng = np.random.RandomState(1)
hp = hparams()
problem = problem_hparams.test_problem_hparams(SHAPE["vocab"], SHAPE["vocab"], hp)
model_class = (
    transformer.Transformer
    if MODEL == "transformer"
    else universal_transformer.UniversalTransformer
)
model = model_class(hp, "train", problem)
inputs = tf.placeholder(tf.int32, [SHAPE["batch"], SHAPE["source"], 1, 1])
targets = tf.placeholder(tf.int32, [SHAPE["batch"], SHAPE["target"], 1, 1])
_, losses = model({"inputs": inputs, "targets": targets, "target_space_id": tf.constant(0)})
loss = sum(losses[name] for name in sorted(losses))
update = tf.train.AdamOptimizer(1e-4, 0.9, 0.997, 1e-9).minimize(loss)
session = tf.Session()
session.run(tf.global_variables_initializer())
feed = {inputs: ids(rng, SHAPE["source"]), targets: ids(rng, SHAPE["target"])}

for line in sys.stdin:
    seconds = []
    for _ in range(int(line)):
        start = time.perf_counter()
        session.run([update, loss], feed)
        seconds.append(time.perf_counter() - start)
    print("RESULT " + json.dumps(seconds), flush=True)
