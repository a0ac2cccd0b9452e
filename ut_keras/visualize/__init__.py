"""Pictures of what a model does with an example: where its heads look, how long it ponders.

    from ut_keras import visualize
    visualize.attention(model, features, encoders)          a matplotlib figure
    visualize.ponder(model, features, encoders)             a matplotlib figure
    visualize.page(model, features, encoders)               an HTML page, as a str
    visualize.write(model, features, directory, encoders)   all of them, as files

Figures need matplotlib (`pip install 'ut_keras[plot]'`), the page does not. Importing this module
loads neither matplotlib nor TensorFlow.
"""

import contextlib
import glob
import importlib
import importlib.util
import itertools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ut_keras.errors import UsageError
from ut_keras.files import file_error, whole_file
from ut_keras.text.text_encoder_base import TextEncoder
from ut_keras.visualize.observation import Observation

if TYPE_CHECKING:
    import keras
    from matplotlib.figure import Figure

PAGE = "index.html"
MATPLOTLIB_MISSING = "Pictures need matplotlib: pip install 'ut_keras[plot]'."


def attention(
    model: "keras.Model",
    features: Mapping[str, Any],
    encoders: Mapping[str, TextEncoder] | None = None,
    example: int = 0,
    **options: Any,
) -> "Figure":
    """Draws where the heads look.

    Args:
        model: with `forward`, as from `ut_keras.models.get`.
        features: dict of int ids [B, ...]: "inputs" and, optionally, "targets". Without targets the
            model writes them first; of a language model, "inputs" is then the prompt.
        encoders: dict from feature name to `TextEncoder`, for the labels. Optional.
        example: int, the row of the batch.
        options: kind, step, layer, head, query, style: see `figures.attention`.
    Returns:
        `matplotlib.figure.Figure`.
    Raises:
        ImportError: if matplotlib is missing.
        ValueError: if there is nothing of that kind to see.
    """
    figures = _matplotlib_module("figures")
    return figures.attention(observe(model, features, encoders, example), **options)


def ponder(
    model: "keras.Model",
    features: Mapping[str, Any],
    encoders: Mapping[str, TextEncoder] | None = None,
    example: int = 0,
    stack: str | None = None,
) -> "Figure":
    """Draws how many steps each position took (Dehghani et al. 2019, figure 3).

    Args:
        model, features, encoders, example: as of `attention`.
        stack: "encoder" or "decoder". Default: the first that ponders.
    Returns:
        `matplotlib.figure.Figure`.
    Raises:
        ImportError, ValueError: as `attention`; not every model ponders.
    """
    figures = _matplotlib_module("figures")
    return figures.ponder(observe(model, features, encoders, example, attention=False), stack)


def observe(
    model: "keras.Model",
    features: Mapping[str, Any],
    encoders: Mapping[str, TextEncoder] | None = None,
    example: int = 0,
    attention: bool = True,
) -> Observation:
    """What there is to see, as arrays and labels: an `observation.Observation`.

    Args:
        model, features, encoders, example: as of `attention`.
        attention: bool. Whether its weights are kept, float32 of every step, layer and head: 4 N H
            S^2 bytes of a source of S positions, twice while they are gathered. Ponder times are
            little.
    """
    from ut_keras.visualize import observer

    return observer.observe(model, features, encoders, example, attention)


def page(
    model: "keras.Model",
    features: Mapping[str, Any],
    encoders: Mapping[str, TextEncoder] | None = None,
    example: int = 0,
    about: Mapping[str, str] | None = None,
) -> str:
    """One page of HTML that needs nothing besides itself.

    Args:
        model, features, encoders, example: as of `attention`.
        about: dict of str, shown at the top. Optional.
    Returns:
        str.
    """
    from ut_keras.visualize import html_page

    return html_page.render(observe(model, features, encoders, example), about)


def write(
    model: "keras.Model",
    features: Mapping[str, Any],
    directory: str,
    encoders: Mapping[str, TextEncoder] | None = None,
    example: int = 0,
    about: Mapping[str, str] | None = None,
) -> list[str]:
    """Writes index.html and, where matplotlib is there, the figures as PNG.

    Args:
        model, features, encoders, example, about: as of `page`.
        directory: str; made if it is not there.
    Returns:
        list of str, the paths.
    """
    seen = observe(model, features, encoders, example)
    return write_observation(seen, directory, about)


def write_observation(
    seen: Observation, directory: str, about: Mapping[str, str] | None = None
) -> list[str]:
    """As `write`, of an `Observation`."""
    from ut_keras.visualize import html_page

    os.makedirs(directory, exist_ok=True)
    check_is_free(directory)
    path = os.path.join(directory, PAGE)
    with whole_file.writing(path) as file:
        file.write(html_page.render(seen, about))
    paths = [path]
    if has_matplotlib():
        paths += _matplotlib_module("figures").save_all(seen, directory)
    return paths


def check_is_free(directory: str) -> None:
    """UsageError if a folder has files of the names that are written, and they are not ours."""
    from ut_keras.visualize import html_page

    page = os.path.join(directory, PAGE)
    file_error.check_is_file(page)
    with contextlib.suppress(OSError), open(page, "rb") as file:
        if html_page.is_ours(file.read(4096)):
            return
    names = (PAGE, "attention_*.png", "ponder_*.png")
    paths = (glob.glob(os.path.join(glob.escape(directory), name)) for name in names)
    if foreign := next(itertools.chain(*paths), None):
        raise UsageError(
            "The folder for pictures must have none but those of ut-visualize. Received: "
            f"{foreign!r}, which is left as it is."
        )


def has_matplotlib() -> bool:
    """Whether figures can be drawn; loads nothing."""
    return importlib.util.find_spec("matplotlib") is not None


def _matplotlib_module(name):
    if not has_matplotlib():
        raise ImportError(MATPLOTLIB_MISSING)
    return importlib.import_module(f"ut_keras.visualize.{name}")
