"""A page as a browser shows it: headless Chromium, which a test needs or is skipped."""

import html
import pathlib
import re
import shutil
import subprocess

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Shown:
    """What became of a page.

    Fields:
        dom: str, the document after its scripts ran.
        console: list of str, all that was written to the console: errors, and what its content
            policy refused.
    """

    def __init__(self, dom, log):
        self.dom = dom
        self.console = re.findall(r"CONSOLE:?\(?\d+\)?\] .*", log)

    def hints(self):
        """What the shapes of the pictures say: {"a → b": "0.5", …}, in order."""
        found = re.findall(r"<title>([^<]*)</title></rect>", self.dom)
        return [tuple(html.unescape(text).rsplit(": ", 1)) for text in found]

    def captions(self):
        found = re.findall(r"<figcaption>([^<]*)", self.dom)
        return [html.unescape(text) for text in found if text]


def show(path, picked=""):
    """Opens a file, with what is picked behind the "#"."""
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("no Chromium to show the page in: apt-get install chromium")
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
        f"--user-data-dir={pathlib.Path(path).parent / 'browser'}",
        "--dump-dom",
        f"{pathlib.Path(path).absolute().as_uri()}#{picked}",
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return Shown(run.stdout, run.stderr)
