"""Stand-in for T2T's registry, which adds entries to the registries of ut_keras.

    @registry.register_problem                 under the name of the class, such as poetry_lines
    @registry.register_hparams("other_name")

If a built-in entry has the same name, the package's entry replaces it and a note is printed. This
is not an error, because the package may use a name of ut_keras that does not exist in T2T.

References: tensor2tensor/utils/registry.py.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ut_keras import hparams as hparams_lib
from ut_keras import models, registry
from ut_keras import problems as problems_lib
from ut_keras.hparams.registry import RANGES, SETS
from ut_keras.problems.problem import REGISTRY as PROBLEMS
from ut_keras.registry import default_name  # noqa: F401
from ut_keras.t2t import hparam, multi_problem, overridden
from ut_keras.t2t import models as t2t_models
from ut_keras.t2t import problem as t2t_problem
from ut_keras.t2t.naming import Modalities  # noqa: F401

# The decorators of this module can be used without a name, as in T2T. The name is then the name of
# the decorated class or function. `registry.decorator` describes the argument `given`.


def register_problem(given: Any = None) -> Any:
    return registry.decorator(given or None, _add_problem)


def register_hparams(given: Any = None) -> Any:
    return registry.decorator(given or None, _add_hparams)


def register_ranged_hparams(given: Any = None) -> Any:
    return registry.decorator(given or None, _add_ranged_hparams)


def register_model(given: Any = None) -> Any:
    return registry.decorator(given or None, _add_model)


register_base_problem = register_problem


def _add_problem(name: str, problem_class: type[t2t_problem.Problem]) -> None:
    problem_class.name = name

    def make_problem():
        arguments = overridden.INIT_ARGUMENTS
        expected = f"__init__(self, {', '.join(f'{key}=False' for key in arguments)})"
        title = f"{problem_class.__name__}.__init__"
        overridden.check_call(problem_class, title, arguments, expected, by_name=True)
        return multi_problem.adapt(problem_class(**arguments))

    _add(PROBLEMS, name, make_problem)


def _add_hparams(name: str, function: Callable) -> None:
    @functools.wraps(function)
    def make_set():
        overridden.check_call(function, f"hparams set {name}", (), f"{function.__name__}()")
        return hparam.to_dataclass(function(), f"hparams set {name}")

    _add(SETS, name, make_set)


def _add_ranged_hparams(name: str, function: Callable) -> None:
    @functools.wraps(function)
    def fill_ranges(ranges):
        expected = f"{function.__name__}(rhp)"
        overridden.check_call(function, f"ranged hparams {name}", ("rhp",), expected)
        return function(ranges)

    _add(RANGES, name, fill_ranges)


def _add_model(name: str, model_class: type) -> None:
    ours = t2t_models.built_in_name(model_class)
    if ours is not None:
        models.register_alias(name, ours)
        return
    title = f"{model_class.__name__} in {inspect.getsourcefile(model_class)}"
    if any(map(t2t_models.built_in_name, model_class.__mro__[1:])):
        reason = (
            f"{title} overrides methods of T2T's model that ut_keras does not call. "
            'docs/t2t_package.md shows in the section "A model with a `body`" what to override '
            "instead"
        )
    else:
        reason = (
            f"{title} consists of TensorFlow 1 layers, which are not supported. docs/t2t.md shows "
            'in the section "Models and parts of your own" how to register it as a part'
        )
    models.mark_unsupported(name, reason)


def _ignored_registration(kind, instead):
    """Return a decorator for a kind of registration that only T2T supports.

    The decorator prints a note. The rest of the package still works.
    """

    def print_note(name, thing):
        print(f"note: the {kind} {name} of the package cannot be selected; {instead}", flush=True)

    return lambda given=None: registry.decorator(given or None, print_note)


register_optimizer = _ignored_registration(
    "optimizer", "--hparams=optimizer=… accepts the optimizers of docs/t2t_hparams.md"
)
register_attack = register_attack_params = _ignored_registration(
    "attack", "attacks are not supported"
)
register_pruning_strategy = register_pruning_params = _ignored_registration(
    "pruning", "pruning is not supported"
)
# T2T before 1.12 has these decorators.
register_symbol_modality = register_class_label_modality = register_generic_modality = (
    _ignored_registration(
        "modality", "ut_keras supports ModalityType.SYMBOL and ModalityType.CLASS_LABEL"
    )
)
register_audio_modality = register_image_modality = register_real_modality = (
    register_video_modality
) = register_symbol_modality


def problem(problem_name: str, **kwargs: Any) -> Any:
    """Return a problem by name. A package's problem is an instance of its own class."""
    found = problems_lib.get(problem_name)
    return getattr(found, "t2t", found)


def hparams(name: str) -> hparam.HParams:
    """Return a set as an `HParams`, including fields that a package adds."""
    function = SETS.get(name)
    function = getattr(function, "__wrapped__", function)  # the package's own function
    overridden.check_call(function, f"hparams set {name}", (), f"{function.__name__}()")
    values = function()
    return values if isinstance(values, hparam.HParams) else hparam.from_dataclass(values)


list_models = models.names
list_problems = available = problems_lib.names  # `tensor2tensor.problems` has `available`


def list_hparams(prefix: str | None = None) -> list[str]:
    """Return the sorted names of all sets that begin with `prefix`."""
    return [name for name in hparams_lib.names() if name.startswith(prefix or "")]


# {kind: names of ut_keras that the package has replaced, for a note}
_replaced: dict[str, list[str]] = {}
_MOST_SHOWN = 3  # how many of these names the note shows


def print_replaced() -> None:
    """Print one note for each kind of names of ut_keras that the package has replaced."""
    for kind, names in _replaced.items():
        shown = ", ".join(names[:_MOST_SHOWN])
        if len(names) > _MOST_SHOWN:
            shown += f" and {len(names) - _MOST_SHOWN} others"
        title = f"{kind} {shown} comes" if len(names) == 1 else f"{kind}s {shown} come"
        print(f"note: {title} from the package, not from ut_keras", flush=True)
    _replaced.clear()


def _add(table, name, entry):
    if name in table:
        _replaced.setdefault(table.kind, []).append(name)
    table.replace(name, entry)
