"""docs/architecture.md names only existing files."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _blocks(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return re.findall(r"```text\n(.*?)```", file.read(), re.DOTALL)


def test_architecture_page_names_existing_files():
    blocks = [block for block in _blocks("docs/architecture.md") if block.startswith("ut_keras/")]
    assert len(blocks) == 5
    for line in "".join(blocks).splitlines():
        folder = ""
        for path in re.split(r",\s*", re.split(r"\s{2,}", line)[0]):
            candidates = [path, os.path.join(folder, path)]
            assert not path or any(os.path.exists(os.path.join(ROOT, c)) for c in candidates), line
            folder = folder or os.path.dirname(path)
