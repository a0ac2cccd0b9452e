"""T2T's modules by name: which of ours stands in for one, and what is nearest to the others.

from tensor2tensor.utils import registry         ut_keras.t2t.registry
from tensor2tensor.layers import common_layers   a name that ends the command when it is used
from tensor2tensor.data_generators import gym_env    one line at once
"""

import importlib
import types
from typing import Any, NoReturn

from ut_keras.t2t.missing import Missing

_PAGE = "docs/t2t_package.md"
STAND_INS = {
    "data_generators.generator_utils": "generator_utils",
    "data_generators.problem": "problem",
    "data_generators.problem_hparams": "problem_hparams",
    "data_generators.text_encoder": "text_encoder",
    "data_generators.text_problems": "text_problems",
    "data_generators.tokenizer": "tokenizer",
    "data_generators.translate": "translate",
    "layers.common_hparams": "common_hparams",
    "layers.modalities": "modalities",
    "models.lstm": "models_lstm",
    "models.research.universal_transformer": "models_universal_transformer",
    "models.transformer": "models_transformer",
    "problems": "all_problems",
    "utils.hparam": "hparam",
    "utils.metrics": "metrics",
    "utils.misc_utils": "misc_utils",
    "utils.registry": "registry",
    "utils.t2t_model": "t2t_model",
}
# Modules that models are written with: they can be imported, so that the problems and sets beside
# such a model can be used, and what they hold ends the command when it is called.
_OF_MODELS = {
    "layers.area_attention": "ut_keras.layers",
    "layers.bayes": "ut_keras.layers",
    "layers.common_attention": "ut_keras.layers.attention.attention",
    "layers.common_layers": "keras.layers and ut_keras.layers",
    "layers.latent_layers": "ut_keras.layers",
    "layers.transformer_layers": "ut_keras.layers.depth.transformer_layer",
    "models.research.universal_transformer_util": "ut_keras.layers.depth.recurrence",
    "utils.beam_search": "ut_keras.decoding.beam_search",
    "utils.bleu_hook": "ut_keras.metrics.bleu",
    "utils.decoding": "ut_keras.decoding",
    "utils.expert_utils": "ut_keras.layers",
    "utils.learning_rate": "ut_keras.optimizers.learning_rate",
    "utils.metrics_hook": "ut_keras.training.early_stopping",
    "utils.optimize": "ut_keras.optimizers",
    "utils.quantization": "nothing",
    "utils.trainer_lib": "ut_keras.training.trainer",
}
# What is nearest to the rest, by the beginning of the name.
_NEAREST = {
    "bin": "the commands, docs/t2t.md",
    "data_generators.algorithmic": "problems.algorithmic",
    "data_generators.babi_qa": "problems.babi_qa",
    "data_generators.lambada": "problems.lambada",
    "data_generators.lm1b": "problems.lm1b",
    "data_generators.ptb": "problems.ptb",
    "data_generators.translate": "problems.translate",
    "data_generators.wikitext103": "problems.wikitext",
    "data_generators.wsj_parsing": "problems.wsj_parsing",
    "data_generators": "a Text2TextProblem of your own",
    "layers": "ut_keras.layers",
    "models": "ut_keras.models",
    "serving": "ut-query-server",
    "utils.adafactor": "ut_keras.optimizers.adafactor",
    "utils": "ut_keras",
    "visualization": "ut-visualize",
}
_PARENTS = {
    ".".join(name.split(".")[:length])
    for name in (*STAND_INS, *_OF_MODELS)
    for length in range(name.count(".") + 1)
} | {""}


def find(name: str) -> types.ModuleType:
    """The module that `tensor2tensor.NAME` is here.

    Args:
        name: str, without "tensor2tensor."; "" for the package.

    Raises:
        Missing: if there is none; names the nearest thing.
    """
    if name not in _found:
        if name in STAND_INS:
            _found[name] = _StandIn(name)
        elif name in _OF_MODELS or name in _PARENTS:
            _found[name] = _Folder(name)
        else:
            raise missing(name)
    return _found[name]


def missing(name: str) -> Missing:
    """The error for something of T2T that is not here; NAME without "tensor2tensor."."""
    fitting = [key for key in (*_OF_MODELS, *_NEAREST) if name.startswith(key)]
    nearest = {**_NEAREST, **_OF_MODELS}[max(fitting, key=len)] if fitting else "docs/t2t.md"
    return Missing(
        f"A package may import what {_PAGE} lists of T2T. Received: tensor2tensor.{name}, which is "
        f"not here; the nearest: {nearest}."
    )


class _Folder(types.ModuleType):
    """A module of T2T that holds modules, or what only models use."""

    def __init__(self, name: str) -> None:
        super().__init__(f"tensor2tensor.{name}".rstrip("."))
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._name}.{name}".lstrip(".")
        if self._name in _OF_MODELS:
            return _OfModels(full)
        return find(full)


class _StandIn(_Folder):
    """A module of T2T that a module of ours stands in for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        module = importlib.import_module(f"ut_keras.t2t.{STAND_INS[self._name]}")
        try:
            return getattr(module, name)
        except AttributeError:
            return find(f"{self._name}.{name}")


class _OfModels:
    """Something that only the body of a model would call."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _OfModels(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise missing(self._name)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise missing(self._name)


_found: dict[str, types.ModuleType] = {}
