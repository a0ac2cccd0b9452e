"""Writes the pages of the site to build/docs: the pages in docs/, and pages made from code.

python scripts/site/pages.py && mkdocs build       the site, in build/site

The pages are plain Markdown. For another site generator, only mkdocs.yml must be replaced.
"""

import glob
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import api_pages
import excerpts
import notebook_pages

SOURCE = os.path.join(excerpts.ROOT, "docs")
TARGET = os.path.join(excerpts.ROOT, "build", "docs")


def main():
    shutil.rmtree(TARGET, ignore_errors=True)
    for path, content in pages().items():
        path = os.path.join(TARGET, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())


def pages():
    """Return a dict from a path in the site to Markdown, or to the bytes of another file."""
    found = {**api_pages.pages(), **notebook_pages.pages()}
    for pattern in ("pictures/*.svg", "*.css"):
        for path in glob.glob(os.path.join(SOURCE, pattern)):
            with open(path, "rb") as file:
                found[os.path.relpath(path, SOURCE)] = file.read()
    for path in glob.glob(os.path.join(SOURCE, "*.md")):
        with open(path, encoding="utf-8") as file:
            found[os.path.basename(path)] = excerpts.fill(file.read())
    return found


if __name__ == "__main__":
    main()
