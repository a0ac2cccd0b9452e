"""Tests of the imports between modules, the sizes and names of files, and the docstrings."""

import ast
import os
import subprocess
import sys
import tokenize

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UT_KERAS = ("ut_keras",)

# Every part may import these modules. They import nothing from ut_keras except each other.
LEAVES = (
    "ut_keras.errors",
    "ut_keras.files",
    "ut_keras.hparam_schema.limits",
    "ut_keras.ops",
    "ut_keras.process",
)
# This table maps each part to the other modules that the part may import. For a module, the test
# uses the key that is the longest prefix of its name. The loss, the optimizer and the search are
# functions of tensors, not of models. Therefore, a model may use them for `compile` and `generate`.
ALLOWED = {
    "ut_keras": (
        # The function `load` imports these modules.
        "ut_keras.pretrained",
        "ut_keras.keras_file",
        "ut_keras.inference.saved_run",
        "ut_keras.inference.run_directory",
        "ut_keras.inference.hub",
    ),
    **dict.fromkeys((*LEAVES, "ut_keras.registry"), ()),
    "ut_keras.parts": ("ut_keras.registry",),
    "ut_keras.hparam": ("ut_keras.hparam_schema",),
    "ut_keras.hparam_schema": ("ut_keras.registry", "ut_keras.parts", "ut_keras.hparam_schema"),
    "ut_keras.text": ("ut_keras.text",),
    "ut_keras.data": ("ut_keras.registry", "ut_keras.text", "ut_keras.data"),
    "ut_keras.data.reading": (
        "ut_keras.registry",
        "ut_keras.text",
        "ut_keras.data.reading",
        *(f"ut_keras.data.{name}" for name in ("features", "tfrecords")),
    ),
    "ut_keras.layers": ("ut_keras.layers", "ut_keras.parts", "ut_keras.hparam_schema"),
    "ut_keras.metrics": ("ut_keras.registry", "ut_keras.metrics"),
    "ut_keras.optimizers": (
        "ut_keras.registry",
        "ut_keras.hparam_schema",
        "ut_keras.metrics.losses",
        "ut_keras.optimizers",
    ),
    "ut_keras.decoding": ("ut_keras.decoding", "ut_keras.layers"),
    "ut_keras.models": (
        "ut_keras.registry",
        "ut_keras.parts",
        "ut_keras.hparam_schema",
        "ut_keras.data.features",
        "ut_keras.layers",
        "ut_keras.decoding",
        "ut_keras.models",
        "ut_keras.optimizers",
        "ut_keras.metrics",
    ),
    "ut_keras.training": (
        "ut_keras.registry",
        "ut_keras.hparam_schema",
        "ut_keras.text",
        "ut_keras.data",
        "ut_keras.metrics",
        "ut_keras.optimizers",
        "ut_keras.checkpoints",
        "ut_keras.inference",
        "ut_keras.training",
    ),
    "ut_keras.t2t_import": ("ut_keras.hparam_schema", "ut_keras.data.features", "ut_keras.models"),
    "ut_keras.checkpoints": ("ut_keras.checkpoints",),
    # This part makes predictions from the folder of a run. It never trains a model.
    "ut_keras.inference": (
        "ut_keras.registry",
        "ut_keras.hparam_schema",
        "ut_keras.text",
        "ut_keras.data",
        "ut_keras.decoding",
        "ut_keras.models",
        "ut_keras.checkpoints",
        "ut_keras.visualize",
        "ut_keras.inference",
        # The LiteRT export needs this module, because an exported decoder uses a cache.
        "ut_keras.layers.attention.cache",
    ),
    "ut_keras.export": tuple(
        f"ut_keras.inference.{n}"
        for n in ("ctranslate2_export", "export", "litert_export", "onnx_export")
    ),
    "ut_keras.keras_file": (
        "ut_keras.text",
        "ut_keras.data",
        "ut_keras.metrics",
        "ut_keras.models",
        "ut_keras.optimizers",
    ),
    "ut_keras.visualize": (
        "ut_keras.text",
        "ut_keras.data",
        "ut_keras.layers",
        "ut_keras.visualize",
    ),
    "ut_keras.bin": UT_KERAS,
    # These modules replace T2T's modules for a user's package. Only the commands import them.
    "ut_keras.t2t": UT_KERAS,
    "ut_keras.problems": (
        "ut_keras.problems",
        "ut_keras.registry",
        "ut_keras.text",
        "ut_keras.data",
    ),
    "ut_keras.hparams": ("ut_keras.hparams", "ut_keras.registry", "ut_keras.hparam_schema"),
    "ut_keras.pretrained": (),
}


def _modules():
    """Return {module name: path} of all source files."""
    found = {}
    for folder, _, files in os.walk(os.path.join(ROOT, "ut_keras"), followlinks=True):
        for file in files:
            if file.endswith(".py"):
                path = os.path.join(folder, file)
                name = os.path.relpath(path, ROOT)[: -len(".py")].replace(os.sep, ".")
                found[name.removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def _imports(path, for_types=True):
    """Yield the names of the ut_keras modules that a file imports.

    With `for_types=False`, imports in an `if TYPE_CHECKING:` block are skipped.
    """
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    nodes = list(ast.walk(tree))
    if not for_types:
        blocks = [node for node in nodes if isinstance(node, ast.If)]
        blocks = [node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING"]
        nodes = [n for n in nodes if not any(n in ast.walk(block) for block in blocks)]
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in MODULES else node.module for name in full]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] in UT_KERAS)


def _fits(name, prefix):
    """Return whether a module is `prefix` or inside the package `prefix`."""
    return name == prefix or name.startswith(prefix + ".")


def _allowed(module):
    prefix = max((key for key in ALLOWED if _fits(module, key)), key=len)
    return LEAVES + ALLOWED[prefix]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_module_imports_only_allowed_parts(module):
    wrong = [
        name
        for name in _imports(MODULES[module])
        if not any(_fits(name, prefix) for prefix in _allowed(module))
    ]
    assert not wrong, f"{module} may not import {wrong}"


def test_only_commands_import_t2t_stand_ins():
    """Only `ut_keras.t2t` and the commands may import a stand-in for a module of T2T.

    The code that loads a user's package imports the stand-ins by name at run time.
    """
    outside = [name for name in MODULES if not name.startswith(("ut_keras.t2t.", "ut_keras.bin"))]
    for module in outside:
        wrong = [name for name in _imports(MODULES[module]) if name.startswith("ut_keras.t2t.")]
        assert not wrong, f"{module} may not import {wrong}"


def test_modules_have_no_import_cycles():
    """No module imports itself, directly or through other modules."""
    graph = {module: set(_imports(path, for_types=False)) for module, path in MODULES.items()}
    reached = {}

    def reach(module):
        if module not in reached:
            reached[module] = set()
            for name in graph.get(module, ()):
                reached[module] |= {name} | reach(name)
        return reached[module]

    circles = [module for module in graph if module in reach(module)]
    assert not circles


@pytest.mark.parametrize(
    "statement",
    [
        "import ut_keras, ut_keras.registry, ut_keras.hparam_schema, ut_keras.models",
        "from ut_keras import problems; problems.names()",
        "from ut_keras import hparams; hparams.names()",
        "import trainer",
        "import ut_keras.t2t.registry, ut_keras.t2t.translate",
    ],
)
def test_imports_without_tensorflow(statement):
    """Commands that list or check names must not wait for the import of TensorFlow."""
    heavy = "[name for name in ('tensorflow', 'keras') if name in sys.modules]"
    program = f"import sys; {statement}; print({heavy})"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def _lines_of_code(path):
    """Return the number of lines of code. Comments and multi-line strings do not count."""
    no_code = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = set()
    with open(path, "rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in no_code and token.start[0] == token.end[0]:
                lines.add(token.start[0])
    return len(lines)


def test_files_are_short():
    """No file has more than 400 lines of code. A longer file may contain two concepts."""
    lengths = {module: _lines_of_code(path) for module, path in MODULES.items()}
    assert {module: length for module, length in lengths.items() if length > 400} == {}


def _docstrings(path):
    """Yield (name, docstring) for a module and for all its classes and functions."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", "module"), ast.get_docstring(node) or ""


def test_docstrings_begin_with_a_short_line():
    """The first line has at most 80 characters. Quotes and indentation do not count.

    Ruff's rule D205 requires an empty line after the first line, so the first line is complete.
    """
    paths = [*MODULES.values(), os.path.join(ROOT, "trainer.py")]
    long_lines = {
        f"{os.path.relpath(path, ROOT)}, {name}": line
        for path in paths
        for name, docstring in _docstrings(path)
        if len(line := docstring.partition("\n")[0]) > 80
    }
    assert not long_lines


# Several modules may share a file name. This table maps each shared name to its folders.
SAME_NAMES = {
    # One file is the command. The other file is the library code that the command runs.
    "bleu": ("bin", "metrics"),
    "trainer": ("bin", "training"),
    # One file has the names of the public functions. The other file implements them.
    "export": ("", "inference"),
    # The files are the public module, the stand-in for the T2T module, and the implementation.
    "text_encoder": ("data", "t2t", "text"),
    # One file keeps an old public name. The other file is the stand-in for the T2T module.
    "hparam": ("", "t2t"),
    # One file has losses of tensors. The other file has the loss of a model.
    "losses": ("metrics", "models"),
    # One file has sets of hyperparameters. The other file has the model or the layer.
    "lstm": ("hparams", "layers.lstm"),
    "neural_gpu": ("hparams", "models"),
    "transformer": ("hparams", "models"),
    "universal_transformer": ("hparams", "models"),
    # One file stands in for the T2T module of this name. The other files do not.
    "problem": ("problems", "t2t"),
    "text_problems": ("problems", "t2t"),
    "translate": ("problems", "t2t"),
    "registry": ("", "hparams", "t2t"),
}


def test_file_names_are_unique():
    folders = {}
    for module, path in MODULES.items():
        if os.path.basename(path) != "__init__.py":
            folder, _, name = module.removeprefix("ut_keras.").rpartition(".")
            folders.setdefault(name, []).append(folder)
    same = {name: tuple(sorted(some)) for name, some in folders.items() if len(some) > 1}
    assert same == SAME_NAMES
