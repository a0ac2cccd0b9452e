import os
import re

import pytest

from tests.bin import full_disk
from ut_keras.bin import datagen


def _run(tmp_path, *argv):
    return datagen.main([f"--data_dir={tmp_path}", f"--tmp_dir={tmp_path}", *argv])


def _listed(capsys, *argv):
    assert datagen.main(["--only_list", "--tmp_dir=", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def test_problem_flag_accepts_patterns_lists_and_exclusions(capsys):
    def names(*argv):
        return [line.split(":")[0] for line in _listed(capsys, *argv)]

    assert names("--problem=tiny_algo") == ["tiny_algo"]
    assert names("--problem=tiny_algo,algorithmic_sort_problem") == [
        "algorithmic_sort_problem",
        "tiny_algo",
    ]
    assert names("--problem=algorithmic_identity_*", "--exclude_problems=vocab95,binary") == [
        "algorithmic_identity_decimal40"
    ]


def test_only_list_prints_task_numbers(capsys):
    assert _listed(capsys, "--problem=tiny_algo,algorithmic_sort_problem") == [
        "algorithmic_sort_problem: train (0-9), dev (10), test (11)",
        "tiny_algo: train (0), dev (1)",
    ]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--problem=tiny_alga"], "Unknown problem: 'tiny_alga'.*tiny_algo"),
        (["--problem=tiny_algo-sudoku6_rev"], "one name.*'tiny_algo-sudoku6_rev', 2 names as in"),
        (["--problem=tiny_algo,nothing"], "Unknown problem: 'nothing'.* pass --t2t_usr_dir"),
        (["--problem=image_mnist"], r"your own text files\.$"),
        (["--t2t_usr_dir=a,b"], "Received: 'a,b'. To use several packages, write a package that"),
        (["--t2t_usr_dir=nowhere"], "Received: 'nowhere'.$"),
        (["--problem=nothing*"], "must select a problem"),
        (["--problem=tiny*", "--exclude_problems=algo"], "must select a problem"),
        (["--problem=tiny_algo", "--task_id=2"], r"tasks of tiny_algo must be in 0..1.*\[2\]"),
        (["--problem=tiny_algo", "--task_id_start=0"], "--task_id_end"),
        (["--problem=tiny_algo", "--task_id_start=1", "--task_id_end=1"], "--task_id_end"),
        (["--problem=tiny_algo", "--num_concurrent_processes=0"], "at least 1"),
        (["--problem=tiny_algo", "--inspect=-1"], "--inspect must be at least 0"),
        ([], "--problem is required"),
    ],
)
def test_user_errors_are_one_line(tmp_path, capsys, argv, message):
    assert _run(tmp_path, *argv) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert re.search(message, lines[0])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("size", [10, 1000])
def test_full_disk_leaves_no_files(tmp_path, capsys, size):
    """With a limit of 10 bytes, the command cannot write even its small JSON record."""
    name = "algorithmic_reverse_binary40_test"
    with full_disk.full_disk(size):
        assert _run(tmp_path, f"--problem={name}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: File too large: {tmp_path}/"), line
    assert name in line
    assert full_disk.all_files(tmp_path) == []


def test_tasks_of_several_machines_give_the_same_files(tmp_path, capsys):
    whole, shared = tmp_path / "whole", tmp_path / "shared"
    assert _run(whole, "--problem=algorithmic_reverse_binary40_test") == 0
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert len(names) == 4  # each of the two splits has a data file and a record
    assert _run(shared, "--problem=algorithmic_reverse_binary40_test", "--task_id=1") == 0
    assert "100 dev" in capsys.readouterr().out
    flags = ["--task_id_start=0", "--task_id_end=2"]
    assert _run(shared, "--problem=algorithmic_reverse_binary40_test", *flags) == 0
    assert "wrote 1000 train examples" in capsys.readouterr().out
    for name in names:
        assert (shared / name).read_bytes() == (whole / name).read_bytes()


def test_inspect_prints_records(tmp_path, capsys):
    assert _run(tmp_path, "--problem=tiny_algo", "--inspect=2") == 0
    out = capsys.readouterr().out
    assert "tiny_algo, train\n1  inputs" in out and "\n2  inputs" in out
    assert "tiny_algo, dev\n" in out and "\n3  inputs" not in out
    assert "100 records in 1 file" in out
    # The command does not generate existing files again.
    assert _run(tmp_path, "--problem=tiny_algo", "--inspect=1") == 0
    out = capsys.readouterr().out
    assert "nothing to generate; to generate the data again, remove the files tiny_algo-*" in out


def test_inspect_reports_skipped_examples(tmp_path, capsys):
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "__init__.py").write_text(
        "from ut_keras.problems import problem\n"
        "from ut_keras.data import text_encoder\n"
        "@problem.register('datagen_test_left_out')\n"
        "class LeftOut(problem.Problem):\n"
        "    num_train_shards = 1\n"
        "    def feature_encoders(self, data_dir):\n"
        "        return {'targets': text_encoder.ByteTextEncoder()}\n"
        "    def generate_samples(self, split, data_dir, tmp_dir, seed):\n"
        "        yield {'targets': 'text'}\n"
        "        self.left_out['without a source'] += 3\n"
    )
    argv = ["--problem=datagen_test_left_out", f"--t2t_usr_dir={tmp_path / 'user'}", "--inspect=1"]
    assert _run(tmp_path / "data", *argv) == 0
    out = capsys.readouterr().out
    assert "; skipped: 6 without a source" in out
    assert out.count("skipped 3 examples: without a source") == 2
