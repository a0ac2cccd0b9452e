"""`unpack` unpacks only the selected files of an archive."""

import contextlib
import gzip
import io
import os
import resource
import tarfile
import zipfile

import pytest

from ut_keras.errors import DataError
from ut_keras.files import unpacking

MOST = 100_000  # maximum size in bytes


def _unpack(path, directory, members=("*",), most_bytes=MOST):
    return unpacking.unpack(str(path), str(directory), members, most_bytes)


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _archive(path, files):
    if str(path).endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return str(path)
    with tarfile.open(path, "w:gz" if str(path).endswith("gz") else "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return str(path)


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.tar.gz", "a.zip"])
def test_unpack_copies_selected_members(tmp_path, name):
    path = _archive(tmp_path / name, {"data/en.txt": b"hello", "./de.txt": b"hallo"})
    folder = _unpack(path, tmp_path / "out")
    assert _read(f"{folder}/data/en.txt") == b"hello" and _read(f"{folder}/de.txt") == b"hallo"
    os.remove(path)
    assert _unpack(path, folder) == folder
    assert os.listdir(tmp_path) == ["out"]


def test_folder_of_another_archive_is_rejected(tmp_path):
    path = _archive(tmp_path / "a.tar.gz", {"en.txt": b"hello"})
    folder = _unpack(path, tmp_path / "out")
    assert _unpack(path, folder) == folder
    _archive(tmp_path / "a.tar.gz", {"en.txt": b"hello", "de.txt": bytes(range(256))})
    with pytest.raises(DataError, match=f"{folder} must have the files of {path}, .* Remove"):
        _unpack(path, folder)
    os.remove(f"{folder}/{unpacking._SIZE_FILE}")  # earlier versions wrote no size
    assert _unpack(path, folder) == folder


def test_unpack_gzip_file(tmp_path):
    (tmp_path / "corpus.en.gz").write_bytes(gzip.compress(b"hello"))
    folder = _unpack(tmp_path / "corpus.en.gz", tmp_path / "out")
    assert _read(f"{folder}/corpus.en") == b"hello"


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
@pytest.mark.parametrize("member", ["../evil", "/tmp/evil", "data/../../evil", "."])
def test_unpack_rejects_names_outside_folder(tmp_path, name, member):
    path = _archive(tmp_path / name, {member: b"x"})
    with pytest.raises(DataError, match="must stay inside"):
        _unpack(path, tmp_path / "out")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_unpack_rejects_links_and_devices(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        member = tarfile.TarInfo("link")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(DataError, match="a link or device"):
        _unpack(tmp_path / "a.tar", tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.tar"]


def test_unpack_rejects_link_in_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        member = zipfile.ZipInfo("link")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(DataError, match="a link or device"):
        _unpack(tmp_path / "a.zip", tmp_path / "out")


def _zip(path, flags=0, compression=0):
    """Write a zip file whose headers have these flags and this compression method."""
    _archive(path, {"x": b"hello" * 100})
    content = bytearray(_read(path))
    central = content.rfind(b"PK\1\2")
    for place in (6, central + 8):
        content[place] |= flags
    for place in (8, central + 10):
        content[place] = compression
    path.write_bytes(content)


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda path: _zip(path, flags=1), "encrypted"),
        (lambda path: _zip(path, compression=99), "compression"),
        (lambda path: _zip(path, compression=12), "complete tar, zip or gzip"),
        (lambda path: path.write_bytes(b""), "an empty file"),
        (lambda path: path.write_bytes(b"x" * 1000), "complete tar, zip or gzip"),
        (os.mkfifo, "must be a file"),
        (os.mkdir, "must be a file"),
    ],
)
def test_unpack_rejects_invalid_archive(tmp_path, make, expected):
    make(tmp_path / "a.zip")
    with pytest.raises(DataError, match=expected):
        _unpack(tmp_path / "a.zip", tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("members", [(), "*.txt", (3,), None])
def test_unpack_rejects_invalid_patterns(tmp_path, members):
    _archive(tmp_path / "a.tar", {"x": b"x"})
    with pytest.raises(DataError, match="The members of a.tar must be a tuple of patterns"):
        _unpack(tmp_path / "a.tar", tmp_path / "out", members)


@pytest.mark.parametrize("name", ["a.tar", "a.zip"])
def test_unpack_member_without_bytes_or_name(tmp_path, name):
    """`unpack` accepts an empty member, but rejects an archive with only unnamed members."""
    path = _archive(tmp_path / name, {"empty.txt": b""})
    folder = _unpack(path, tmp_path / "out")
    assert sorted(os.listdir(folder)) == [unpacking._SIZE_FILE, "empty.txt"]
    for other, files in enumerate([{"": b"x"}, {".": b"x"}, {"a/..": b"x"}, {}]):
        with contextlib.suppress(IndexError):  # zipfile cannot write empty names
            path = _archive(tmp_path / f"{other}{name}", files)
            with pytest.raises(DataError, match="must stay inside|archive without them"):
                _unpack(path, tmp_path / "other")


def test_unpack_rejects_file_as_target_folder(tmp_path):
    _archive(tmp_path / "a.tar", {"x": b"x"})
    (tmp_path / "out").write_text("")
    with pytest.raises(DataError, match="out must be a folder .*Received: a file or link"):
        _unpack(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("name", ["a.tgz", "a.zip", "a.gz"])
def test_unpack_of_truncated_archive_leaves_nothing(tmp_path, name):
    if name == "a.gz":
        (tmp_path / name).write_bytes(gzip.compress(os.urandom(10_000)))
    else:
        _archive(tmp_path / name, {"en.txt": os.urandom(10_000)})
    (tmp_path / name).write_bytes(_read(tmp_path / name)[:5000])
    with pytest.raises(DataError, match="complete tar, zip or gzip"):
        _unpack(tmp_path / name, tmp_path / "out")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.tar", "header.tar", "a.tgz"])
def test_unpack_of_archive_with_damaged_end_leaves_nothing(tmp_path, name):
    content = bytearray(_read(_archive(tmp_path / name, {"a": b"a" * 1000, "b": b"b"})))
    if name == "a.tar":
        del content[512 + 1024 :]  # the file ends between two members
    elif name == "header.tar":
        content[512 + 1024] ^= 1
    else:
        content[-8] ^= 1  # this byte belongs to the checksum
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match="complete tar, zip or gzip"):
        _unpack(tmp_path / name, tmp_path / "out")
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.zip"])
def test_unpack_skips_other_members(tmp_path, name):
    """`unpack` ignores members that are not selected, even if their names are invalid."""
    files = {"./data/de.txt": b"hallo", "data/fr.txt": b"salut", "../evil": b"x", "en.txt": b"hi"}
    path = _archive(tmp_path / name, files)
    folder = _unpack(path, tmp_path / "out", ("data/*.txt", "en.*"))
    found = [os.path.join(place, file) for place, _, files in os.walk(folder) for file in files]
    names = sorted(os.path.relpath(path, folder) for path in found)
    assert names == [unpacking._SIZE_FILE, "data/de.txt", "data/fr.txt", "en.txt"]
    with pytest.raises(DataError, match=r"\*.es or x. Received: an archive without"):
        _unpack(path, tmp_path / "other", ("*.es", "x"))
    assert sorted(os.listdir(tmp_path)) == [name, "out"]


def _sparse(path):
    """Write a tar file whose header declares a large member."""
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("en.txt")
        member.size = 2**40
        archive.fileobj.write(member.tobuf())
        archive.fileobj.write(bytes(1024))


@pytest.mark.parametrize(
    "name, make",
    [
        ("a.tar", _sparse),
        ("a.tgz", lambda path: _archive(path, {"en.txt": bytes(MOST + 1)})),
        ("b.tgz", lambda path: _archive(path, {"en.txt": b"x", "skipped": bytes(MOST + 1)})),
        ("a.zip", lambda path: _archive(path, {"en.txt": b"x", "b": bytes(MOST)})),
        ("a.gz", lambda path: path.write_bytes(gzip.compress(b"x" * (MOST + 1)))),
    ],
)
def test_unpack_rejects_too_large_archive(tmp_path, name, make):
    make(tmp_path / name)
    with pytest.raises(DataError, match=f"{name} must unpack to at most {MOST} bytes"):
        _unpack(tmp_path / name, tmp_path / "out", ("en.txt", "a"))
    assert os.listdir(tmp_path) == [name]


def test_unpack_to_full_disk_names_folder(tmp_path):
    path = _archive(tmp_path / "a.tar", {"a.txt": b"a" * 1000})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError) as raised:
            _unpack(path, tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.filename == str(tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.tar"]
