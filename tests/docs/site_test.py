"""The site contains every page and every public module.

`make docs` checks the other properties of the site.
"""

import glob
import importlib
import os
import re
import sys

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


@pytest.fixture(scope="module")
def site():
    """Yield {name: module} for the modules in scripts/site."""
    folder = os.path.join(ROOT, "scripts", "site")
    sys.path.insert(0, folder)
    try:
        names = ("api_pages", "excerpts", "pages")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def pages(site):
    return site["pages"].pages()


def test_picture_of_depth_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "scripts"))
    depth_curves = importlib.import_module("depth_curves")
    with open(depth_curves.PICTURE, encoding="utf-8") as file:
        assert file.read() == depth_curves.draw(), "run: python scripts/depth_curves.py"


def test_navigation_has_every_page_once(pages):
    with open(os.path.join(ROOT, "mkdocs.yml"), encoding="utf-8") as file:
        nav = file.read().partition("\nnav:")[2]
    listed = re.findall(r"[\w/]+\.md", nav)
    assert sorted(listed) == sorted(path for path in pages if path.endswith(".md"))


def test_links_lead_somewhere(pages):
    for path, content in pages.items():
        if not path.endswith(".md"):
            continue
        without_code = re.sub(r"```.*?```|`[^`\n]*`", "", content, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", without_code):
            if not re.match(r"https?:", target):
                full = os.path.normpath(os.path.join(os.path.dirname(path), target))
                assert full in pages, f"{path} links to {target}"


def test_pages_contain_every_module(site, pages):
    shown = {
        name
        for path, content in pages.items()
        if path.startswith("api/")
        for name in re.findall(r"^## (\S+)$", content, re.MULTILINE)
    }
    for path in glob.glob("ut_keras/**/*.py", root_dir=ROOT, recursive=True):
        if path.startswith(site["api_pages"].LEFT_OUT):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            public = re.search(r'^(def|class) [a-z_A-Z]*\w+.*:\n    """', file.read(), re.M)
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if public and not re.match(r"(def|class) _", public[0]):
            assert name in shown, f"{path} is on none of scripts/site/api_pages.py's pages"


def test_api_shows_fields_signatures_and_methods(pages):
    page = pages["api/layers.md"]
    assert "    remainders: tf.Tensor  # U float32: the remainder R" in page
    assert "\ndef __init__(\n    self,\n    block: " in page
    assert "#### ACTHalting.halt\n" in page
    assert "def _record_step" not in page and "def get_config" not in page


def test_excerpt_omits_docstrings(site):
    text = site["excerpts"].excerpt("ut_keras/layers/attention/cache.py", "CacheSize")
    assert text.startswith("class CacheSize(NamedTuple):\n    batch: tf.Tensor")
    assert '"""' not in text and "return self.beams * self.length" in text


@pytest.mark.parametrize(
    "block", ["ut_keras/layers/depth/act.py: NoSuchName", "ut_keras/layers/depth/act.py", "nothing"]
)
def test_excerpt_rejects_unknown_names(site, block):
    with pytest.raises(ValueError):
        site["excerpts"].fill(f"```source\n{block}\n```")
