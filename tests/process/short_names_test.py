import os
import pathlib
import subprocess
import sys

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


def test_a_checkout_has_each_module_once():
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


def test_a_project_has_its_own_module_of_the_name(tmp_path):
    (tmp_path / "problems.py").write_text("MINE = 1\n")
    code = "import problems; from ut_keras import problems as ours; ours.names(); problems.MINE"
    _run(code, tmp_path, PYTHONPATH=str(ROOT.parent / "none"))


def test_a_package_of_a_user_may_say_them_where_we_are_installed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(
        "import hparams, ut_keras.problems.problem\n"
        "from problems import problem\n"
        "assert problem is ut_keras.problems.problem\n"
    )
    _run("from ut_keras.t2t import usr_dir; usr_dir.load('mine')", tmp_path)
