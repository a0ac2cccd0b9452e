"""Load the package of `--t2t_usr_dir`, whose modules may import Tensor2Tensor.

    load("gcp/trainer")      the module t2t_usr_dir_trainer_1a2b3c4d

**What happens.**
1. `load` imports the package from its folder, under a unique name.
2. In the modules of the package, each `import` statement calls `_import` of this file.
3. For `tensor2tensor`, `_import` returns ut_keras' replacements for T2T's modules. For
   `tensorflow`, it returns a module that also has the names of TensorFlow 1.
4. For the name of the package's folder, `_import` returns the package itself.
5. Python imports all other names as usual, and all other modules of the process stay as they are.

So a package that was written for T2T runs without changes. Its folder may have any name: the
package does not hide an installed module of the same name, and no installed module hides the
package. Only a folder called `ut_keras` cannot be imported by its name. The worker processes of
data generation load the same packages.

**How.** An `import` statement calls the function `__import__` in the `__builtins__` of its module.
`_Loader` sets this function before it runs a module. This also works for imports inside functions,
which run later. `_Finder` selects `_Loader` for the modules in the package and for the modules next
to the package's folder, which may import the same names. `_Finder` is an entry of `sys.meta_path`.

**Alternatives that use only Python's public import system.**
- `sys.modules` could have entries for `tensor2tensor` and `tensorflow`, or a meta-path finder could
  find these names. Then `__import__` would not have to be replaced. However, both affect the whole
  process: they would hide an installed Tensor2Tensor, and every library would import TensorFlow 1's
  names. Therefore neither alternative was tried.
- Rewriting the import statements with `SourceLoader.source_to_code` would still need the loader and
  the finder. It would also have to bind the right names for each form of `import`. This rewriting
  was not tried.
- Replacing the finder by `importlib.util.spec_from_file_location` was tried. This suffices for the
  package's `__init__.py`, but Python's own loader then loads the other modules.
- An entry in `sys.path_hooks` selects a loader for all modules of a folder. The folder that
  contains the package can also contain unrelated modules, such as ut_keras itself. Therefore this
  alternative was not tried.

**Tests** in tests/t2t/usr_dir_test.py. Without the finder,
`test_package_imports_itself_and_its_neighbours` and `test_package_is_found_on_its_own_path` fail.
Without the loader's `__import__`, these and most other tests there fail, such as
`test_stand_ins_are_visible_to_the_package_only`.
"""

import builtins
import contextlib
import functools
import hashlib
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
from ut_keras.files import file_error
from ut_keras.process import short_names, tensorflow_log
from ut_keras.t2t import missing, modules, tf1_compat

# Modules next to a package never replace these packages of ut_keras.
_BUILT_IN_PACKAGES = ("ut_keras", "problems", "hparams")
_folders: dict[str, str] = {}  # name of a loaded package -> its folder
_unrelated_names: set[str] = set()  # top-level names that belong to no loaded package


def load(
    directory: str, flags: Mapping[str, Any] | None = None, words: Sequence[str] = ()
) -> list[str]:
    """Import the package in a folder. A second call does not import the package again.

    Args:
        directory: str. A folder with an `__init__.py`.
        flags: dict from name to value, the command's flags that the package may read. Optional.
        words: list of str. Words of the command line that may be flags of the package.

    Returns:
        list of str, the words that are not flags of the package. If the package imports argparse,
        it parses the words itself, and the list is empty.

    Raises:
        Exception: any error that the package raises.
    """
    tf1_compat.fill_flags(flags or {})
    folder = os.path.realpath(file_error.checked_path(directory, "directory"))
    name = _module_name(folder)
    if not _folders:
        sys.meta_path.insert(0, _Finder())
    _folders[name] = folder
    _unrelated_names.clear()
    errors.add_user_code_folder(folder)
    parent = os.path.dirname(folder)
    sys.path.append(parent)  # as in T2T, so that Python finds modules next to the folder
    short_names.alias_missing()
    try:
        # The package may be the first code of the command that imports Keras or TensorFlow. The
        # second context then hides TensorFlow's log lines.
        with missing.package_loading(folder), tensorflow_log.held_back():
            importlib.import_module(name)
        # The package imports this module if it registers anything under T2T's names.
        if registry := sys.modules.get("ut_keras.t2t.registry"):
            registry.print_replaced()
    finally:
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


def code_digest() -> str:
    """Return a digest of the source files and the flags of all loaded packages."""
    from absl import flags

    digest = hashlib.sha256()
    by_module = flags.FLAGS.flags_by_module_dict()
    for module in sorted(_loaded_modules(), key=lambda module: module.__name__):
        values = [(flag.name, flag.value) for flag in by_module.get(module.__name__, ())]
        digest.update(repr((module.__name__, values)).encode())
        # The user may have removed the file since the package was loaded.
        with contextlib.suppress(OSError), open(module.__file__, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def _loaded_modules():
    """Return the modules of all loaded packages."""
    loaded = list(sys.modules.values())
    return [m for m in loaded if isinstance(getattr(m, "__loader__", None), _Loader)]


def _module_name(folder):
    base = os.path.basename(folder)
    word = "".join(character if character.isalnum() else "_" for character in base)
    return f"t2t_usr_dir_{word}_{zlib.crc32(os.fsencode(folder)):08x}"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules in and next to loaded packages.

    It also finds them if another entry of `sys.path`, such as one from PYTHONPATH, contains them.
    """

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
            if spec is None or spec.origin:  # a folder without `__init__.py` has no origin
                _unrelated_names.add(top)
            return None
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, package)
        return spec


def _package_of(top, spec):
    """Return the loaded package that contains the module or is next to it, or None."""
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
    """Executes a module with its own `__import__` function."""

    def __init__(self, fullname: str, path: str, package: str) -> None:
        super().__init__(fullname, path)
        self._package = package

    def exec_module(self, module: types.ModuleType) -> None:
        folder = os.path.basename(_folders[self._package])
        imports = functools.partial(_import, self._package, folder)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": imports}
        super().exec_module(module)


def _import(package, folder_name, name, globals=None, locals=None, fromlist=(), level=0):
    """Import a module for a package.

    The arguments after `folder_name` are as for `__import__`.
    """
    if level:  # a relative import
        return builtins.__import__(name, globals, locals, fromlist, level)
    top, _, rest = name.partition(".")
    if top == "tensor2tensor":
        module = modules.find(rest)
        return module if fromlist else modules.find("")
    if top == "tensorflow":
        return tf1_compat.find(name, fromlist)
    if top == folder_name:
        if not rest and _has_mixed_names(package, top, fromlist or ()):
            return _import_one_by_one(package, folder_name, fromlist)
        if _is_own(package, top, rest, fromlist or ()):
            name = f"{package}.{rest}" if rest else package
    return builtins.__import__(name, globals, locals, fromlist)


def _has_mixed_names(package, top, names):
    """Return whether some, but not all, names are the package's own.

    The other names are of ut_keras' package `top`.
    """
    are_own = [_is_own(package, top, "", [name]) for name in names]
    return any(are_own) and not all(are_own)


def _import_one_by_one(package, folder_name, names):
    """Return an object with the imported names, each from the package that has it."""
    found = types.SimpleNamespace()
    for name in names:
        module = _import(package, folder_name, folder_name, fromlist=[name])
        if hasattr(module, name):
            setattr(found, name, getattr(module, name))
    return found


def _is_own(package, top, rest, fromlist):
    """Return whether an import of the package's folder name means the package itself.

    A folder may be called `problems` or `hparams`, as packages of ut_keras. Then the package's own
    modules have precedence. Any other name comes from the package of ut_keras.
    """
    if top not in _BUILT_IN_PACKAGES:
        return True
    if top == "ut_keras":
        return False
    if rest:
        # The package may have imported a module of ut_keras, which is then only an attribute.
        return _has_submodule(package, rest.partition(".")[0])
    module = sys.modules[package]
    return all(
        name == "*" or hasattr(module, name) or _has_submodule(package, name) for name in fromlist
    )


def _has_submodule(package, name):
    fullname = f"{package}.{name}"
    return fullname in sys.modules or importlib.util.find_spec(fullname) is not None
