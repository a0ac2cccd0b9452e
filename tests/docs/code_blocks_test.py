"""The code blocks in the README, in docs/ and in pretrained/ are valid.

- The tests run the `python` blocks of each page, with fewer training steps.
- Each ut_keras command in a `sh` block parses its flags, and the test then stops the command.
- A `source` block names an excerpt of the code, which must exist.
- A `text` block is only for readers.
"""

import configparser
import glob
import importlib
import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

import ut_keras
from ut_keras import hparams, models, problems, registry
from ut_keras.bin import command_line
from ut_keras.hparam_schema import saved
from ut_keras.inference import decode_hparams, predictor
from ut_keras.problems import algorithmic

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PAGES = [
    "README.md",
    *sorted(glob.glob("docs/*.md", root_dir=ROOT)),
    *sorted(glob.glob("pretrained/*/README.md", root_dir=ROOT)),
]
LANGUAGES = ("python", "sh", "json", "source", "text")
# These commands do not belong to ut_keras, and the tests do not check them.
OTHER_COMMANDS = ("cat", "cd", "curl", "docker", "echo", "pip", "saved_model_cli", "tensorboard")

# {page: {text of the page: replacement that makes the example faster}}
SHORTER = {
    "README.md": {
        "max_length=11,batch_size=512": "max_length=11,batch_size=64,learning_rate_warmup_steps=1",
        "train_steps=600": "train_steps=2",
        "steps_per_epoch=600": "steps_per_epoch=2, verbose=0",
    },
    "docs/keras_layers.md": {
        "size=256": "size=32",
        "HIDDEN_SIZE, MAX_STEPS = 32, 6": "HIDDEN_SIZE, MAX_STEPS = 16, 2",
        "epochs=2": "epochs=1, verbose=0",
    },
    "docs/own_data.md": {
        '_transformer_quick")': '_transformer_quick", "hidden_size=16,filter_size=16")',
        "epochs=5": "epochs=1, verbose=0",
        "epochs=40": "epochs=1, verbose=0",
    },
    "docs/quickstart.md": {
        "max_length=11,batch_size=512": "max_length=11,batch_size=64,learning_rate_warmup_steps=1",
        "train_steps=800": "train_steps=2",
        "steps_per_epoch=800": "steps_per_epoch=2, verbose=0",
    },
}
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def _read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def _blocks(page, language):
    return [match[3] for match in FENCE.finditer(_read(page)) if match[2] == language]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_known_language(page):
    text = _read(page)
    assert {match[2] for match in FENCE.finditer(text)} <= set(LANGUAGES)
    rest = FENCE.sub("", text)
    assert "```" not in rest, "a block must be closed"
    assert not re.search(r"\n\n {4}", rest), "an indented block says no language"
    for block in _blocks(page, "json"):
        json.loads(block)


@pytest.mark.parametrize("page", [page for page in PAGES if _blocks(page, "source")])
def test_excerpts_exist(page, monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "scripts", "site"))
    excerpts = importlib.import_module("excerpts")
    filled = excerpts.fill(_read(page))
    assert filled.count("```python title=") == len(_blocks(page, "source"))


# Tests of `python` blocks.


# Only the complete test suite runs the blocks of these pages. The other pages, such as the READMEs
# in `pretrained`, contain most examples of README.md and docs/index.md. For the parts of
# docs/depth.md, there are tests in tests/layers/depth and tests/models/segments_test.py.
_SLOW = (
    *("README.md", "docs/depth.md", "docs/how_it_works.md", "docs/index.md"),
    *("docs/keras_layers.md", "docs/on_device.md", "docs/own_data.md"),
    *("docs/quickstart.md", "docs/serving.md", "docs/visualize.md"),
    "pretrained/multi30k_ende_adaptive/README.md",
)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in _SLOW))
        for page in PAGES
        if _blocks(page, "python")
    ],
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """The test runs all blocks of a page one after the other, as a reader would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    _forget_registrations(monkeypatch)
    for size in ("train_size", "dev_size"):
        monkeypatch.setattr(algorithmic.AlgorithmicProblem, size, 1000)
    text, names = _read(page), {}
    prepare = globals().get(f"_prepare_{_identifier(page)}")
    if prepare:
        prepare(text, tmp_path)
    for long, short in SHORTER.get(page, {}).items():
        assert long in text, f"{page} does not say {long!r} any more"
        text = text.replace(long, short)
    for match in FENCE.finditer(text):
        if match[2] == "python":
            # With these empty lines, an error shows the line number in the page.
            lines = "\n" * text[: match.start(3)].count("\n")
            exec(compile(lines + match[3], page, "exec"), names)
    check = globals().get(f"_check_{_identifier(page)}")
    if check:
        check(names, tmp_path)


def _identifier(page):
    return re.sub(r"\W", "_", page.lower().removesuffix(".md"))


def _prepare_docs_own_data(text, folder):
    """Write a CSV file whose field has a comma, quotation marks, a tab and a line break."""
    row = '"A ""dull"", long film.\tI was\nasleep.",bad\n'
    (folder / "reviews.csv").write_text(f"text,label\n{row}", encoding="utf-8")


def _check_docs_own_data(names, folder):
    line = 'A "dull", long film. I was asleep.\tbad\n'
    assert (folder / "my_text" / "train.tsv").read_text(encoding="utf-8") == line
    lines = "".join(f"{i * i * 7919} ist\t{i * i * 7919} is\n" for i in range(900))
    (folder / "my_text" / "train.tsv").write_text(lines, encoding="utf-8")
    sizes = {}
    for name in ("text2text_tsv", "my_pairs"):
        problem = problems.get(name)
        problem.generate_data("data", "my_text", num_processes=1)
        sizes[name] = problem.feature_encoders("data")["inputs"].vocab_size
    assert sizes["text2text_tsv"] < 150 and sizes["my_pairs"] > 500
    assert names["classifier"].predict({"inputs": names["inputs"]}, verbose=0).shape == (512, 2)


def _prepare_docs_serving(text, folder):
    """Write an export of an untrained model, because the page loads an export."""
    from ut_keras import export

    path = "served/reverse/1790000000"  # ut-exporter chooses a path like this one
    problem = problems.get("algorithmic_reverse_decimal40")
    hp = hparams.get("adaptive_universal_transformer_tiny", "hidden_size=16,filter_size=16")
    model = models.get("universal_transformer", hp, problem, folder)
    encoders = problem.feature_encoders(folder)
    (folder / path).parent.mkdir(parents=True)
    export.export_saved_model(model, encoders, str(folder / path), beam_size=2, decode_length=2)


def _prepare_docs_on_device(text, folder):
    """Write exports of an untrained model with subwords, because the page reads exports."""
    from tests.inference import export_models
    from ut_keras import export
    from ut_keras.inference import feature_record

    encoders, specs = export_models.features("subwords")
    model = export_models.variant_model("transformer", specs)
    for name, write, file in (
        ("phone", export.export_litert, "model.tflite"),
        ("onnx", export.export_onnx, "model.onnx"),
    ):
        made = folder / name / "1790000000"  # ut-exporter chooses a path like this one
        made.mkdir(parents=True)
        feature_record.save(str(made), feature_record.FeatureRecord(specs, encoders))
        write(model, str(made / file), source_length=16, decode_length=2, min_length=4)


def _check_docs_on_device(names, folder):
    """Check that the page's code encodes and decodes any text like `SubwordTextEncoder`."""
    from tests.inference import export_models
    from tests.text import subword_text_encoder_test as golden

    page = names["words"]["inputs"]
    for vocabulary in golden.VOCABS:
        encoder = golden.load(vocabulary)
        encoder.store_to_file(str(folder / "vocabulary"))
        page = names["Subwords"](str(folder / "vocabulary"))
        for text in [*export_models.TEXTS, "two  spaces ", " a-b, c\n_\\u x;9 \u00bd\u2167 1"]:
            ids = encoder.encode(text)
            assert page.encode(text) == [*ids, 1]
            assert page.decode([*ids, 1, 5]) == encoder.decode(ids) == text
    assert len(names["translate"]("so cool")) > 3


def _check_docs_t2t_package(names, folder):
    """Check that the model's output for a text does not depend on the rest of the batch."""
    hp = hparams.get("transformer_tiny", "hidden_size=16,filter_size=16,num_heads=2")
    sizes = {"inputs": 12, "targets": 12}
    predict = predictor.Predictor(models.get("joined_transformer", hp, vocab_sizes=sizes))
    rows = [np.int32([2, 3, 4, 1]), np.int32([5, 1])]
    [alone] = predict(rows[1:], beam_size=2, decode_length=3)
    together = predict(rows, beam_size=2, decode_length=3)[1]
    np.testing.assert_allclose(together.scores, alone.scores, atol=1e-4)


def _forget_registrations(monkeypatch):
    """When the test ends, remove the names that the test has registered."""
    # Built-in parts register their names at the first import, and these names must remain. The
    # import must therefore happen now, not in the test.
    importlib.import_module("ut_keras.models.universal_transformer")
    modules = [vars(module) for module in list(sys.modules.values()) if module is not None]
    values = [value for module in modules for value in list(module.values())]
    tables = {id(value): value for value in values if isinstance(value, registry.Registry)}
    assert len(tables) > 2
    for table in tables.values():
        monkeypatch.setattr(table, "_entries", dict(table._entries))
    monkeypatch.setattr(saved, "_CLASSES", list(saved._CLASSES))  # of hyperparameters


def _check_readme(names, folder):
    assert (folder / "runs" / "model.keras").exists()
    _check_text_of_model(names)


def _check_text_of_model(names):
    """Check that the loaded model translates a text in the same way as the trained model."""
    written = names["run"].translate("3 1 4")
    problem = problems.get("algorithmic_reverse_decimal40_held_out")
    loaded = ut_keras.load("runs/model.keras", problem=problem, data_dir="runs/data")
    assert isinstance(written, str) and loaded.translate("3 1 4") == written


def _check_docs_how_it_works(names, folder):
    """Check that the rule of the page halts at the second step, where ACT halts at the first.

    A large bias of the gate lets both rules halt as early as possible.
    """
    ids = np.int32([[3, 4, 1], [5, 1, 0]])
    model = names["model"]
    act = names["models"].get(
        "universal_transformer",
        names["hparams"].get("adaptive_universal_transformer_tiny"),
        vocab_sizes={"inputs": 12, "targets": 12},
    )
    for each, steps in ((act, 1), (model, 2)):
        each({"inputs": ids, "targets": ids})
        biases = [v for v in each.trainable_variables if v.path.endswith("pondering/bias")]
        assert len(biases) == 2
        for bias in biases:
            bias.assign(np.full(bias.shape, 20.0))
        out = each.inspect({"inputs": ids, "targets": ids})
        for times in (out.encoder.ponder_times, out.decoder.ponder_times):
            np.testing.assert_array_equal(times, np.full([2, 3], steps))
    cached, whole = (model.generate({"inputs": ids}, cache=use) for use in (True, False))
    np.testing.assert_array_equal(cached.ids, whole.ids)


def _check_docs_quickstart(names, folder):
    assert (folder / "runs" / "model.keras").exists()
    _check_text_of_model(names)
    assert names["out"].encoder.ponder_times.shape == (1, 7)


# Tests of `sh` blocks.


def _setup():
    setup = configparser.ConfigParser()
    setup.read(os.path.join(ROOT, "setup.cfg"))
    return setup


def _scripts():
    """Return {name of an installed command: its module}."""
    lines = _setup()["options.entry_points"]["console_scripts"].strip().splitlines()
    pairs = (line.split("=") for line in lines)
    return {name.strip(): target.split(":")[0].strip() for name, target in pairs}


def _commands(page):
    """Yield the commands of a page, each as a list of words."""
    for block in _blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split, lexer.commenters = True, "#"
            words = []
            for word in [*lexer, ";"]:
                if set(word) <= set("|&;"):
                    if words:
                        yield words
                    words = []
                else:
                    words.append(word)


COMMANDS = [(page, words) for page in PAGES for words in _commands(page)]


@pytest.mark.parametrize("page, words", COMMANDS, ids=lambda part: str(part)[:60])
def test_commands_can_be_parsed(page, words, monkeypatch):
    while re.fullmatch(r"\w+=.*", words[0]):
        words = words[1:]
    program, *rest = words
    if program == "python" and rest[0].endswith(".py") and rest[0] != "trainer.py":
        source = _read(rest[0])
        if "FLAGS = (" in source:
            monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
            module = importlib.import_module(os.path.basename(rest[0]).removesuffix(".py"))
            command_line.parse(module.FLAGS, rest[1:], rest[0], "")
            return
        if "add_with_before(parser)" in source:  # this function adds --with_before
            source += _read("benchmarks/worker.py")
        assert all(f'"{flag}"' in source for flag in re.findall(r"--\w+", " ".join(rest)))
    elif program == "python" or program in _scripts():
        module = _scripts().get(program) or rest.pop(0).removesuffix(".py")
        _check_names(_parse(module, rest, monkeypatch))
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", _read("Makefile"), re.MULTILINE)
    else:
        assert program in OTHER_COMMANDS, f"{program} must be a command of ut_keras or be listed"
        extras = re.findall(r"\[(\w+)\]", " ".join(rest)) if program == "pip" else []
        assert set(extras) <= set(_setup()["options.extras_require"])


class _Parsed(BaseException):
    """An exception that ends a command after the command has parsed its flags."""


def _parse(module, argv, monkeypatch):
    """Return the flags that a command parses, as an `argparse.Namespace`."""
    parse = command_line.parse

    def read_and_stop(*arguments):
        raise _Parsed(parse(*arguments[:4]))  # this omits the flags of a user's package

    monkeypatch.setattr(command_line, "parse", read_and_stop)
    with pytest.raises(_Parsed) as parsed:
        code = importlib.import_module(module).main(argv)
        pytest.fail(f"rejected with exit code {code}")
    return parsed.value.args[0]


def _check_names(args):
    """Check that the problems, model and hparams set exist, and that overrides can be parsed."""
    for name in filter(None, (getattr(args, "problem", None) or "").split(",")):
        problems.get(name)
    if getattr(args, "model", None):
        models.check_name(args.model)
    if getattr(args, "hparams_set", None):
        hparams.get(args.hparams_set, args.hparams).check_supported()
    decode_hparams.parse(getattr(args, "decode_hparams", ""), decode_hparams.DECODER)


# Flags whose value is a file or folder that the reader has or that a command creates.
_PATHS = ("data_dir", "output_dir", "tmp_dir", "export_dir", "t2t_usr_dir", "decode_from_file")
_PATHS = (*_PATHS, "decode_to_file", "translation", "reference")


def _paths_of_reader(page):
    """Yield the files and folders that a page uses, such as "runs" for --data_dir=runs/data."""
    words = [word for command in _commands(page) for word in command]
    words += re.findall(r"--\w+=[\w./]+", "".join(_blocks(page, "text")) + _read(page))
    for name, value in (word[2:].split("=", 1) for word in words if re.match(r"--\w+=", word)):
        if name in _PATHS:
            yield value.rstrip("/.").split("/")[0]
    for block in _blocks(page, "sh"):
        yield from re.findall(r" > (\S+)", block)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_files_of_reader_are_ignored_by_git(page):
    """The file .gitignore lists the files that a reader of the page creates in a clone.

    Therefore, git and `make lint` ignore these files.
    """
    with open(os.path.join(ROOT, ".gitignore"), encoding="utf-8") as file:
        ignored = {line.strip().strip("/") for line in file}
    found = set(_paths_of_reader(page))
    assert "runs" in found and found <= ignored


def test_pages_contain_commands():
    programs = [words[0] for _, words in COMMANDS]
    assert programs.count("python") >= 5
    assert sum(program.startswith("ut-") for program in programs) >= 5


@pytest.mark.parametrize("page", [page for page in PAGES if _blocks(page, "sh")])
def test_shell_blocks_are_valid(page):
    script = "\n".join(_blocks(page, "sh"))
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_wrong_commands_are_found(monkeypatch):
    with pytest.raises(pytest.fail.Exception):
        _parse("trainer", ["--no_such_flag=1"], monkeypatch)


def test_problem_of_the_readme_works(tmp_path, monkeypatch, capsys):
    """ut-datagen loads the package of the README with --t2t_usr_dir and generates its data."""
    (tmp_path / "mine").mkdir()
    blocks = _blocks("README.md", "python")
    [block] = [block for block in blocks if "@problem.register" in block]
    (tmp_path / "mine" / "__init__.py").write_text(block)
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text("One\nTwo\n" * 20)
    monkeypatch.chdir(tmp_path)
    _forget_registrations(monkeypatch)
    argv = ["--t2t_usr_dir=mine", "--problem=my_problem", "--data_dir=data", "--tmp_dir=."]
    datagen = importlib.import_module(_scripts()["ut-datagen"])
    assert datagen.main([*argv, "--num_concurrent_processes=1"]) == 0
    assert (tmp_path / "data" / "my_problem-dev-00000-of-00001").exists()
