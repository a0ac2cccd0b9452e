"""Writes the pages of the API from the source code, without importing it.

The pages contain the signatures and docstrings as they are in the source code. Other generators are
not used for two reasons. They do not know some sections of the docstrings ("Call arguments",
"References"). They also drop comments, which describe the shapes of the fields of a NamedTuple.
"""

import ast
import glob
import os
import textwrap

from excerpts import ROOT

# The pages and the patterns of the paths of their modules. A module is on the first page that has a
# matching pattern.
PAGES = {
    "library": (
        "The library",
        "The API for notebooks and scripts.",
        (
            "problems/__init__.py",
            "hparams/__init__.py",
            "pretrained/__init__.py",
            "ut_keras/__init__.py",
            "ut_keras/inference/saved_run.py",
            "ut_keras/models/__init__.py",
            "ut_keras/models/seq2seq.py",
            "ut_keras/models/keras_model.py",
            "ut_keras/models/transformer.py",
            "ut_keras/models/universal_transformer.py",
            "ut_keras/models/lstm_seq2seq.py",
            "ut_keras/text/text_encoder.py",
            "ut_keras/text/text_encoder_base.py",
            "ut_keras/text/subword_text_encoder.py",
            "ut_keras/inference/export.py",
            "ut_keras/visualize/*.py",
            "ut_keras/t2t_import.py",
            "ut_keras/registry.py",
        ),
    ),
    "hparams": (
        "Hyperparameters",
        "The hparams and their values. [A table](../t2t_hparams.md) lists which of T2T's work.",
        ("ut_keras/hparam_schema/__init__.py", "ut_keras/hparam_schema/*.py", "hparams/*.py"),
    ),
    "layers": (
        "Layers",
        "Keras layers with explicit arguments. Read [How it works](../how_it_works.md) first.",
        (
            "ut_keras/layers/depth/act.py",
            "ut_keras/layers/depth/recurrence.py",
            "ut_keras/layers/*.py",
            "ut_keras/layers/*/*.py",
        ),
    ),
    "decoding": (
        "Decoding",
        "Search over any function that scores the next token. See also [Decoding](../decoding.md).",
        ("ut_keras/decoding/*.py",),
    ),
    "inference": (
        "Inference",
        "From the folder of a run to its outputs. See also [Decoding](../decoding.md).",
        (
            "ut_keras/inference/run_directory.py",
            "ut_keras/inference/predictor.py",
            "ut_keras/inference/*.py",
        ),
    ),
    "training": (
        "Training and metrics",
        "The parts of the trainer.",
        (
            "ut_keras/training/*.py",
            "ut_keras/checkpoints/*.py",
            "ut_keras/metrics/losses.py",
            "ut_keras/optimizers/*.py",
            "ut_keras/metrics/*.py",
        ),
    ),
    "data": (
        "Data",
        "From raw text to batches.",
        ("ut_keras/text/*.py", "ut_keras/data/*.py", "ut_keras/data/*/*.py"),
    ),
    "problems": (
        "Problems",
        "The base classes and the datasets. [A table](../problems.md) lists all problems.",
        (
            "problems/problem.py",
            "problems/registration.py",
            "problems/text_problems.py",
            "problems/*.py",
        ),
    ),
    "rest": (
        "Other modules",
        "The modules that are on no other page.",
        (
            "ut_keras/*.py",
            *(f"ut_keras/{room}/*.py" for room in ("models", "files", "ops", "process")),
        ),
    ),
}
# Modules without a page. `--help` describes the commands.
LEFT_OUT = ("ut_keras/bin", "ut_keras/t2t")
_OF_KERAS = ("build", "call", "get_config", "from_config", "compute_output_shape")


def pages():
    """Return a dict from the path of a page in the site to its Markdown."""
    written, shown = {}, set()
    for name, (title, lead, patterns) in PAGES.items():
        modules = [path for path in _modules(patterns) if path not in shown]
        shown.update(modules)
        sections = filter(None, map(_module, modules))
        written[f"api/{name}.md"] = "\n\n".join([f"# {title}", lead, *sections]) + "\n"
    return written


def _modules(patterns):
    """Return the paths of the modules that match the patterns, without duplicates."""
    found = {}
    for pattern in patterns:
        found.update(dict.fromkeys(sorted(glob.glob(pattern, root_dir=ROOT))))
    return list(found)


def _module(path):
    """Return the section of a module, or None if the module has no public member."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        text = file.read()
    tree, lines = ast.parse(text), text.splitlines()
    members = [part for node in tree.body for part in _member(lines, node)] + _sets(lines, tree)
    docstring = ast.get_docstring(tree)
    if not docstring or not (members or path.endswith("__init__.py")):
        return None
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    name = name if name.startswith("ut_keras") else f"ut_keras.{name}"
    return "\n\n".join([f"## {name}", f"```text\n{docstring}\n```", *members])


def _sets(lines, tree):
    """Return a list with the definitions of named sets, `NAME = derived(parent, …)`."""
    made = [node for node in tree.body if isinstance(node, ast.Assign)]
    made = [node for node in made if ast.unparse(node.value).startswith("derived(")]
    if not made:
        return []
    first = made[0].lineno - 1
    while lines[first - 1].startswith("#"):
        first -= 1
    return [_code(lines[first : made[-1].end_lineno])]


def _member(lines, node):
    """Return a list with a class and its methods, or with a function.

    The list is empty if there is nothing to show.
    """
    if not _is_public(node):
        return []
    if isinstance(node, ast.FunctionDef):
        return [_heading(3, node.name), _head(lines, node)]
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
    parts = [_heading(3, node.name), _head(lines, node, with_fields=_is_record(node))]
    for method in methods:
        if method.name == "__init__":
            parts.append(_code(lines[method.lineno - 1 : method.body[0].lineno - 1]))
        elif _is_public(method) and method.name not in _OF_KERAS:
            parts += [_heading(4, f"{node.name}.{method.name}"), _head(lines, method)]
    return parts


def _is_public(node):
    is_either = isinstance(node, (ast.ClassDef, ast.FunctionDef))
    return is_either and not node.name.startswith("_") and bool(ast.get_docstring(node))


def _is_record(node):
    """Return whether a class is a NamedTuple or a dataclass, so that the page shows its fields."""
    words = " ".join(map(ast.unparse, [*node.bases, *node.decorator_list]))
    return "NamedTuple" in words or "dataclass" in words


def _head(lines, node, with_fields=False):
    """Return the source of a class or function up to the end of its docstring or fields."""
    first = min(part.lineno for part in (node, *node.decorator_list))
    fields = [part for part in node.body if with_fields and isinstance(part, ast.AnnAssign)]
    return _code(lines[first - 1 : (fields or node.body)[-1 if fields else 0].end_lineno])


def _heading(level, name):
    return f"{'#' * level} {name}".replace("_", "\\_")


def _code(lines):
    text = textwrap.dedent("\n".join(lines))
    return f"```python\n{text}\n```"
