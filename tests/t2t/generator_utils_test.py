import gzip
import os
import tarfile

import pytest

from ut_keras.data import tfrecords
from ut_keras.errors import UserError
from ut_keras.t2t import generator_utils


def _content(folder):
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def _archive(folder):
    (folder / "made").mkdir()
    (folder / "made" / "a.txt").write_text("of the archive")
    (folder / "made" / "b.txt.gz").write_bytes(gzip.compress(b"of the archive"))
    with tarfile.open(folder / "corpus.tgz", "w:gz") as archive:
        archive.add(folder / "made", ".")


@pytest.mark.parametrize("name", ["a.txt", "b.txt.gz"])
def test_archive_is_unpacked_beside_itself(tmp_path, name):
    _archive(tmp_path)
    path = generator_utils.archived(str(tmp_path), "http://nowhere/corpus.tgz", name)
    assert path == f"{tmp_path}/corpus.tgz.unpacked/{name.removesuffix('.gz')}"
    with open(path) as file:
        assert file.read() == "of the archive"


def _folder(path):
    path.mkdir()
    for name in ("a.txt", "b.txt", "b.txt.gz", "c.txt"):
        (path / name).write_bytes(gzip.compress(b"mine"))


def _link_to_a_folder(path):
    _folder(path.parent / "mine")
    path.symlink_to("mine")


def _other_files(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")


@pytest.mark.parametrize("name", ["a.txt", "b.txt.gz"])
@pytest.mark.parametrize(
    "make, message",
    [
        (_folder, ""),
        (_link_to_a_folder, ""),
        (_other_files, " must contain "),
        (lambda path: path.write_text("mine"), "must be a folder "),
        (lambda path: path.symlink_to("nowhere"), "must be a folder "),
    ],
)
def test_users_file_is_not_replaced(tmp_path, make, message, name):
    _archive(tmp_path)
    make(tmp_path / "corpus.tgz.unpacked")
    before = _content(tmp_path)
    try:
        path = generator_utils.archived(str(tmp_path), "corpus.tgz", name)
        assert not message and os.path.isfile(path)
    except UserError as error:
        assert message and message in str(error)
    assert _content(tmp_path) == before


def test_maybe_download_copies_from_path_or_file_url(tmp_path):
    (tmp_path / "there.txt").write_text("lines")
    for name, scheme in {"a": "", "b": "file://"}.items():
        uri = f"{scheme}{tmp_path}/there.txt"
        path = generator_utils.maybe_download(str(tmp_path / "raw"), name, uri)
        with open(path, encoding="utf-8") as file:
            assert file.read() == "lines"


def test_folder_named_unshuffled_keeps_its_name(tmp_path):
    folder = tmp_path / "my-unshuffled"
    folder.mkdir()
    paths = generator_utils.train_data_filenames("p", str(folder), 1)
    examples = [{"inputs": [1], "targets": [2]}]
    generator_utils.generate_dataset_and_shuffle(examples, paths, examples, [f"{folder}/dev"])
    assert os.listdir(tmp_path) == [folder.name]
    assert sorted(os.listdir(folder)) == ["dev", "p-train-00000-of-00001"]


def test_existing_files_are_not_shuffled(tmp_path):
    """T2T does not shuffle files that already have their final names."""
    path = str(tmp_path / "p-train-00000-of-00001")
    tfrecords.write([{"targets": [i]} for i in range(20)], [path])
    before = _content(tmp_path)
    generator_utils.generate_dataset_and_shuffle([], [path], [], [path])
    assert _content(tmp_path) == before


def test_newer_gzip_file_prints_a_note(tmp_path, capsys):
    source, unpacked = tmp_path / "b.txt.gz", tmp_path / "b.txt"
    source.write_bytes(gzip.compress(b"old"))
    generator_utils.gunzip_file(str(source), str(unpacked))
    generator_utils.gunzip_file(str(source), str(unpacked))
    assert not capsys.readouterr().out
    source.write_bytes(gzip.compress(b"new"))
    os.utime(source, (2**31, 2**31))
    generator_utils.gunzip_file(str(source), str(unpacked))
    assert unpacked.read_text() == "old"
    assert f"{unpacked} is read, although {source} is newer" in capsys.readouterr().out
