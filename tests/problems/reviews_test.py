"""Tests of problems with reviews, whose archives have special formats (IMDb and Yelp)."""

import pytest

from tests.problems import archives
from ut_keras.data import tfrecords
from ut_keras.errors import DataError

pytestmark = pytest.mark.usefixtures("no_checksums")


def test_imdb_file_is_one_review(tmp_path):
    members = {
        f"aclImdb/{part}/{label}/{i}_9.txt": f"A {label} film,\n{part} {i}. "
        for part in ("train", "test")
        for label in ("neg", "pos", "unsup")
        for i in range(2)
    }
    archives.write(tmp_path / "aclImdb_v1.tar.gz", members)
    problem, counts = archives.generate("sentiment_imdb_characters", tmp_path)
    assert counts == {"train": 4, "dev": 4}
    assert archives.texts(problem, tmp_path, "dev") == [
        (f"A {label} film,\ntest {i}.", label) for label in ("neg", "pos") for i in range(2)
    ]


@pytest.mark.parametrize(("kind", "most"), [("full", 5), ("polarity", 2)])
def test_yelp_stars_are_classes(kind, most, tmp_path):
    rows = "".join(f'"{i}","They say ""{i}"", \\nor more. "\n' for i in range(1, most + 1))
    folder = f"yelp_review_{kind}_csv"
    members = {f"{folder}/{name}.csv": rows for name in ("train", "test")}
    archives.write(tmp_path / f"{folder}.tgz", members)
    problem, _ = archives.generate(f"sentiment_yelp_{kind}_characters", tmp_path)
    assert archives.texts(problem, tmp_path, "dev") == [
        (f'They say ""{i}"", \\nor more.', str(i)) for i in range(1, most + 1)
    ]
    (path,) = tfrecords.find(tmp_path / "data", problem.filename, "dev")
    # The class ids are the same as in T2T.
    assert {record["targets"][0] for record in tfrecords.read(path)} == set(range(1, most + 1))


def test_archive_that_was_replaced_is_not_ignored(tmp_path):
    """The files of the former archive are still unpacked."""
    folder = "yelp_review_polarity_csv"
    for text in ("former", "replaced text"):
        members = {f"{folder}/{name}.csv": f'"1","{text}"\n' for name in ("train", "test")}
        archives.write(tmp_path / f"{folder}.tgz", members)
        if text == "former":
            archives.generate("sentiment_yelp_polarity_characters", tmp_path)
    for path in (tmp_path / "data").glob("sentiment*"):
        path.unlink()
    with pytest.raises(DataError, match=f"{folder}.tgz.unpacked must have .* Remove the folder"):
        archives.generate("sentiment_yelp_polarity_characters", tmp_path)


@pytest.mark.parametrize("line", ['"3","?"', "a 1st line break", '"1",', '"1","no end', '"1","'])
def test_invalid_yelp_line_is_named(line, tmp_path):
    folder = "yelp_review_polarity_csv"
    members = {f"{folder}/{name}.csv": f'"1","good"\n{line}\n' for name in ("train", "test")}
    archives.write(tmp_path / f"{folder}.tgz", members)
    with pytest.raises(DataError, match='"NUMBER","TEXT".*train.csv, line 2: '):
        archives.generate("sentiment_yelp_polarity", tmp_path)
