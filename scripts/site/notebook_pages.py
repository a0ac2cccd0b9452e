"""Converts notebooks to pages with their text, code, printed results and pictures."""

import base64
import glob
import json
import os

from excerpts import ROOT


def pages():
    """Return a dict from the path of a page or picture to its Markdown or bytes."""
    written = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "notebooks", "*.ipynb"))):
        name = os.path.basename(path).removesuffix(".ipynb")
        with open(path, encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        parts, pictures = [], {}
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(source)
                continue
            parts.append(f"```python\n{source}\n```")
            for output in cell["outputs"]:
                parts += _output(output, name, pictures)
        parts.append(f"(This page is `notebooks/{name}.ipynb`, as it ran.)")
        written[f"notebooks/{name}.md"] = "\n\n".join(parts) + "\n"
        written |= pictures
    return written


def _output(output, name, pictures):
    """Return a list with the Markdown of one result of a cell.

    If the result is a picture, the picture is added to `pictures`.
    """
    if output["output_type"] == "stream":
        return [f"```text\n{''.join(output['text']).rstrip()}\n```"]
    data = output.get("data", {})
    if "image/png" in data:
        file = f"{name}_{len(pictures)}.png"
        pictures[f"notebooks/{file}"] = base64.b64decode("".join(data["image/png"]))
        return [f"![a picture that the cell above draws]({file})"]
    if "text/plain" in data:
        return [f"```text\n{''.join(data['text/plain']).rstrip()}\n```"]
    return []
