"""Measure decoding with T2T, in a worker process of decode.py.

    decode_worker.py {transformer|universal_transformer} SHAPE

The worker reads lines from its standard input. Each line is a number of beams. For each line, the
worker prints a JSON object with the seconds and the number of written positions. decode.py runs the
worker with the Python of T2T's environment (requirements.txt). When a number of beams is requested
for the first time, its graph is built and run once before the measurement.

The row of EOS in the tied embedding is zero. Therefore the logit of EOS is 0, far below the largest
of the other logits, and no search ends before `source + decode_length` tokens.
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

EOS = 1


def hparams():
    if MODEL == "transformer":
        hp = transformer.transformer_base()
    else:
        hp = universal_transformer.universal_transformer_base()
        hp.num_rec_steps = hp.act_max_steps = SHAPE["steps"]
    hp.hidden_size, hp.filter_size = SHAPE["hidden"], SHAPE["filter"]
    hp.num_heads, hp.num_hidden_layers = SHAPE["heads"], SHAPE["steps"]
    hp.symbol_modality_num_shards = 1
    return hp


class Graph:
    """A search with its own graph and session."""

    def __init__(self, beams):
        graph = tf.Graph()
        with graph.as_default():
            tf.set_random_seed(1)
            hp = hparams()
            problem = problem_hparams.test_problem_hparams(SHAPE["vocab"], SHAPE["vocab"], hp)
            classes = {
                "transformer": transformer.Transformer,
                "universal_transformer": universal_transformer.UniversalTransformer,
            }
            model = classes[MODEL](hp, tf.estimator.ModeKeys.PREDICT, problem)
            rng = np.random.RandomState(1)
            size = (SHAPE["batch"], SHAPE["source"], 1, 1)
            inputs = rng.randint(2, SHAPE["vocab"], size=size).astype(np.int32)
            self.inputs = tf.placeholder(tf.int32, size)
            self.feed = {self.inputs: inputs}
            self.outputs = model.infer(
                {"inputs": self.inputs, "target_space_id": tf.constant(0)},
                decode_length=SHAPE["decode_length"],
                beam_size=beams,
                top_beams=beams,
                alpha=SHAPE["alpha"],
            )["outputs"]
            threads = SHAPE["threads"]
            config = tf.ConfigProto(
                # This setting is the fastest. Small operations do not benefit from several threads.
                intra_op_parallelism_threads=1 if MODEL == "transformer" else threads,
                inter_op_parallelism_threads=threads,
            )
            self.session = tf.Session(graph=graph, config=config)
            self.session.run(tf.global_variables_initializer())
            for variable in tf.trainable_variables():
                if variable.shape.as_list() == [SHAPE["vocab"], SHAPE["hidden"]]:
                    table = self.session.run(variable)
                    table[EOS] = 0
                    variable.load(table, self.session)
        self.run()

    def run(self):
        start = time.perf_counter()
        outputs = self.session.run(self.outputs, self.feed)
        return time.perf_counter() - start, outputs


graphs = {}
for line in sys.stdin:
    beams = int(line)
    if beams not in graphs:
        graphs[beams] = Graph(beams)
    seconds, outputs = graphs[beams].run()
    # The shape is [B, L, 1, 1] for T2T's slow greedy search, [B, L] for its fast greedy search, and
    # [B, beams, L] for beam search.
    written = outputs.shape[1] if beams == 1 else outputs.shape[2]
    result = {"seconds": seconds, "written": int(written)}
    print("RESULT " + json.dumps(result), flush=True)
