"""T2T's subword encoder, timed on request: the other side of text.py.

Reads lines from standard input: "new" makes an encoder with empty caches, "encode" encodes the
text file with it and is answered by a JSON list of seconds, seconds of processor time and a digest
of the ids. Run by text.py with the Python of T2T's environment (requirements.txt).
"""

import hashlib
import json
import sys
import time

import shim
import numpy as np
from tensor2tensor.data_generators import text_encoder

VOCAB, TEXT = sys.argv[1:]
with open(TEXT, encoding="utf-8", newline="\n") as file:
    texts = file.read().split("\n")

for line in sys.stdin:
    if line.strip() == "new":
        encoder = text_encoder.SubwordTextEncoder(VOCAB)
        continue
    start, cpu_start = time.perf_counter(), time.process_time()
    encoded = [encoder.encode(text) for text in texts]
    taken = time.perf_counter() - start, time.process_time() - cpu_start
    flat = np.array([i for ids in encoded for i in [*ids, -1]], np.int32)
    digest = hashlib.sha256(flat.tobytes()).hexdigest()
    print("RESULT " + json.dumps([*taken, digest]), flush=True)
