"""The texts of the project use the terms of `glossary.py`."""

import ast
import io
import itertools
import json
import pathlib
import re
import tokenize

import pytest

from tests.docs import glossary

ROOT = pathlib.Path(__file__).parents[2]
_PATTERNS = {
    re.compile(pattern, re.IGNORECASE | re.MULTILINE): instead
    for pattern, instead in glossary.REPLACEMENTS.items()
}


def _files(name):
    path = ROOT / name
    assert path.exists(), f"glossary.CHECKED must name files that exist. Received: {name}."
    found = path.rglob("*") if path.is_dir() else [path]
    return [file for file in found if file.suffix in (".md", ".py", ".ipynb", ".sh")]


def _texts(path):
    """Yield all texts of a file that people read, each as one line."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _markdown(source)
    elif path.suffix == ".ipynb":
        for cell in json.loads(source)["cells"]:
            if cell["cell_type"] == "markdown":
                yield from _markdown("".join(cell["source"]))
    elif path.suffix == ".sh":
        yield _shell(source)
    else:
        yield from _python(source)


def _shell(source):
    """Return the comment at the beginning of a script."""
    head = itertools.takewhile(lambda line: line.startswith("#"), source.splitlines())
    return " ".join(" ".join(line[1:].split()) for line in head if not line.startswith("#!"))


def _markdown(source):
    prose = re.sub(r"^```.*?^```", "", source, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "`…`", prose)
    yield from (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", prose))


def _python(source):
    """Yield all strings with a space, such as docstrings and messages, and comment blocks."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from _markdown(node.value)
    comments, last = [], None
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if last is not None and token.start[0] != last + 1:
                yield " ".join(comments)
                comments = []
            comments.append(token.string.lstrip("# "))
            last = token.start[0]
    yield " ".join(comments)


def _faults(name):
    for path in _files(name):
        relative = path.relative_to(ROOT).as_posix()
        for text in _texts(path):
            for pattern, instead in _PATTERNS.items():
                for match in pattern.finditer(text):
                    allowed = any(
                        relative.startswith(prefix) and words in text
                        for prefix, words in glossary.ALLOWED
                    )
                    if not allowed:
                        start = max(match.start() - 40, 0)
                        excerpt = text[start : match.end() + 40]
                        yield f"{relative}: …{excerpt}… ({match[0]!r}: {instead})"


@pytest.mark.parametrize("name", glossary.CHECKED or ["tests/docs/glossary.py"])
def test_text_uses_the_glossary(name):
    faults = list(_faults(name))
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "text, is_fault",
    [
        ("Training resumes from the newest checkpoint.", False),
        ("It goes on where an earlier run stopped.", True),
        ("An unsupported flag is refused.", True),
        ("Of a decoder, it is meant.", True),
        ("The output of a decoder is its state.", False),
        ("A file that is somebody's is left as it is.", True),
    ],
)
def test_patterns_find_what_they_name(text, is_fault):
    assert any(pattern.search(text) for pattern in _PATTERNS) == is_fault


def test_python_texts_are_docstrings_messages_and_comments():
    source = '"""A docstring."""\nx = "a message"  # a comment\n# of two lines\ny = "word"\n'
    assert list(_python(source)) == ["A docstring.", "a message", "a comment of two lines"]


def test_text_of_a_script_is_its_first_comment():
    script = "#!/bin/bash\n# A comment\n#   of two lines.\nset -e\n# Another comment.\n"
    assert _shell(script) == "A comment of two lines."
