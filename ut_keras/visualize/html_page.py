"""An observation as one HTML page: works offline, loads nothing, runs no text as code.

The page is page.html with two holes: the data, as JSON in which no "<" is left, and the hash of its
script, the only one that its content policy lets run. Weights are 16-bit integers, 65535 for 1, in
base64.
"""

import base64
import hashlib
import importlib.resources
import json
import re
from collections.abc import Mapping

import numpy as np

from ut_keras.visualize import observation
from ut_keras.visualize.observation import Observation

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def render(seen: Observation, about: Mapping[str, str] | None = None) -> str:
    """The page.

    Args:
        seen: `Observation`.
        about: dict of str, shown at the top. Optional.
    Returns:
        str.
    """
    template = importlib.resources.files(__package__).joinpath("page.html").read_text("utf-8")
    [script] = _SCRIPT.findall(template)
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    before, after = template.replace("SCRIPT_HASH", f"sha256-{digest}").split("OBSERVATION")
    return f"{before}{_json(_data(seen, about or {}))}{after}"


def is_ours(beginning: bytes) -> bool:
    """Whether a file that begins so is such a page."""
    return b"<title>Attention and ponder times</title>" in beginning


def _data(seen, about):
    shown = {**about, "input": seen.inputs, "output": seen.outputs}
    return {
        "about": [[name, str(value)] for name, value in shown.items() if value],
        "story": seen.is_story,
        "maps": [_map(found) for found in seen.maps.values()],
        "ponder": [
            {"stack": stack, "labels": labels, "times": [round(float(time), 3) for time in times]}
            for stack, (labels, times) in seen.ponder.items()
        ],
    }


def _map(found):
    weights = np.round(np.clip(found.weights, 0, 1) * 65535).astype("<u2")
    taken = found.steps_taken
    return {
        "kind": found.kind,
        "name": observation.KINDS[found.kind],
        "queries": found.queries,
        "keys": found.keys,
        "places": [list(place) for place in found.places],
        "heads": found.weights.shape[1],
        "weights": base64.b64encode(weights.tobytes()).decode("ascii"),
        "taken": None if taken is None else [float(steps) for steps in taken],
    }


def _json(data):
    """JSON that can stand in a script element: ASCII, and nothing that could end the element."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
