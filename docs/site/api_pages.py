"""Writes the API's pages from docstrings and signatures; imports nothing of what it describes.

Our docstrings have sections of their own ("Call arguments", "References"), and the fields of a
NamedTuple say their shapes in comments: both are shown as they stand.
"""

import ast
import glob
import os
import re

from excerpts import ROOT, excerpt

# What is on each page: patterns of paths; a module is on the first page that has it.
PAGES = {
    "library": (
        "The library",
        "What notebooks and scripts use.",
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
        "What each field does, and which of T2T's there are: [the table](../t2t_hparams.md).",
        ("ut_keras/hparam/__init__.py", "ut_keras/hparam/*.py", "hparams/*.py"),
    ),
    "layers": (
        "Layers",
        "Keras layers with explicit arguments. [How it works](../how_it_works.md) comes first.",
        (
            "ut_keras/layers/depth/act.py",
            "ut_keras/layers/depth/recurrence.py",
            "ut_keras/layers/*.py",
            "ut_keras/layers/*/*.py",
        ),
    ),
    "decoding": (
        "Decoding",
        "Search, over any next-symbol function. For use: [Decoding](../decoding.md).",
        ("ut_keras/decoding/*.py",),
    ),
    "inference": (
        "Inference",
        "From the folder of a run to answers. For use: [Decoding](../decoding.md).",
        (
            "ut_keras/inference/run.py",
            "ut_keras/inference/predictor.py",
            "ut_keras/inference/padding.py",
            "ut_keras/inference/*.py",
        ),
    ),
    "training": (
        "Training and metrics",
        "What the trainer is made of.",
        (
            "ut_keras/training/*.py",
            "ut_keras/checkpoints/*.py",
            "ut_keras/losses.py",
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
        "What a dataset is. Which there are: [the table](../problems.md).",
        ("problems/problem.py", "problems/text_problems.py", "problems/*.py"),
    ),
    "rest": (
        "The rest",
        "What the library is made of, besides.",
        (
            "ut_keras/*.py",
            *(f"ut_keras/{room}/*.py" for room in ("models", "files", "ops", "process")),
        ),
    ),
}
# What is on no page: commands, which `--help` explains.
LEFT_OUT = ("ut_keras/bin", "ut_keras/t2t")
_SECTION = re.compile(
    r"^(Args|Call arguments|Attributes|Fields|Returns|Yields|Raises|References):(.*)$"
)
_LISTS = ("Args", "Call arguments", "Attributes", "Fields", "Raises")
_ENTRY = re.compile(r"^([\w*][\w*, .]*): (.*)$", re.DOTALL)
_OF_KERAS = ("build", "call", "get_config", "from_config", "compute_output_shape")


def pages():
    """{path of the page in the site: its Markdown}."""
    written, shown = {}, set()
    for name, (title, lead, patterns) in PAGES.items():
        modules = [path for path in _modules(patterns) if path not in shown]
        shown.update(modules)
        sections = filter(None, map(_module, modules))
        written[f"api/{name}.md"] = "\n\n".join([f"# {title}", lead, *sections]) + "\n"
    return written


def _modules(patterns):
    """Paths of the modules, each once."""
    found = {}
    for pattern in patterns:
        found.update(dict.fromkeys(sorted(glob.glob(pattern, root_dir=ROOT))))
    return list(found)


def _module(path):
    """The section of a module; None where nothing in it is public."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    members = [text for node in tree.body if (text := _member(path, node))] + _sets(path, tree)
    docstring = ast.get_docstring(tree)
    if not docstring or not (members or path.endswith("__init__.py")):
        return None
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    name = name if name.startswith("ut_keras") else f"ut_keras.{name}"
    return "\n\n".join([f"## {name}", _docstring(docstring), *members])


def _sets(path, tree):
    """Named sets, `NAME = derived(parent, …)`, as they stand; [] without any."""
    made = [node for node in tree.body if isinstance(node, ast.Assign)]
    made = [node for node in made if ast.unparse(node.value).startswith("derived(")]
    if not made:
        return []
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().splitlines()[: made[-1].end_lineno]
    first = made[0].lineno - 1
    while lines[first - 1].startswith("#"):
        first -= 1
    text = "\n".join(lines[first:])
    return [f"```python\n{text}\n```"]


def _member(path, node):
    """A class or function; None for what is not public or says nothing."""
    documented = isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    if not documented or node.name.startswith("_"):
        return None
    parts = [f"### {_escape(node.name)}", _docstring(documented)]
    if isinstance(node, ast.FunctionDef):
        parts.insert(1, _signature(node))
        return "\n\n".join(parts)
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef)]
    made_by = next((child for child in methods if child.name == "__init__"), None)
    if made_by:
        parts.insert(1, _signature(made_by, node.name))
    elif _is_record(node):
        parts.append(f"```python\n{_fields(path, node)}\n```")
    for method in methods:
        text = ast.get_docstring(method)
        if text and not method.name.startswith("_") and method.name not in _OF_KERAS:
            called = f"{node.name}.{method.name}"
            heading = f"#### {_escape(called)}"
            parts += [heading, _signature(method, called), _docstring(text)]
    return "\n\n".join(parts)


def _is_record(node):
    """Whether a class is a NamedTuple or a dataclass: its fields say what it is."""
    words = " ".join(map(ast.unparse, [*node.bases, *node.decorator_list]))
    return "NamedTuple" in words or "dataclass" in words


def _fields(path, node):
    """The fields, with their comments."""
    lines = excerpt(path, node.name).splitlines()
    ends = [n for n, line in enumerate(lines) if re.match(r"    (@|def )", line)]
    return "\n".join(lines[: ends[0] if ends else None]).rstrip()


def _signature(function, name=None):
    """A fenced signature, without self; properties have none to show."""
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    name = name or function.name
    if any("property" in decorator for decorator in decorators):
        return f"```python\n{name}  # a property\n```"
    arguments = [part for part in _arguments(function.args) if part not in ("self", "cls")]
    one_line = f"{name}({', '.join(arguments)})"
    if len(one_line) > 88:
        one_line = "\n".join([f"{name}(", *(f"    {part}," for part in arguments), ")"])
    return f"```python\n{one_line}\n```"


def _arguments(args):
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + args.defaults
    parts = [_argument(arg, default) for arg, default in zip(plain, defaults, strict=True)]
    if args.vararg:
        parts.append(f"*{args.vararg.arg}")
    elif args.kwonlyargs:
        parts.append("*")
    parts += map(_argument, args.kwonlyargs, args.kw_defaults)
    return parts + ([f"**{args.kwarg.arg}"] if args.kwarg else [])


def _argument(arg, default):
    return arg.arg if default is None else f"{arg.arg}={ast.unparse(default)}"


def _docstring(text):
    """Markdown of a docstring: text, indented pieces as code, sections as lists."""
    lines, parts, plain = text.splitlines(), [], []
    while lines:
        section = _SECTION.match(lines[0])
        if not section:
            plain.append(lines.pop(0))
            continue
        parts.append(_text(plain))
        plain = []
        title, rest = section.groups()
        body = [rest.strip()] if rest.strip() else []
        lines.pop(0)
        while lines and (not lines[0].strip() or lines[0].startswith(" ") or (rest and body)):
            if rest and not lines[0].strip():
                break
            if rest and _SECTION.match(lines[0]):
                break
            body.append(lines.pop(0))
        parts.append(_section(title, body))
    parts.append(_text(plain))
    return "\n\n".join(filter(None, parts))


def _section(title, body):
    entries = [" ".join(entry) for entry in _entries(body)]
    if title in _LISTS:
        found = [(_ENTRY.match(entry), entry) for entry in entries]
        items = [
            f"- `{match[1]}`: {_escape(match[2])}" if match else f"- {_escape(entry)}"
            for match, entry in found
        ]
        return f"**{title}**\n\n" + "\n".join(items)
    return f"**{title}:** " + _escape(" ".join(entries))


def _entries(body):
    """Lines of a section, those that are indented deeper joined to the one before."""
    entries = []
    lines = [line for line in body if line.strip()]
    least = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    for line in lines:
        if entries and len(line) - len(line.lstrip()) > least:
            entries[-1].append(line.strip())
        else:
            entries.append([line.strip()])
    return entries


def _text(lines):
    """Paragraphs; what is indented becomes a fenced block."""
    out, code = [], []
    for line in [*lines, "end"]:
        if line.startswith("    ") or (code and not line.strip()):
            code.append(line[4:])
            continue
        if code:
            out += ["", "```text", "\n".join(code).rstrip(), "```", ""]
            code = []
        out.append(_escape(line))
    return "\n".join(out[:-1]).strip()


def _escape(text):
    """Text in which Markdown sees nothing but `code`."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([\\*_<\[\]])", r"\\\1", piece)
        for piece in pieces
    )
