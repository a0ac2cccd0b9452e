import json
import os

import pytest

from ut_keras.metrics import bleu

FOLDER = os.path.join(os.path.dirname(__file__), "..", "testdata", "t2t", "text")
REF, HYP = os.path.join(FOLDER, "bleu.ref.txt"), os.path.join(FOLDER, "bleu.hyp.txt")
with open(os.path.join(FOLDER, "bleu.json"), encoding="utf-8") as file:
    GOLDEN = json.load(file)


def _tokens(path):
    with open(path, encoding="utf-8") as file:
        return [bleu.bleu_tokenize(line) for line in file.read().split("\n")]


def test_tokenization_matches_t2t():
    for case in GOLDEN["tokens"]:
        assert bleu.bleu_tokenize(case["s"]) == case["t"]
    assert bleu.bleu_tokenize("a\\b 3.5 (x)") == ["a\\b", "3.5", "(", "x", ")"]


def test_files_match_t2t():
    assert bleu.bleu_wrapper(REF, HYP) == pytest.approx(GOLDEN["uncased"], rel=1e-6)
    cased = bleu.bleu_wrapper(REF, HYP, case_sensitive=True)
    assert cased == pytest.approx(GOLDEN["cased"], rel=1e-6)


def test_options_and_lines_match_t2t():
    references, hypotheses = _tokens(REF), _tokens(HYP)
    order_2 = bleu.compute_bleu(references, hypotheses, max_order=2)
    assert order_2 == pytest.approx(GOLDEN["max_order_2"], rel=1e-6)
    no_penalty = bleu.compute_bleu(references, hypotheses, use_bp=False)
    assert no_penalty == pytest.approx(GOLDEN["no_bp"], rel=1e-6)
    for reference, hypothesis, expected in zip(
        references, hypotheses, GOLDEN["per_line_cased"], strict=False
    ):
        value = bleu.compute_bleu([reference], [hypothesis])
        assert value == pytest.approx(expected, rel=1e-6)


def test_ids_match_t2t():
    for case in GOLDEN["ids_cases"]:
        assert bleu.compute_bleu(case["ref"], case["hyp"]) == pytest.approx(case["bleu"], rel=1e-6)


def test_files_must_have_the_same_number_of_lines(tmp_path):
    (tmp_path / "short").write_text("one line\n")
    with pytest.raises(ValueError, match="same number of lines.*short with 2"):
        bleu.bleu_wrapper(REF, str(tmp_path / "short"))
