import numpy as np
import pytest
import tensorflow as tf

from ut_keras.data import crc32c


def test_published_values():
    """RFC 3720, B.4, and the check value of the algorithm."""
    strings = [b"123456789", bytes(32), b"\xff" * 32, bytes(range(32)), b""]
    expected = [0xE3069283, 0x8A9136AA, 0x62A8AB43, 0x46DD794E, 0]
    assert crc32c.of(b"".join(strings), [len(s) for s in strings]).tolist() == expected


@pytest.mark.parametrize("sizes", [[0], [], [1, 0, 7], [1023, 1024, 1025, 0, 2048, 5000, 3]])
def test_is_tensorflows(tmp_path, sizes):
    """What stands in a TFRecord file, for strings shorter and longer than a piece."""
    random = np.random.RandomState(0)
    strings = [random.bytes(size) for size in sizes]
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path) as writer:
        for string in strings:
            writer.write(string)
    with open(path, "rb") as file:
        content = file.read()
    expected, place = [], 0
    for size in sizes:
        place += 12 + size + 4
        expected.append(int.from_bytes(content[place - 4 : place], "little"))
    assert crc32c.masked(crc32c.of(b"".join(strings), sizes)).tolist() == expected
