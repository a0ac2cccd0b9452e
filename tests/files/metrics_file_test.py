import io
import os

import pytest

from ut_keras.files import metrics_file

pytestmark = pytest.mark.usefixtures("real_fsync")


def test_append_removes_incomplete_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    metrics_file.append(str(tmp_path), {"step": 1})
    with open(path, "a") as file:
        file.write('{"st')
    metrics_file.append(str(tmp_path), {"step": 2})
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    path.write_text('{"st')
    metrics_file.append(str(tmp_path), {"step": 3})
    assert path.read_text() == '{"step": 3}\n'


def test_append_removes_incomplete_line_longer_than_a_block(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "' + "x" * 10_000)
    metrics_file.append(str(tmp_path), {"step": 2})
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_append_reads_a_part_of_a_long_file(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n' * 100_000)
    sizes = []

    class Counted(io.FileIO):
        def read(self, size=-1):
            content = super().read(size)
            sizes.append(len(content))
            return content

    monkeypatch.setattr(
        metrics_file, "open", lambda name, mode, buffering: Counted(name, "a+"), raising=False
    )
    metrics_file.append(str(tmp_path), {"step": 2})
    assert path.read_bytes().endswith(b'{"step": 1}\n{"step": 2}\n')
    assert 0 < sum(sizes) < 10_000


def test_append_does_not_change_hard_linked_copy(tmp_path):
    metrics_file.append(str(tmp_path), {"step": 1})
    copy = tmp_path / "copy"
    copy.mkdir()
    os.link(tmp_path / "metrics.jsonl", copy / "metrics.jsonl")
    metrics_file.append(str(copy), {"step": 2})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1}\n'
    assert (copy / "metrics.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n'


def test_append_keeps_file_of_other_program(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("[1]\nprecious")
    with pytest.raises(OSError, match="metrics.jsonl"):
        metrics_file.append(str(tmp_path), {"step": 1})
    with pytest.raises(OSError, match="metrics.jsonl"):
        metrics_file.filter_records(str(tmp_path), lambda record: True)
    assert path.read_text() == "[1]\nprecious"


def test_records_skips_incomplete_lines_and_other_values(tmp_path):
    assert list(metrics_file.records(str(tmp_path))) == []
    lines = ["[" * 100_000, "[1]", '{"step": "x", "loss": 1}', '{"step": 7}', "\ufffe"]
    lines += ['{"step": 8, "split": "dev", "loss": 1' + "0" * 400 + ', "note": "x", "a": 1}', "{"]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    read = [{"step": 7}, {"step": 8, "split": "dev", "a": 1}]
    assert list(metrics_file.records(str(tmp_path))) == read


def test_filter_records_removes_lines(tmp_path):
    for step in (1, 2, 3):
        metrics_file.append(str(tmp_path), {"step": step})
    inode = os.stat(metrics_file.path(str(tmp_path))).st_ino
    metrics_file.filter_records(str(tmp_path), lambda record: True)
    assert os.stat(metrics_file.path(str(tmp_path))).st_ino == inode
    metrics_file.filter_records(str(tmp_path), lambda record: record["step"] != 2)
    assert [record["step"] for record in metrics_file.records(str(tmp_path))] == [1, 3]


@pytest.mark.parametrize(
    "metric, less",
    [
        ("loss", True),
        ("losses/training", True),
        ("metrics-x/targets/perplexity", True),
        ("word_error_rate", True),
        ("failed_tasks", True),
        ("neg_log_perplexity", False),
        ("accuracy", False),
        ("decode/bleu", False),
        ("approx_bleu_score", False),
    ],
)
def test_is_less_better_by_name(metric, less):
    assert metrics_file.is_less_better(metric) is less
