"""The module `tf` for T2T packages: TensorFlow 2 plus names of TensorFlow 1.

    tf.gfile.Open(path)           tf.compat.v1.gfile
    tf.estimator.ModeKeys.TRAIN   "train"
    tf.contrib.slim               a placeholder, which raises a one-line error when it is used

TensorFlow 2 has precedence for names that both versions have, so packages for TensorFlow 2 also
work. TensorFlow is imported when a package first uses a name.
"""

import contextlib
import importlib
import operator
import types
from collections.abc import Mapping, Sequence
from typing import Any

from ut_keras.errors import UsageError
from ut_keras.t2t import hparam
from ut_keras.t2t.missing import Absent, Missing

_MODES = types.SimpleNamespace(TRAIN="train", EVAL="eval", PREDICT="infer")


def find(name: str, fromlist: Sequence[str] | None) -> Any:
    """Return what `__import__` returns for `tensorflow` or one of its modules.

    Args:
        name: str. The module, such as "tensorflow.contrib.slim".
        fromlist: list of str, as in `__import__`.
    """
    if name in _COMPAT_MODULES:
        found: Any = _COMPAT_MODULES[name]
    elif name.startswith("tensorflow.contrib."):
        found = operator.attrgetter(name.removeprefix("tensorflow."))(_COMPAT_MODULES["tensorflow"])
    elif name.startswith("tensorflow.python") and list(fromlist or ()) != ["*"]:
        found = _CompatModule(name, (name,), {})  # missing names become placeholders
    else:
        found = importlib.import_module(name)
    return found if fromlist else _COMPAT_MODULES["tensorflow"]


class _CompatModule(types.ModuleType):
    """A module that looks up its names in other modules.

    Args:
        name: str. Name of the module.
        sources: list of str. The modules to search, in this order.
        own: dict from name to value. These names have precedence.
    """

    def __init__(self, name: str, sources: Sequence[str], own: Mapping[str, Any]) -> None:
        super().__init__(name)
        self._sources = sources
        self._own = own

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._own:
            return self._own[name]
        found = self._found(name)
        first = next(found, None)
        if first is None:
            return Absent(
                f"{self.__name__}.{name}".removeprefix("tensorflow."), _removed_name_error
            )
        if not isinstance(first, types.ModuleType) or "._api." not in first.__name__:
            return first
        # The name is a public module. The result searches the module of TensorFlow 2, such as
        # tf.train, and then the module of TensorFlow 1.
        sources = [module.__name__ for module in (first, *found)]
        return vars(self).setdefault(name, _CompatModule(f"{self.__name__}.{name}", sources, {}))

    def _found(self, name):
        for source in self._sources:
            with contextlib.suppress(ModuleNotFoundError, AttributeError):
                yield getattr(importlib.import_module(source), name)


# The flags of t2t-trainer that packages can read.
FLAGS = (
    *("data_dir", "tmp_dir", "problem", "model", "hparams", "hparams_set", "output_dir"),
    *("schedule", "t2t_usr_dir", "train_steps"),
)


def fill_flags(values: Mapping[str, Any]) -> None:
    """Set the flags of absl to the values of the command's flags.

    These flags are also `tf.flags`.
    """
    from absl import flags

    class Unchanged(flags.ArgumentParser):
        def parse(self, argument: Any) -> Any:
            return argument

    for name in FLAGS:
        if name not in flags.FLAGS:
            flags.DEFINE(Unchanged(), name, None, "see the --help of the command")
        if name in values:
            flags.FLAGS[name].value = values[name]
    flags.FLAGS.mark_as_parsed()


def parse_flags(words: Sequence[str]) -> list[str]:
    """Parse words of the command line as flags that packages have defined.

    Args:
        words: list of str.

    Returns:
        list of str, the words that are not such flags.

    Raises:
        UsageError: if a value is invalid for its flag.
    """
    from absl import flags

    try:
        return flags.FLAGS(["", *words], known_only=True)[1:]
    except flags.Error as error:
        raise UsageError(
            f"A flag of the package must have a valid value. Received: {error}"
        ) from error


def _removed_name_error(name):
    return Missing(
        f"A package must use names of TensorFlow 2, see docs/t2t_package.md. "
        f"Received: tf.{name}, which only TensorFlow 1 has."
    )


_CONTRIB = {
    "learn": _CompatModule("tensorflow.contrib.learn", (), {"ModeKeys": _MODES}),
    "training": _CompatModule("tensorflow.contrib.training", (), {"HParams": hparam.HParams}),
}
_OWN = {
    "estimator": _CompatModule("tensorflow.estimator", (), {"ModeKeys": _MODES}),
    "contrib": _CompatModule("tensorflow.contrib", (), _CONTRIB),
    "flags": _CompatModule("tensorflow.flags", ("absl.flags",), {}),  # works without TensorFlow
    # The layers of TensorFlow 1 and their RNN cells do not work with Keras 3.
    "layers": Absent("layers", _removed_name_error),
    "nn": _CompatModule(
        "tensorflow.nn",
        ("tensorflow.nn", "tensorflow.compat.v1.nn"),
        {"rnn_cell": Absent("nn.rnn_cell", _removed_name_error)},
    ),
}
_V1 = _CompatModule("tensorflow.compat.v1", ("tensorflow.compat.v1",), _OWN)
_COMPAT = _CompatModule("tensorflow.compat", ("tensorflow.compat",), {"v1": _V1})
_COMPAT_MODULES = {
    "tensorflow": _CompatModule(
        "tensorflow", ("tensorflow", "tensorflow.compat.v1"), {**_OWN, "compat": _COMPAT}
    ),
    "tensorflow.compat": _COMPAT,
    **{face.__name__: face for face in _OWN.values() if isinstance(face, _CompatModule)},
    "tensorflow.compat.v1": _V1,
}
