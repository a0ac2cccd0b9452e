"""Measure T2T's subword encoder, in a worker process of text.py.

The worker reads lines from its standard input:

- "new" makes an encoder with empty caches.
- "encode" encodes the text file with this encoder.
- "build" counts the tokens of the text file and builds a vocabulary.

For "encode" and "build", the worker prints a JSON list: wall seconds, CPU seconds and a digest of
the result. text.py runs the worker with the Python of T2T's environment (requirements.txt).
"""

import collections
import hashlib
import json
import sys
import time

import shim
import numpy as np
from tensor2tensor.data_generators import text_encoder, tokenizer

VOCAB, TEXT, MIN_COUNT = sys.argv[1:]
with open(TEXT, encoding="utf-8", newline="\n") as file:
    texts = file.read().split("\n")


def encode():
    encoded = [encoder.encode(text) for text in texts]
    return lambda: np.array([i for ids in encoded for i in [*ids, -1]], np.int32).tobytes()


def build():
    counts = collections.Counter()
    for text in texts:
        counts.update(tokenizer.encode(text))
    built = text_encoder.SubwordTextEncoder()
    built.build_from_token_counts(counts, int(MIN_COUNT))
    return lambda: "\n".join(built.all_subtoken_strings).encode("utf-8")


for line in sys.stdin:
    if line.strip() == "new":
        encoder = text_encoder.SubwordTextEncoder(VOCAB)
        continue
    start, cpu_start = time.perf_counter(), time.process_time()
    result = {"encode": encode, "build": build}[line.strip()]()
    elapsed = time.perf_counter() - start, time.process_time() - cpu_start
    digest = hashlib.sha256(result()).hexdigest()
    print("RESULT " + json.dumps([*elapsed, digest]), flush=True)
