import csv
import os

import pytest
from sacrebleu.tokenizers import tokenizer_ko_mecab

from tests.bin import small_run
from tests.text import sacre_bleu_test
from ut_keras.bin import bleu


@pytest.fixture
def files(tmp_path):
    (tmp_path / "ref").write_text("The cat sat on the mat .\nIt was a Dark night .\n")
    (tmp_path / "hyp").write_text("the cat sat on the mat .\nIt was a dark night .")
    return [f"--reference={tmp_path / 'ref'}", f"--translation={tmp_path / 'hyp'}"]


def _error(capsys, argv):
    return small_run.error(capsys, bleu.main, argv)


def _shared_pair(shared_dir):
    data = os.path.join(shared_dir, "data")
    name = "sennrich2016.newstest2014"
    with open(os.path.join(data, "bleu_reference", "SCORES.tsv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    [scores] = [row for row in rows if f"{row['system']}.{row['testset']}" == name]
    return scores, [
        f"--reference={data}/wmt/en-de/newstest2014.de",
        f"--translation={data}/bleu_reference/detok/{name}.detok.de",
    ]


@pytest.mark.parametrize("name", ["translation", "reference"])
def test_missing_file_names_its_flag(files, capsys, name):
    error = _error(capsys, [*files, f"--{name}=missing.txt"])
    assert (
        error == f"error: --{name} must be a file. Received: 'missing.txt', which does not exist."
    )


def test_sacrebleu_matches_published_score(shared_dir, capsys):
    scores, argv = _shared_pair(shared_dir)
    assert bleu.main(argv) == 0
    uncased, cased = capsys.readouterr().out.splitlines()
    assert cased.startswith(f"BLEU_cased =  {float(scores['sacreBLEU_cased']):.2f}  57.0/31.3/19.2")
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in cased
    assert uncased.startswith(f"BLEU_uncased =  {float(scores['sacreBLEU_lc']):.2f}")
    assert "|case:lc|" in uncased
    assert "25.36" in cased  # 25.36 is the published score


@pytest.mark.slow
def test_t2t_bleu_matches_published_score(shared_dir, capsys):
    scores, argv = _shared_pair(shared_dir)
    assert bleu.main([*argv, "--t2t"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"BLEU_uncased = {float(scores['t2t_bleu_uncased']):6.2f}",
        f"BLEU_cased = {float(scores['t2t_bleu_cased']):6.2f}",
    ]
    assert (scores["t2t_bleu_uncased"][:5], scores["t2t_bleu_cased"][:5]) == ("26.56", "26.02")


def test_bleu_cased_and_uncased(files, capsys):
    """A missing line break at the end of a file does not change the number of lines."""
    assert bleu.main([*files, "--bleu_variant=uncased"]) == 0
    assert capsys.readouterr().out.startswith("BLEU_uncased = 100.00  100.0/100.0")
    assert bleu.main([*files, "--bleu_variant=cased", "--t2t"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert 10 < float(line.removeprefix("BLEU_cased = ")) < 90


@pytest.mark.parametrize(("end", "notes"), [(" .", 1), (".", 0)])
def test_tokenized_translations_are_noted_once(tmp_path, capsys, caplog, end, notes):
    for name in ("ref", "hyp"):
        (tmp_path / name).write_text(f"The cat sat on the mat{end}\n" * 120)
    argv = [f"--reference={tmp_path / 'ref'}", f"--translation={tmp_path / 'hyp'}"]
    assert bleu.main(argv) == 0
    assert capsys.readouterr().err.count("note: 120 translations end with") == notes
    assert not caplog.records  # sacreBLEU's warning asks for an argument that ut-bleu lacks


def test_segments_of_sgm_files_are_noted(files, tmp_path, capsys):
    """The tags of an SGM file are equal on both sides, so they raise the score."""
    (tmp_path / "ref").write_text('<doc docid="1">\n <SEG id="1">The cat</seg> \n</doc>\n')
    (tmp_path / "hyp").write_text('<doc docid="1">\nThe cat <seg> was\n</doc>\n')
    assert bleu.main(files) == 0
    [note] = capsys.readouterr().err.splitlines()
    assert "ref: 1 line is a segment of an SGM file" in note


@pytest.fixture
def chinese(tmp_path):
    for name in ("REFERENCES", "HYPOTHESES"):
        lines = getattr(sacre_bleu_test, name)
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [f"--reference={tmp_path}/REFERENCES", f"--translation={tmp_path}/HYPOTHESES"]


@pytest.mark.parametrize(
    "how, tokenizer, score",
    [
        ("--language_pair=en-zh", "zh", "69.85"),
        ("--language_pair=en-zh_CN", "zh", "69.85"),
        ("--tokenize=zh", "zh", "69.85"),
        ("--tokenize=13a", "13a", "0.00"),
        ("--language_pair=zh-en", "13a", "0.00"),
        ("--bleu_variant=cased", "13a", "0.00"),
    ],
)
def test_language_pair_selects_tokenizer(chinese, capsys, how, tokenizer, score):
    assert bleu.main([*chinese, how]) == 0
    shown = capsys.readouterr()
    line = shown.out.splitlines()[-1]
    assert line.split()[2] == score and f"|tok:{tokenizer}|" in line
    assert ("note:" in shown.err) == (tokenizer == "13a")


def test_tokenizer_flags_reject_invalid_values(chinese, capsys, monkeypatch):
    monkeypatch.setattr(tokenizer_ko_mecab, "MeCab", None)
    assert "sacrebleu[ko]" in _error(capsys, [*chinese, "--language_pair=en-ko"])
    assert "sacrebleu[ko]" in _error(capsys, [*chinese, "--tokenize=ko-mecab"])
    assert "Received: 'chars'" in _error(capsys, [*chinese, "--tokenize=chars"])
    for pair in ("zh", "en-", "-zh", "en zh", "en-1"):
        assert f"Received: '{pair}'" in _error(capsys, [*chinese, f"--language_pair={pair}"])
    for flag in ("--tokenize=zh", "--language_pair=en-zh"):
        assert f"--t2t cannot be combined with {flag.split('=')[0]}" in _error(
            capsys, [*chinese, "--t2t", flag]
        )


def test_user_errors_are_one_line(files, tmp_path, capsys):
    assert "--translation is required" in _error(capsys, files[:1])
    assert "both" in _error(capsys, [*files, "--bleu_variant=bot"])
    assert "/nowhere" in _error(capsys, [files[0], "--translation=/nowhere"])
    (tmp_path / "hyp").write_bytes(b"one\n\xff\n")
    assert "hyp, line 2" in _error(capsys, files)
    (tmp_path / "hyp").write_text("one\ntwo\nthree\n")
    line = _error(capsys, files)
    assert "same number of lines" in line and "ref with 2" in line and "hyp with 3" in line
    for name in ("ref", "hyp"):
        (tmp_path / name).write_text("")
    assert "at least one" in _error(capsys, files)
    assert "--translations_dir " in _error(capsys, ["--translations_dir=x"])
