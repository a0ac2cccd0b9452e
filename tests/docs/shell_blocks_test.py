"""The commands in the `sh` blocks of the pages work as they are written.

The test runs the commands of a page in order, in an empty folder, and trains for fewer steps than
the page says. If a page uses the run of another page, the test writes a small run. `NOT_RUN` lists
the commands that the test cannot run, each with the reason. `code_blocks_test.py` checks the flags
of all commands.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests import forks
from tests.bin import small_run
from tests.docs import code_blocks_test
from ut_keras import problems
from ut_keras.inference import feature_record

_ROOT = code_blocks_test.ROOT
# {beginning or flag of a command: reason why the test does not run the command}
NOT_RUN = {
    "curl": "needs the server that Docker runs",
    "docker": "needs Docker",
    "make demo": "installs packages from the network",
    "pip install": "installs packages from the network",
    "tensorboard": "runs until it is stopped",
    "ut-query-server": "needs the server that Docker runs",
    "--hours=": "takes hours",
    "--problem=lte_copy": "generates a million programs",
    "--problem=translate_ende_multi30k": "downloads Multi30k",
    "--problem=babi_qa_sentence_single_task1_10k": "needs the archive of bAbI",
    "python benchmarks/train_step.py": "needs environments with other libraries",
    "--with_before=": "needs an older checkout",
    "python benchmarks/decode.py": "needs environments with other libraries",
    "python benchmarks/ponder.py": "takes hours",
    "python benchmarks/text.py": "needs an environment with other libraries",
    "python benchmarks/length.py": "needs an environment with other libraries",
}
_LESS_TRAINING = (
    "--hp_hidden_size=16 --hp_filter_size=16 --hp_num_heads=2 --hp_batch_size=64 "
    "--hp_learning_rate_warmup_steps=1 --eval_steps=1"
)
SHORTER = (
    (r"--train_steps=\d+", f"--train_steps=2 {_LESS_TRAINING}"),
    (r"--eval_steps=0 ", ""),
    (r"--local_eval_frequency=\d+", "--local_eval_frequency=2"),
    (r"--autotune_max_trials=\d+", "--autotune_max_trials=1"),
    (r"--schedule=train_eval_and_decode", r"\g<0> --decode_hparams=num_samples=2,extra_length=1"),
    (r'--decode_hparams="beam_size=1,extra_length=2"', ""),
    (r"--hparams=batch_size=512", ""),  # a command may set each hparam only once
    (r"depth\.py --rounds=2", "depth.py --rounds=1 --length=16 --hidden_size=16"),
    (r"--steps=7,14,28", "--steps=28"),
    (r"--hidden_size=64", "--hidden_size=16 --models=universal_transformer --beam_sizes=1"),
    (r"xla_compile\.py --keep", r"\g<0> --dtype=float32"),  # XLA compiles this type faster
    (r"input_pipeline\.py --parts", r"\g<0> --rounds=2 --pairs=1000 --batch_sizes=4096"),
)
# {command: first arguments of the Python process that it starts}
_PYTHON = {"python": []} | {
    name: ["-m", module] for name, module in code_blocks_test._scripts().items()
}
# The generated problems have up to 100,000 examples. In the test, the commands generate at most 200
# per split. The puzzles of `sudoku6` alone took more than a minute.
_SITE_CUSTOMIZE = """
from ut_keras.problems import algorithmic, generated_classes, sudoku

algorithmic.AlgorithmicProblem.train_size = algorithmic.AlgorithmicProblem.dev_size = 200
generated_classes.Generated.sizes = sudoku.Sudoku6.sizes = {"train": 200, "dev": 50, "test": 50}
"""


def _commands(page):
    """Return the commands of a page without comments, and with continued lines joined."""
    blocks = "\n".join(code_blocks_test._blocks(page, "sh")).replace("\\\n", " ")
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in blocks.splitlines())
    return [line for line in lines if line]


def _reason(command):
    return next((r for part, r in NOT_RUN.items() if _is_of(command, part)), None)


def _is_of(command, part):
    return part in command if part.startswith("--") else command.startswith(part)


PAGES = [page for page in code_blocks_test.PAGES if not all(map(_reason, _commands(page)))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_page_work(page, tmp_path):
    environment = _environment(tmp_path)
    folder = tmp_path / "reader"
    folder.mkdir()
    shutil.copy(os.path.join(_ROOT, "trainer.py"), folder)
    os.symlink(os.path.join(_ROOT, "benchmarks"), folder / "benchmarks")
    PREPARE.get(page, lambda folder: None)(folder)
    for command in _commands(page):
        if _reason(command):
            continue
        for long, short in SHORTER:
            command = re.sub(long, short, command)
        done = _run(command, folder, environment)
        assert done.returncode == 0, f"{page}: {command}\n{done.stdout[-2000:]}{done.stderr}"
    CHECK.get(page, lambda folder: None)(folder)


def test_reasons_are_needed():
    """Every entry of `NOT_RUN` applies to at least one command of the pages."""
    commands = [command for page in code_blocks_test.PAGES for command in _commands(page)]
    for part in NOT_RUN:
        assert any(_is_of(command, part) for command in commands), part
    assert len(PAGES) >= 7


def _run(command, folder, environment):
    """Run a command like a shell. Run a Python program in a fork, which needs no imports."""
    name, *words = shlex.split(command)
    if name in _PYTHON and not re.search("[][|&;<>()$`*?~]", command):
        return forks.run([*_PYTHON[name], *words], folder, environment, prepare=_SITE_CUSTOMIZE)
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def _environment(folder):
    """Return environment variables that make the commands of ut_keras available."""
    programs = folder / "bin"
    programs.mkdir()
    for name, options in _PYTHON.items():
        path = programs / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *options])} "$@"\n')
        path.chmod(0o755)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(_SITE_CUSTOMIZE)
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(folder / "site"), _ROOT]),
    }


# The following functions write files that a page expects from the reader or from another page.


def _write_run(folder, run, data, name="algorithmic_reverse_binary40_test", **options):
    """Write the data of a problem, and a run of this problem with random weights."""
    problem = problems.get(name)
    problem.generate_data(str(folder / data), str(folder), num_processes=1)
    (folder / run).mkdir(parents=True)
    small_run.write(folder / run, data_dir=folder / data, problem=name, **options)
    record = feature_record.from_problem(problem, str(folder / data))
    feature_record.save(str(folder / run), record)


def _write_text_run(folder, run, data):
    (folder / "train.tsv").write_text("Zwei Hunde spielen.\tTwo dogs play.\n" * 40)
    _write_run(folder, run, data, "text2text_tsv")


def _prepare_readme(folder):
    (folder / "my_text").mkdir()
    (folder / "my_text" / "train.tsv").write_text("21 March 1948\t1948-03-21\n" * 40)


def _prepare_own_data(folder):
    (folder / "my_text").mkdir()
    (folder / "my_text" / "train.tsv").write_text("A dull film.\tbad\nA great film.\tgood\n" * 40)


def _prepare_decoding(folder):
    _write_run(folder, "run", "data", steps=range(1000, 9000, 1000))
    (folder / "test.en").write_text("0 1\n1\n")
    (folder / "pairs.tsv").write_text("0 1\t1 0\n")


def _prepare_serving(folder):
    _write_run(folder, "runs/reverse", "runs/data")
    _write_text_run(folder, "runs/ende", "runs/multi30k")


def _prepare_visualize(folder):
    _write_text_run(folder, "run", "data")
    _write_run(folder, "runs/babi1", "runs/babi", model="universal_transformer")


PREPARE = {
    "README.md": _prepare_readme,
    "docs/decoding.md": _prepare_decoding,
    "docs/on_device.md": lambda folder: _write_text_run(folder, "runs/ende", "runs/multi30k"),
    "docs/own_data.md": _prepare_own_data,
    "docs/serving.md": _prepare_serving,
    "docs/visualize.md": _prepare_visualize,
}
CHECK = {
    "README.md": lambda folder: list((folder / "served").iterdir())[0],
    "docs/on_device.md": lambda folder: (
        next(folder.glob("phone/*/model.tflite")),
        next(folder.glob("onnx/*/model.onnx")),
    ),
}
