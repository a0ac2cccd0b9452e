"""After `pip install -e`, the package can be imported in the folder that contains the clone."""

import pathlib
import shutil
import subprocess
import sys
import zipfile

_ROOT = pathlib.Path(__file__).parents[1]
_FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_BUILD = "from setuptools import build_meta; build_meta.build_editable({folder!r})"
# With the option -S, Python searches only the standard library. The program adds other folders.
_IMPORT = """
import site, sys
sys.path.insert(0, "")
site.addsitedir({folder!r})
import ut_keras
print(ut_keras.__file__)
"""


def _run(program, cwd, *options):
    words = [sys.executable, *options, "-c", program]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True).stdout


def test_package_is_found_in_the_folder_that_contains_the_clone(tmp_path):
    """A clone in a folder `ut_keras` must not hide the package `ut_keras` inside the clone."""
    clone, wheels, installed = (tmp_path / name for name in ("ut_keras", "wheels", "installed"))
    shutil.copytree(_ROOT / "ut_keras", clone / "ut_keras")
    for name in _FILES:
        shutil.copy(_ROOT / name, clone)
    wheels.mkdir()
    _run(_BUILD.format(folder=str(wheels)), clone)
    [wheel] = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    found = _run(_IMPORT.format(folder=str(installed)), tmp_path, "-S")
    assert found.strip() == str(clone / "ut_keras" / "__init__.py")
