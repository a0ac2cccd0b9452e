import gzip

import pytest

from ut_keras.errors import DataError
from ut_keras.text import text_lines


@pytest.mark.parametrize(
    "content, lines",
    [
        (b"", []),
        (b"\n", [""]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\n\ntwo\n\n", ["one", "", "two", ""]),
        (b"one\r\ntwo \r\n", ["one", "two "]),
        (b"\xef\xbb\xbfone\n", ["one"]),
        # Other characters that Python treats as line breaks do not end a line.
        ("a\u2028b\x0bc\x85d\n".encode(), ["a\u2028b\x0bc\x85d"]),
    ],
)
def test_read_splits_only_at_line_feeds(tmp_path, content, lines):
    (tmp_path / "text").write_bytes(content)
    assert text_lines.read(str(tmp_path / "text")) == lines


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    (tmp_path / "text").write_bytes(b"one\nt\xffwo\n")
    with pytest.raises(DataError, match=r"UTF-8.*text, line 2: invalid start byte at byte 2"):
        text_lines.read(str(tmp_path / "text"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-be"])
def test_utf16_without_a_byte_order_mark_raises(tmp_path, encoding):
    """These bytes are valid UTF-8, so the text would have a 0 after each letter."""
    path = tmp_path / "text"
    path.write_bytes("A cafe.\tEin Text.\n".encode(encoding))
    with pytest.raises(DataError, match=r"UTF-8.*text, line 1: .* bytes are 0, as in UTF-16"):
        text_lines.read(str(path))
    path.write_bytes(b"one \0 and two\n\0\n")
    assert text_lines.read(str(path)) == ["one \0 and two", "\0"]


def test_one_line_replaces_line_breaks():
    assert text_lines.one_line("a\nb\r\nc\rd e") == "a b c d e"
    assert text_lines.one_line("ä \ud800") == "ä ?"  # half of a surrogate pair


def test_lines_reads_gzip_and_limits_line_length(tmp_path, monkeypatch):
    path = tmp_path / "en.gz"
    path.write_bytes(gzip.compress(b"so\n" * 1000 + b"cool"))
    assert list(text_lines.lines(str(path))) == ["so"] * 1000 + ["cool"]
    monkeypatch.setattr(text_lines, "_MAX_LINE_BYTES", 1000)
    (tmp_path / "en").write_bytes(b"so\n" + b"x" * 999 + b"\n" + b"x" * 1001)
    with pytest.raises(DataError, match="at most 1000 bytes. Received: .*en, line 3"):
        list(text_lines.lines(str(tmp_path / "en")))


def test_tab_note_is_for_files_in_which_most_lines_have_a_tab():
    assert "2 of 3 lines contain a TAB" in text_lines.tab_note(["a\tb", "c\td", "e", "", " \t "])
    for lines in ([], ["", "\t"], ["a", "b\tc"], ["a\t", "\tb"]):
        assert not text_lines.tab_note(lines)
