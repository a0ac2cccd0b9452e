"""The page of T2T names lists what a user's package gets for each name."""

import importlib.util
import os
import types

import pytest

from ut_keras.t2t import imports, modules
from ut_keras.t2t.missing import Absent, Missing

SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "scripts")


def _load():
    spec = importlib.util.spec_from_file_location("t2t_modules", f"{SCRIPTS}/t2t_modules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = _load()


def _page():
    with open(SCRIPT.PAGE, encoding="utf-8") as file:
        return file.read()


NAMES = SCRIPT.read_page(_page())


def test_page_matches_script():
    assert len(NAMES) > 200 and sum(map(len, NAMES.values())) > 2900
    assert _page() == SCRIPT.page(NAMES), "run: python scripts/t2t_modules.py"


def test_read_source_returns_defined_names(tmp_path):
    folder = tmp_path / "layers" / "deep"
    folder.mkdir(parents=True)
    (folder / "some.py").write_text(
        "import os\nfrom x import y\nA, (B, _c) = 1, (2, 3)\nA.d = 4\n"
        "try:\n  E = 1\nexcept: pass\ndef f(): g = 1\nclass H: i = 1\n"
    )
    (folder / "some_test.py").write_text("A = 1\n")
    assert SCRIPT.read_source(str(tmp_path)) == {"layers.deep.some": ["A", "B", "E", "H", "f"]}


def test_read_imports_returns_top_level_imports(tmp_path):
    folder = tmp_path / "layers"
    folder.mkdir()
    (folder / "some.py").write_text(
        "from __future__ import division\nimport os.path\nimport numpy as np, no_such_library\n"
        "from tensor2tensor.utils import registry\nfrom tensor2tensor.utils import hparam as lib\n"
        "from x.y import z\ntry:\n  from six.moves import range\nexcept: pass\n"
        "def f():\n  import json\n"
    )
    (folder / "other.py").write_text("from tensor2tensor.layers import registry\n" * 2)
    found = SCRIPT.read_imports(str(tmp_path))
    expected = {
        "lib": ".utils.hparam",
        "np": "numpy",
        "os": "os",
        "range": "six.moves.range",
        "registry": ".utils.registry",
    }
    assert found == {"layers.other": {"registry": ".layers.registry"}, "layers.some": expected}
    written = {}
    exec(SCRIPT.imports_text(found), written)
    assert written["BY_MODULE"] == found


def test_imports_module_matches_script():
    assert imports.BY_MODULE.keys() >= NAMES.keys()
    assert sum(map(len, imports.BY_MODULE.values())) > 1500
    with open(imports.__file__, encoding="utf-8") as file:
        assert file.read() == SCRIPT.imports_text(imports.BY_MODULE)


def test_module_reached_through_another_has_its_names():
    """A user's package may reach the names of a T2T module through a module that imports it."""
    walked = 0
    for module, names in imports.BY_MODULE.items():
        for name, target in names.items():
            found = getattr(modules.find(module), name)
            inner = target.removeprefix(".")
            if inner not in imports.BY_MODULE or not target.startswith("."):
                continue
            assert found is modules.find(inner), f"{module}.{name}"
            assert isinstance(found, types.ModuleType)
            for public in NAMES.get(inner, ()):
                is_here = not isinstance(getattr(found, public), Absent)
                assert is_here == SCRIPT.is_here(inner, public), f"{module}.{name}.{public}"
                walked += 1
    assert walked > 10_000


def test_package_can_import_every_name(tmp_path):
    """A user's package can use every form of `import`."""
    from ut_keras.t2t import usr_dir

    lines = []
    for module, names in NAMES.items():
        folder, _, last = module.rpartition(".")
        lines += [
            f"import tensor2tensor.{module}",
            f"import tensor2tensor.{module} as short",
            f"from tensor2tensor.{folder} import {last}",
            *(f"short.{name}, {last}.{name}" for name in imports.BY_MODULE[module]),
            *(f"tensor2tensor.{module}.{name}, short.{name}, {last}.{name}" for name in names),
            # This import is last, because T2T's module `neural_gpu` has a function of this name.
            f"from tensor2tensor.{module} import {', '.join([*names, *imports.BY_MODULE[module]])}",
        ]
    (tmp_path / "__init__.py").write_text("\n".join(lines))
    usr_dir.load(str(tmp_path))


def test_unsupported_name_raises_one_line():
    rejected = [(m, name) for m in NAMES for name in NAMES[m] if not SCRIPT.is_here(m, name)]
    for module, name in rejected:
        with pytest.raises(Missing, match=rf"{module}\.{name}, .+; .+\.$"):
            getattr(modules.find(module), name)()
