"""An export accepts any text, and its use of memory does not grow.

The environment variable UT_KERAS_FUZZ_INPUTS sets the number of texts. The default is 200.
"""

import copy
import os
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.inference import export_models
from ut_keras import export

NUMBER = int(os.environ.get("UT_KERAS_FUZZ_INPUTS", "200"))
LONGEST = 24  # the maximum number of ids in a source
MEBIBYTE = 2**20


def _random_bytes(rng):
    return rng.randbytes(rng.randrange(80))


def _long(rng):
    piece = rng.choice(
        [b"a", b"so cool ", b"\xff", b"\xe2\x82", "\U0001f600".encode(), b"_\\;", b"\0"]
    )
    return piece * rng.randrange(500, 5000)


def _characters(*ranges):
    """Return a function that makes texts of spaces and of characters in the given ranges."""

    def make(rng):
        text = ""
        for _ in range(rng.randrange(60)):
            text += " " if rng.random() < 0.2 else chr(rng.randrange(*rng.choice(ranges)))
        return text.encode("utf-8", "surrogatepass")

    return make


KINDS = {
    "bytes": _random_bytes,
    "long": _long,
    "control": _characters((0, 32), (0x7F, 0xA0), (0x2028, 0x202F), (0xFFF0, 0x10000)),
    "right_to_left": _characters((0x590, 0x700), (0x202A, 0x202F), (0x2066, 0x206A)),
    "emoji": _characters(
        (0x1F300, 0x1FAFF), (0x200D, 0x200E), (0xFE00, 0xFE10), (0x1F1E6, 0x1F200)
    ),
    "escapes": _characters((0x5C, 0x60), (0x30, 0x3C), (0x75, 0x76)),
    "any": _characters((0, 0xD800), (0xE000, 0x110000)),
    "surrogates": _characters((0xD800, 0xE000), (0x61, 0x7B)),
    "empty": lambda rng: b" " * rng.randrange(3),
}


def texts(number, seed):
    """Yield batches of byte strings, `number` in total."""
    rng = random.Random(seed)
    while number > 0:
        batch = [rng.choice(list(KINDS.values()))(rng) for _ in range(rng.randrange(1, 33))]
        yield batch[:number]
        number -= len(batch)


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a function that exports the model of a given name and loads the export."""

    def load(name):
        directory = str(tmp_path_factory.mktemp("fuzz") / "1")
        model, encoders = export_models.build(name)
        search = {"beam_size": 2, "decode_length": 2}
        if name != "story":
            search["max_input_length"] = LONGEST
        export.export_saved_model(model, encoders, directory, **search)
        return tf.saved_model.load(directory)

    return load


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number"), [("adaptive", NUMBER), ("bytes", NUMBER // 5), ("story", NUMBER // 5)]
)
def test_export_accepts_any_text(served, name, number):
    loaded = served(name)
    serve, encode = (loaded.signatures[signature] for signature in ("serving_default", "encode"))
    _, encoders = export_models.build(name)
    grown = []
    for seed, part in enumerate([number // 4, number - number // 4]):
        before = _resident()
        for batch in texts(part, seed):
            inputs = tf.constant(batch, tf.string)
            _assert_whole(serve(inputs=inputs), len(batch))
            if name != "story":
                encoder = copy.copy(encoders["inputs"])  # the copy has an empty cache of words
                _assert_encoded(encode(inputs=inputs)["ids"].numpy(), encoder, batch)
        grown.append(_resident() - before)
    print(f"{name}: {number} texts; memory grew by {grown[0]}, then by {grown[1]} bytes")
    # At first, memory grows because allocators fill their pools and oneDNN caches data for each new
    # shape.
    assert grown[1] < 128 * MEBIBYTE, [round(value / MEBIBYTE) for value in grown]


def _assert_whole(found, number):
    outputs, scores = found["outputs"].numpy(), found["scores"].numpy()
    assert outputs.shape == scores.shape and len(outputs) == number
    assert np.isfinite(scores).all()
    for text in outputs.ravel():
        text.decode("utf-8")  # JSON requires UTF-8


def _assert_encoded(ids, encoder, batch):
    for row, text in zip(ids, batch, strict=True):
        wanted = encoder.encode(text.decode("utf-8", "replace"))[: LONGEST - 1] + [1]
        assert row.tolist() == wanted + [0] * (len(row) - len(wanted)), text
