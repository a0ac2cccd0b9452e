"""Loads the package that `--t2t_usr_dir` names: by its path, under a name of its own.

    load("gcp/trainer")      the module t2t_usr_dir_trainer_1a2b3c4d, and no other "trainer"

Whatever the folder is called, it hides nothing that is installed, and nothing hides it. Only in its
modules and in those beside it, and there in functions that are called later too, `import` finds the
stand-ins for `tensor2tensor`, TensorFlow 1's names in `tf`, and the package itself under its
folder's name. The processes of data generation load the same packages.
"""

import builtins
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras import errors
from ut_keras.data.writing import process_pool
from ut_keras.process import short_names
from ut_keras.t2t import missing, modules, tf1_compat

# Names that stand for ours even in a package that is called so.
_BUILT_IN_PACKAGES = ("ut_keras", "problems", "hparams")
_folders: dict[str, str] = {}  # name of a loaded package -> its folder
_unrelated_names: set[str] = set()  # names at top level that are of no package


def load(
    directory: str, flags: Mapping[str, Any] | None = None, words: Sequence[str] = ()
) -> list[str]:
    """Imports the package in a folder, once.

    Args:
        directory: str. A folder with an `__init__.py`.
        flags: dict from name to value, what the package may read of the command's. Optional.
        words: list of str, of the command line: flags that the package may define.

    Returns:
        the words that are of no flag of it, and not left to it.

    Raises:
        whatever the package raises.
    """
    tf1_compat.fill_flags(flags or {})
    folder = os.path.realpath(directory)
    name = _module_name(folder)
    if not _folders:
        sys.meta_path.insert(0, _Finder())
    _folders[name] = folder
    _others.clear()
    errors.add_user_code_folder(folder)
    parent = os.path.dirname(folder)
    sys.path.append(parent)  # for its neighbours, as in T2T
    short_names.alias_missing()
    missing.packages_loading += 1
    try:
        importlib.import_module(name)
    finally:
        missing.packages_loading -= 1
        sys.path.remove(parent)
    shared = {name: value for name, value in (flags or {}).items() if name in tf1_compat.FLAGS}
    process_pool.prepare(functools.partial(load, folder, shared, words))
    rest = tf1_compat.parse_flags(words)
    if rest and any("argparse" in vars(module) for module in _loaded_modules()):
        missing.print_once(
            f"note: flags left to the package, which imports argparse: {' '.join(rest)}"
        )
        return []
    return rest


def _loaded_modules():
    """Those of loaded packages."""
    loaded = list(sys.modules.values())
    return [m for m in loaded if isinstance(getattr(m, "__loader__", None), _Loader)]


def _module_name(folder):
    base = os.path.basename(folder)
    word = "".join(character if character.isalnum() else "_" for character in base)
    return f"t2t_usr_dir_{word}_{zlib.crc32(os.fsencode(folder)):08x}"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of loaded packages, also by a path of the package's own (PYTHONPATH)."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        top, _, rest = fullname.partition(".")
        if top in _folders and not rest:
            file = os.path.join(_folders[top], "__init__.py")
            return importlib.util.spec_from_file_location(
                fullname,
                file,
                loader=_Loader(fullname, file, top),
                submodule_search_locations=[_folders[top]],
            )
        if top in _unrelated_names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        package = top if top in _folders else _package_of(top, spec)
        if package is None:
            if spec is None or spec.origin:  # a folder without `__init__.py` has none
                _unrelated_names.add(top)
            return None
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, package)
        return spec


def _package_of(top, spec):
    """The loaded package that a module is in or beside; None if there is none."""
    origin = os.path.realpath(spec.origin) if spec and spec.origin else ""
    for name, folder in _folders.items():
        parent = os.path.dirname(folder)
        beside = os.path.join(parent, top)
        if origin.startswith(folder + os.sep):
            return name
        if origin.startswith((beside + os.sep, f"{beside}.py")) and top not in _BUILT_IN_PACKAGES:
            return None if parent.endswith("-packages") else name
    return None


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a module with an `import` of its own."""

    def __init__(self, fullname: str, path: str, package: str) -> None:
        super().__init__(fullname, path)
        self._package = package

    def exec_module(self, module: types.ModuleType) -> None:
        folder = os.path.basename(_folders[self._package])
        imports = functools.partial(_import, self._package, folder)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": imports}
        super().exec_module(module)


def _import(package, folder_name, name, globals=None, locals=None, fromlist=(), level=0):
    """What `import` calls; the arguments from `name` on are those of `__import__`."""
    top, _, rest = name.partition(".")
    if level:
        pass
    elif top == "tensor2tensor":
        module = modules.find(rest)
        return module if fromlist else modules.find("")
    elif top == "tensorflow":
        return tf1_compat.find(name, fromlist)
    elif top == folder_name and top not in _BUILT_IN_PACKAGES:
        name = f"{package}.{rest}" if rest else package
    return builtins.__import__(name, globals, locals, fromlist, level)
