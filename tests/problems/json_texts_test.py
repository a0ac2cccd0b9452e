"""Tests of problems with JSON files: questions about paragraphs and captions of pictures."""

import json

import pytest

from tests.problems import archives

pytestmark = pytest.mark.usefixtures("no_checksums")


def test_squad_has_context_question_and_answer(tmp_path):
    def article(split):
        questions = [
            {"question": f" Which {i}? ", "answers": [{"text": f"{split} {i} "}, {"text": "no"}]}
            for i in range(2)
        ]
        return {"title": "t", "paragraphs": [{"context": f"A {split} text. ", "qas": questions}]}

    for split in ("train", "dev"):
        text = json.dumps({"version": "1.1", "data": [article(split)]})
        (tmp_path / f"{split}-v1.1.json").write_text(text)
    problem, counts = archives.generate("squad_text2text", tmp_path)
    assert counts == {"train": 2, "dev": 2}
    assert archives.texts(problem, tmp_path, "dev") == [
        (f"squad context: A dev text. question: Which {i}?", f"dev {i}") for i in range(2)
    ]
    assert (tmp_path / "data" / "vocab.squad_text2text.32768.subwords").exists()


@pytest.mark.parametrize(("name", "pairs"), [("1d", ["ab", "ac", "bc"]), ("2d", None)])
def test_captions_of_a_picture_are_pairs(name, pairs, tmp_path):
    captions = [(7, "a"), (8, "d"), (7, "b"), (7, "c")]
    annotations = [{"image_id": image, "caption": caption} for image, caption in captions]
    members = {
        f"annotations/captions_{part}2014.json": json.dumps({"annotations": annotations})
        for part in ("train", "val")
    }
    archives.write(tmp_path / "annotations_trainval2014.zip", members)
    problem, _ = archives.generate(
        f"paraphrase_generation_ms_coco_problem{name}_characters", tmp_path
    )
    pairs = pairs or ["ab", "ac", "ba", "bc", "ca", "cb"]
    assert archives.texts(problem, tmp_path, "dev") == [tuple(pair) for pair in pairs]
