import pytest

from ut_keras.errors import DataError
from ut_keras.files import json_file


def test_read_returns_object(tmp_path):
    (tmp_path / "a.json").write_text('{"text": "\u00e9", "loss": NaN}', encoding="utf-8")
    content = json_file.read(str(tmp_path / "a.json"))
    assert content["text"] == "\u00e9" and content["loss"] != content["loss"]


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"[" * 100_000, "nested too deep"),
        (b"[1]", "a list"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": 1', "delimiter"),
        (b"", "Expecting value"),
    ],
)
def test_read_reports_other_content(tmp_path, content, expected):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"a.json must hold a JSON object. Received: .*{expected}"):
        json_file.read(str(path), DataError)
    assert json_file.parse_line(content + b"\n") == {}
