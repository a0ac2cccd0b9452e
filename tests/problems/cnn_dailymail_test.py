import hashlib

import pytest

from tests.problems import archives
from ut_keras.problems import cnn_dailymail

pytestmark = pytest.mark.usefixtures("no_checksums")

_STORY = "Billboards are long\n\n(CNN) -- They say so.\n\n@highlight\n\nThey sleep\n\n"


def _address(number):
    return f"http://web.archive.org/{number}"


def _file(number):
    return hashlib.sha1(_address(number).encode()).hexdigest() + ".story"


def test_stories_are_split_by_url(tmp_path):
    stories = {
        "cnn": {0: _STORY + "@highlight\n\nAll of them!\n", 1: "No highlights.\n"},
        "dailymail": {2: _STORY, 3: "@highlight\n\nNo article\n"},
    }
    for paper, of_paper in stories.items():
        members = {f"{paper}/stories/{_file(i)}": text for i, text in of_paper.items()}
        archives.write(tmp_path / f"{paper}_stories.tgz", members)
    for part, numbers in {"train": (0, 1, 2, 3, 4), "val": (2,), "test": (0, 2)}.items():
        (tmp_path / f"all_{part}.txt").write_text("".join(f"{_address(i)}\n" for i in numbers))
    problem, counts = archives.generate("summarize_cnn_dailymail32k", tmp_path)
    assert counts == {"train": 2, "dev": 1, "test": 2}
    article = "Billboards are long. (CNN) -- They say so."
    assert archives.texts(problem, tmp_path, "test") == [
        (article, "They sleep."),
        (article, "They sleep. All of them!"),
    ]
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert "vocab.summarize_cnn_dailymail32k.32768.subwords" in names
    assert "summarize_cnn_dailymail32k-dev-00009-of-00010" in names  # T2T also has 10 files
    records = tmp_path / "data" / ".ut_keras-records"
    origin = records / "datagen.summarize_cnn_dailymail32k-train.json"
    left_out = origin.read_text()
    assert '"not there": 1' in left_out and '"without article or highlights": 2' in left_out


def test_lines_are_read_as_in_t2t(tmp_path):
    """T2T strips bytes, so a no-break space at the end of a line remains."""
    path = tmp_path / "a.story"
    path.write_text("\tBy\xa0\n \xa0 \nOne.\r\n\n@highlight\n\nTwo\n", encoding="utf-8")
    assert cnn_dailymail._read_story(str(path)) == (["By\xa0.", "\xa0.", "One."], ["Two."])


def test_vocabulary_is_built_from_joined_texts(tmp_path):
    problem = cnn_dailymail.SummarizeCnnDailymail32k()
    samples = [{"inputs": "One. Two.", "targets": "Three."}, {"inputs": "A.", "targets": "B."}]
    problem.generate_samples = lambda *arguments, **seed: iter(samples)
    assert list(problem.texts_for_vocab("", "")) == ["One. Two. Three.", "A. B."]
