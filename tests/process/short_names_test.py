import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from ut_keras.process.short_names import NAMES

ROOT = pathlib.Path(__file__).parents[2]


def _run(code, folder=ROOT, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_checkout_has_each_module_once():
    _run(
        "import problems.scan, hparams, pretrained\n"
        "from problems import babi_qa\n"
        "from hparams.registry import SETS\n"
        "import ut_keras.problems.scan, ut_keras.hparams.registry, ut_keras.pretrained\n"
        "assert problems is ut_keras.problems and hparams is ut_keras.hparams\n"
        "assert pretrained is ut_keras.pretrained\n"
        "assert problems.scan is ut_keras.problems.scan\n"
        "assert babi_qa is ut_keras.problems.babi_qa\n"
        "assert babi_qa.__spec__.name == babi_qa.__name__ == 'ut_keras.problems.babi_qa'\n"
        "assert SETS is ut_keras.hparams.registry.SETS\n"
    )


def test_user_module_hides_the_short_name(tmp_path):
    (tmp_path / "problems.py").write_text("MINE = 1\n")
    code = "import problems; from ut_keras import problems as full; full.names(); problems.MINE"
    _run(code, tmp_path, PYTHONPATH=str(ROOT.parent / "none"))


def test_user_package_may_import_short_names(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(
        "import hparams, ut_keras.problems.problem\n"
        "from problems import problem\n"
        "assert problem is ut_keras.problems.problem\n"
    )
    _run("from ut_keras.t2t import usr_dir; usr_dir.load('mine')", tmp_path)


@pytest.mark.parametrize("links", ["absent", "text files"])
def test_checkout_without_symbolic_links_has_each_module_once(tmp_path, links):
    """Where the system does not allow links, Git writes each link as a text file."""
    for name in ("problems", "hparams", "pretrained", "ut_keras"):
        shutil.copytree(
            ROOT / name,
            tmp_path / name,
            ignore=shutil.ignore_patterns("__pycache__", *NAMES if name == "ut_keras" else ()),
        )
    if links == "text files":
        for name in NAMES:
            (tmp_path / "ut_keras" / name).write_text(f"../{name}")
    _run(
        "import pretrained, ut_keras.problems.scan, hparams.registry\n"
        "from problems import scan\n"
        "assert scan is ut_keras.problems.scan and len(pretrained.names()) > 2\n"
        "assert hparams.registry is ut_keras.hparams.registry\n"
        "assert ut_keras.hparams.get('universal_transformer_tiny')\n",
        tmp_path,
        PYTHONPATH="",
    )
