"""For any vocabulary, `Subwords` of docs/on_device.md works like `SubwordTextEncoder`."""

import os
import random

import pytest

from tests.docs.code_blocks_test import _blocks
from ut_keras.text import text_encoder

PIECES = [
    *("\r", "a\rb_", "\r_", "\x85", "\u2028", "\x0b", "\x0c", "\x1c", "\u00a0", "\ufeff", "\u3000"),
    *(
        "'",
        '"',
        "' '",
        " ",
        "  _",
        "a",
        "b",
        "ab_",
        "",
        "",
        "a",
        "\u0663",
        "\u00b2",
        "\u2167",
        "\u0301",
    ),
    *(
        "\\\u0663;",
        "\\",
        "u",
        ";",
        "_",
        "\\u",
        "\\\\",
        "\\1114112;",
        "\\99999999999;",
        "\\065;",
        "\\;",
    ),
    *(*"0123456789", *"<>padEOS", "\U0001f600", "\u65e5\u672c_", "\u65e5", "\u672c"),
]


@pytest.fixture(scope="module")
def page():
    """Return the names that the first `python` block of docs/on_device.md defines."""
    names = {}
    exec(_blocks(os.path.join("docs", "on_device.md"), "python")[0], names)
    return names


def _pair(page, folder, pieces):
    """Store a vocabulary as an export does, and return the encoders of ut_keras and of the page."""
    reserved = [f"{name}_" for name in text_encoder.RESERVED_TOKENS]
    path = str(folder / "vocabulary")
    text_encoder.SubwordTextEncoder(subtokens=[*reserved, *pieces]).store_to_file(path)
    return text_encoder.SubwordTextEncoder(path), page["Subwords"](path)


@pytest.mark.parametrize("seed", range(8))
def test_subwords_of_the_page_are_those_of_the_product(page, tmp_path, seed):
    rng = random.Random(seed)
    pieces = rng.sample(PIECES, len(PIECES))
    product, ours = _pair(page, tmp_path, pieces)
    assert [*product.subtokens] == ours.pieces
    for _ in range(300):
        text = "".join(rng.choices([*PIECES, "\n", "x", "\u00e9", "_", "<pad>", "\\65;"], k=6))
        ids = product.encode(text)
        assert ours.encode(text) == [*ids, 1]
        assert ours.decode([*ids, 1, 5]) == product.decode(ids) == text
        ids = rng.choices(range(2, product.vocab_size), k=rng.randrange(9))
        assert ours.decode(ids) == product.decode(ids)


def test_carriage_return_does_not_end_an_entry(page, tmp_path):
    product, ours = _pair(page, tmp_path, ["a\rb", "\r", "c", *"ab\\_u;0123456789<>pdEOS"])
    assert ours.pieces[2:5] == ["a\rb", "\r", "c"] == [*product.subtokens[2:5]]
