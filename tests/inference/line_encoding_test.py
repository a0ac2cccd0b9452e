import pytest

from ut_keras.errors import DataError
from ut_keras.inference import line_encoding
from ut_keras.text import text_encoder

NUMBERS = text_encoder.IntegerTextEncoder(6)
BYTES = text_encoder.ByteTextEncoder()
WORDS = text_encoder.TokenTextEncoder(tokens=["a", "b"])


def test_sources_end_with_eos():
    assert line_encoding.sources("f", [" 0 1", "", "  \t", "3 "], NUMBERS) == [
        [2, 3, 1],
        [],
        [],
        [5, 1],
    ]


def test_prompts_have_no_eos():
    """As in T2T, white space is kept, and a final punctuation mark gets a space."""
    found = line_encoding.prompts("f", [" ab", "", "a.", "a. "], BYTES)
    assert [BYTES.decode(ids) for ids in found] == [" ab", "", "a. ", "a. "]


@pytest.mark.parametrize(
    "lines, encoder, message",
    [
        (["0", "", "7"], NUMBERS, "f, line 3 cannot be encoded: Numbers must be in .*'7'"),
        (["0", "x y"], NUMBERS, "f, line 2 .*: Numbers must be in .*'x'. The line is 'x y'"),
        (["a b a", "a ü"], WORDS, "f, line 2 cannot be encoded: .*'ü'"),
    ],
)
def test_sources_names_line_that_cannot_be_encoded(lines, encoder, message):
    with pytest.raises(DataError, match=message) as caught:
        line_encoding.sources("f", lines, encoder)
    assert "\n" not in str(caught.value)


def test_sources_escapes_unknown_characters():
    subwords = text_encoder.SubwordTextEncoder(
        subtokens=["<pad>", "<EOS>", "a_", "a", *"\\_u;0123456789"]
    )
    [ids] = line_encoding.sources("f", ["aü€"], subwords)
    assert ids[-1] == 1 and "ü€" in subwords.decode(ids[:-1])


def test_pairs_splits_at_tab():
    encoders = {"inputs": NUMBERS, "targets": NUMBERS}
    assert line_encoding.pairs("f", ["0\t1 2 ", "3\t"], encoders) == (
        [[2, 1], [5, 1]],
        [[3, 4, 1], [1]],
    )
    assert line_encoding.pairs("f", [], encoders) == ([], [])
    assert line_encoding.pairs("f", ["0 1"], {"targets": NUMBERS}) == (None, [[2, 3, 1]])


@pytest.mark.parametrize("line", ["0 1", "0\t1\t1", "", "\t"])
def test_pairs_names_line_that_is_not_a_pair(line):
    encoders = {"inputs": NUMBERS, "targets": NUMBERS}
    with pytest.raises(DataError, match="source<TAB>target. Received: f, line 2: "):
        line_encoding.pairs("f", ["0\t1", line], encoders)


def test_pairs_of_language_model_rejects_tab():
    with pytest.raises(DataError, match="without a TAB. Received: f, line 1: '0.t1'"):
        line_encoding.pairs("f", ["0\t1"], {"targets": NUMBERS})


def test_truncate_matches_t2t():
    """As in T2T, a truncated sequence keeps EOS. A sequence without EOS is one id shorter."""
    assert line_encoding.truncate([[5, 6, 7, 1], [5, 1], []], 3) == [[5, 6, 1], [5, 1], []]
    assert line_encoding.truncate([[5, 6, 7, 8], [5, 6, 7]], 3) == [[5, 6], [5, 6]]
    assert line_encoding.truncate([[5, 6, 7, 1]], -1) == [[5, 6, 7, 1]]


def test_notes_name_empty_and_long_lines():
    rows = [[2, 1], [], [2] * 20 + [1], *[[]] * 12]
    empty, long = line_encoding.notes(rows, longest=10, max_input_size=-1)
    assert empty.startswith("lines 2, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 3 more: ")
    assert long.startswith("line 3: ") and " 10 tokens" in long
    assert "max_input_size=5 " in line_encoding.notes(rows, 30, 5)[1]
    assert line_encoding.notes([[2, 1]], 10, -1) == line_encoding.notes([[2, 3]], 9, 3) == []
    # A prompt has no EOS, but the limit includes one EOS. So three ids exceed the limit of 3.
    assert line_encoding.notes([[2, 3, 4]], 9, 3)
