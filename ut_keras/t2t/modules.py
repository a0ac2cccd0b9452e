"""Find the stand-in for a module of T2T, or a module of placeholders.

from tensor2tensor.utils import registry             ut_keras.t2t.registry
from tensor2tensor.data_generators import gym_env    a name that raises an error when it is used

Therefore the problems and sets of a package work even if, for example, its models do not. As in
T2T, a package can access a module through another module that imports it:

translate_envi.problem.DatasetSplit              data_generators.problem.DatasetSplit
"""

import contextlib
import functools
import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

from ut_keras import models
from ut_keras.hparams.registry import SETS
from ut_keras.problems.problem import REGISTRY as PROBLEMS
from ut_keras.t2t import imports, naming, problem_classes, tf1_compat
from ut_keras.t2t.missing import Absent, Missing, print_once

STAND_INS = {
    "data_generators.algorithmic": "algorithmic_problems",
    "data_generators.generator_utils": "generator_utils",
    "data_generators.multi_problem": "multi_problem",
    "data_generators.problem": "problem",
    "data_generators.text_encoder": "text_encoder",
    "data_generators.text_problems": "text_problems",
    "data_generators.tokenizer": ".text.tokenizer",
    "data_generators.translate": "translate",
    "layers.common_hparams": "models",
    "layers.modalities": "naming",
    "models.lstm": "models",
    "models.neural_gpu": "models",
    "models.research.universal_transformer": "models",
    "models.transformer": "models",
    "problems": "registry",
    "utils.hparam": "hparam",
    "utils.metrics": "naming",
    "utils.misc_utils": "naming",
    "utils.registry": "registry",
    "utils.t2t_model": "models",
}
# The alternative to an unsupported name, by the beginning of the name.
_NEAREST = {
    "bin": "the commands that docs/t2t.md lists",
    "data_generators.algorithmic": "ut_keras.problems.algorithmic",
    "data_generators.cipher": "data_generators.algorithmic.AlgorithmicProblem",
    "data_generators.babi_qa": (
        "ut_keras.problems.babi_qa, or the problems babi_qa_* of ut_keras without a package"
    ),
    "data_generators.lambada": "ut_keras.problems.lambada",
    "data_generators.lm1b": "ut_keras.problems.lm1b",
    "data_generators.problem.Text2Text": "data_generators.text_problems.Text2TextProblem",
    "data_generators.ptb": "ut_keras.problems.ptb",
    "data_generators.text_problems.Text2Real": "a Text2ClassProblem whose classes are ranges",
    "data_generators.translate": "ut_keras.problems.translate",
    "data_generators.wikitext103": "ut_keras.problems.wikitext",
    "data_generators.wsj_parsing": "ut_keras.problems.wsj_parsing",
    "data_generators": "your own subclass of Text2TextProblem",
    "layers": "ut_keras.layers",
    "layers.common_attention": "ut_keras.layers.attention.attention",
    "layers.common_layers": "keras.layers and ut_keras.layers",
    "layers.transformer_layers": "ut_keras.layers.depth.transformer_layer",
    "models": "ut_keras.models",
    "models.research.universal_transformer_util": "ut_keras.layers.depth.recurrence",
    "serving": "ut-query-server",
    "utils": "ut_keras",
    "utils.adafactor": "ut_keras.optimizers.adafactor",
    "utils.beam_search": "ut_keras.decoding.beam_search",
    "utils.bleu_hook": "ut_keras.metrics.bleu",
    "utils.decoding": "ut_keras.decoding",
    "utils.expert_utils": "ut_keras.layers",
    "utils.learning_rate": "ut_keras.optimizers.learning_rate",
    "utils.metrics_hook": "ut_keras.training.early_stopping",
    "utils.optimize": "ut_keras.optimizers",
    "utils.quantization": "activation_dtype=bfloat16",
    "utils.trainer_lib": "ut_keras.training.trainer",
    "visualization": "ut-visualize",
}
# Functions that return why a name that T2T registers is not supported. The first reason is used.
_WHY_NOT: dict[str, tuple[Callable, ...]] = {
    "data_generators": (PROBLEMS.unsupported_reason,),
    "models": (models.unsupported_reason, SETS.unsupported_reason),
}
# Functions that a package may call and that have no effect. The flag --random_seed sets the seeds.
_NO_OP_FUNCTIONS = ("utils.trainer_lib.set_random_seed", "utils.mlperf_log.transformer_print")


def _parent_packages(names):
    """Return the packages that contain the modules, and "" for tensor2tensor itself."""
    parts = (name.split(".") for name in names)
    return {".".join(some[:number]) for some in parts for number in range(len(some))}


_FOLDERS = _parent_packages([*STAND_INS, *imports.BY_MODULE]) | {"visualization"}
_MODULES = _FOLDERS | STAND_INS.keys() | imports.BY_MODULE.keys()


@functools.cache
def find(name: str) -> types.ModuleType:
    """Return the stand-in for `tensor2tensor.NAME`, or a module of `Absent`s."""
    return _Module(name)


def missing(name: str) -> Missing:
    """Return the error for the unsupported name `tensor2tensor.NAME`."""
    registered = naming.camelcase_to_snakecase(name.rpartition(".")[2])
    reasons = (why_not(registered) for why_not in _WHY_NOT.get(name.partition(".")[0], ()))
    fitting = [key for key in _NEAREST if name.startswith(key)]
    nearest = _NEAREST[max(fitting, key=len)] if fitting else "docs/t2t.md"
    reason = next(filter(None, reasons), f"use {nearest}")
    return Missing(
        "A package must use names of T2T that work, see docs/t2t_modules.md. "
        f"Received: tensor2tensor.{name}, which is not supported; {reason}."
    )


class _Module(types.ModuleType):
    """A module `tensor2tensor.NAME`, which resolves its names on access."""

    def __init__(self, name: str) -> None:
        super().__init__(f"tensor2tensor.{name}".rstrip("."))
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._public()
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._name}.{name}".lstrip(".")
        if full in _MODULES:
            return find(full)
        if full in _NO_OP_FUNCTIONS:
            return lambda *args, **kwargs: None
        if self._name in STAND_INS:
            found = getattr(self._stand_in(), name, None)
            if found is not None and not isinstance(found, types.ModuleType):
                return found
        if self._name.startswith("data_generators."):
            made = problem_classes.find(name)
            if made:
                return made
        target = self._imports().get(name)
        return Absent(full, missing) if target is None else _resolve_import(full, target)

    def _imports(self) -> Mapping[str, str]:
        """Return the imports of T2T's module.

        If T2T 1.15 lacks the module, these are all stand-ins.
        """
        return imports.BY_MODULE.get(self._name, _DEFAULT_IMPORTS)

    def _stand_in(self) -> types.ModuleType:
        return importlib.import_module(f".{STAND_INS[self._name]}", "ut_keras.t2t")

    def _public(self) -> list[str]:
        """Return what `import *` imports: the stand-in's names and T2T's imports."""
        if self._name in _FOLDERS:
            return []
        carried = [*imports.BY_MODULE.get(self._name, ())]
        if self._name not in STAND_INS:
            print_once(f"note: {missing(f'{self._name}.*')}")
            return carried
        module = self._stand_in()
        values = ((name, getattr(module, name)) for name in dir(module) if name[0] != "_")
        return [*(name for name, value in values if _is_own_definition(value)), *carried]


# The modules that have stand-ins, by the last part of their name.
_DEFAULT_IMPORTS = {
    name: target
    for name, target in imports.TARGETS.items()
    if target.removeprefix(".") in STAND_INS
}


def _resolve_import(full, target):
    """Return what T2T's module imports, or `Absent` if it is not supported."""
    folder, _, name = target.rpartition(".")
    if target.startswith("."):
        target = target.removeprefix(".")
        return find(target) if target in _MODULES else getattr(find(folder.removeprefix(".")), name)
    with contextlib.suppress(ImportError, AttributeError):
        if target.startswith("tensorflow"):
            return tf1_compat.find(target, (name,))
        try:
            return importlib.import_module(target)
        except ModuleNotFoundError:
            return getattr(importlib.import_module(folder), name)
    return Absent(full, missing)


def _is_own_definition(value):
    """Return whether a value is defined in ut_keras and is not a module."""
    # A `functools.partial` has the attribute `func`.
    made_in = getattr(getattr(value, "func", value), "__module__", "ut_keras")
    return not isinstance(value, types.ModuleType) and made_in.startswith("ut_keras")
