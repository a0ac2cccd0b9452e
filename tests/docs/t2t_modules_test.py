"""The page of T2T's names says what a package gets for each."""

import importlib.util
import os

import pytest

from ut_keras.t2t import modules
from ut_keras.t2t.missing import Missing

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")


def _load():
    spec = importlib.util.spec_from_file_location("t2t_modules", f"{DOCS}/t2t_modules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = _load()


def _page():
    with open(SCRIPT.PAGE, encoding="utf-8") as file:
        return file.read()


NAMES = SCRIPT.read_page(_page())


def test_page_is_up_to_date():
    assert len(NAMES) > 200 and sum(map(len, NAMES.values())) > 2900
    assert _page() == SCRIPT.page(NAMES), "run: python docs/t2t_modules.py"


def test_names_are_those_that_a_module_defines(tmp_path):
    folder = tmp_path / "layers" / "deep"
    folder.mkdir(parents=True)
    (folder / "some.py").write_text(
        "import os\nfrom x import y\nA, (B, _c) = 1, (2, 3)\nA.d = 4\n"
        "try:\n  E = 1\nexcept: pass\ndef f(): g = 1\nclass H: i = 1\n"
    )
    (folder / "some_test.py").write_text("A = 1\n")
    assert SCRIPT.read_source(str(tmp_path)) == {"layers.deep.some": ["A", "B", "E", "H", "f"]}


def test_a_package_can_import_every_name(tmp_path):
    """In each form that there is of `import`."""
    from ut_keras.t2t import usr_dir

    lines = []
    for module, names in NAMES.items():
        folder, _, last = module.rpartition(".")
        lines += [
            f"import tensor2tensor.{module}",
            f"import tensor2tensor.{module} as short",
            f"from tensor2tensor.{folder} import {last}",
            f"from tensor2tensor.{module} import {', '.join(names)}",
            *(f"tensor2tensor.{module}.{name}, short.{name}, {last}.{name}" for name in names),
        ]
    (tmp_path / "__init__.py").write_text("\n".join(lines))
    usr_dir.load(str(tmp_path))


def test_what_does_not_work_is_refused_in_one_line():
    refused = [(m, name) for m in NAMES for name in NAMES[m] if not SCRIPT.is_here(m, name)]
    for module, name in refused:
        with pytest.raises(Missing, match=rf"{module}\.{name}, which is not here; .+\.$"):
            getattr(modules.find(module), name)()
