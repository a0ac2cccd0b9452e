import errno
import os

import pytest

from tests.bin import full_disk
from ut_keras.files import file_error, json_file, metrics_file, whole_file
from ut_keras.text import text_lines

_FULL = os.strerror(errno.ENOSPC)


class _OpError(Exception):
    def __init__(self, message):
        super().__init__(f"{message} [more]")
        self.message = message


@pytest.mark.parametrize(
    "message, path",
    [
        (f"data/x-train-0; {_FULL}", "data/x-train-0"),
        (
            "{{function_node __wrapped__SaveV2_device_/job:localhost}} run/model.ckpt-5_temp/"
            f"part-00000-of-00001.data-00000-of-00001.tempstate123; {_FULL} [Op:SaveV2]",
            "run/model.ckpt-5",
        ),
        (f"{{{{node x}}}} a b; c/model.ckpt-5.index.tempstate9; {_FULL}\nmore", None),
        (f"run/model.ckpt-5_temp; {_FULL} [Op:SaveV2]", "run/model.ckpt-5"),
        (f"{{{{node x}}}} run/eval; {_FULL} [Op:CreateSummaryFileWriter] name: ", "run/eval"),
    ],
)
def test_from_tensorflow_finds_path_and_cause(message, path):
    found = file_error.from_tensorflow(_OpError(message))
    assert found.errno == errno.ENOSPC
    assert found.filename == (path or "a b; c/model.ckpt-5.index")
    assert file_error.one_line(_OpError(message)) == f"{_FULL}: {found.filename}"


@pytest.mark.parametrize("message", ["", "Shapes must be equal; but are not", "x; y; z [Op:Add]"])
def test_from_tensorflow_ignores_other_errors(message):
    assert file_error.from_tensorflow(_OpError(message)) is None
    assert file_error.one_line(_OpError(message))


_UNREADABLE = "/proc/self/mem"  # a regular file whose first byte cannot be read


def _metrics(path):
    os.symlink(_UNREADABLE, path / "metrics.jsonl")
    list(metrics_file.records(str(path)))


@pytest.mark.parametrize(
    "read",
    [
        lambda path: text_lines.read(_UNREADABLE),
        lambda path: json_file.read(_UNREADABLE),
        lambda path: whole_file.copy(_UNREADABLE, str(path / "copy")),
        _metrics,
    ],
)
def test_copy_names_unreadable_source(tmp_path, read):
    with pytest.raises(OSError) as caught:
        read(tmp_path)
    assert caught.value.errno == errno.EIO
    assert caught.value.filename in (_UNREADABLE, str(tmp_path / "metrics.jsonl"))
    assert not (tmp_path / "copy").exists()


def test_copy_to_full_disk_names_target(tmp_path):
    (tmp_path / "source").write_bytes(b"x" * 1000)
    with full_disk.full_disk(100), pytest.raises(OSError) as caught:
        whole_file.copy(str(tmp_path / "source"), str(tmp_path / "copy"))
    assert caught.value.filename == str(tmp_path / "copy")


def test_one_line_gives_cause():
    assert (
        file_error.one_line(_OpError("Graph execution error:\n\nRead less\n [[x]]")) == "Read less"
    )
    assert file_error.one_line(OSError("Cannot parse x")) == "Cannot parse x"
    assert file_error.one_line(FileNotFoundError(2, "No such file")) == "No such file: no file name"
    assert file_error.one_line(ValueError()) == "ValueError()"


def test_named_adds_path_to_write_errors(tmp_path):
    with pytest.raises(OSError) as caught, file_error.named(tmp_path / "x"):
        os.write(-1, b"")
    assert file_error.one_line(caught.value) == f"{os.strerror(errno.EBADF)}: {tmp_path / 'x'}"
    with pytest.raises(FileNotFoundError) as caught, file_error.named(tmp_path / "x"):
        open(tmp_path / "y")  # noqa: SIM115
    assert caught.value.filename == str(tmp_path / "y")
