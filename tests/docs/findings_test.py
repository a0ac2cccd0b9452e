"""findings/README.md lists all scripts in findings/, and bash can parse the scripts.

CI does not run the scripts.
"""

import glob
import os
import re
import subprocess

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SCRIPTS = sorted(glob.glob("findings/*.sh", root_dir=ROOT))


def _read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def test_table_lists_every_script():
    names = re.findall(r"^\| `(\w+)` \|", _read("findings/README.md"), re.MULTILINE)
    assert names == [os.path.basename(path).removesuffix(".sh") for path in SCRIPTS]


@pytest.mark.parametrize("path", SCRIPTS)
def test_script_is_pinned_and_leaves_nothing(path):
    script = _read(path)
    subprocess.run(["bash", "-n", path], cwd=ROOT, check=True)
    assert os.access(os.path.join(ROOT, path), os.X_OK)
    head, body = script.split("\nset -euo pipefail\n")
    for part in ("Version:", "Behaviour:", "Surprise:", "Output seen"):
        assert f"# {part}" in head
    assert "mktemp -d" in body and "trap 'rm -rf" in body
    assert "ut_keras" not in body
    install = body[body.index('pip" install') :].replace("\\\n", "").splitlines()[0]
    packages = [word for word in install.split()[2:] if not word.startswith("-")]
    assert packages and all(re.fullmatch(r"[\w-]+==[\d.]+", package) for package in packages)
