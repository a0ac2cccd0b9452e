import json
import re

import numpy as np
import pytest

from tests.visualize import browser
from ut_keras.visualize import html_page
from ut_keras.visualize.observation import Map, Observation, Place, PonderTimes

EVIL = '</script><script>console.log("x")</script><img src=x onerror=console.log("y")>'
QUERIES, KEYS = ["a", EVIL, "$&'\u2028\u202e&lt;"], ["é", EVIL]


def _seen():
    """Decimal numbers: step, head, query, key of a weight."""
    numbers = np.arange(1, 1 + 2 * 2 * 3 * 2) / 100
    weights = numbers.reshape(2, 2, 3, 2).astype("float32")
    places = (Place("1", 1), Place("2", 1))
    memory = Map("memory", places, weights, QUERIES, KEYS, np.array([1.0, 2.0, 2.0]))
    story = Map("encoder", places[:1], weights[:1, :, :2], KEYS, KEYS, None)
    ponder = {"decoder": PonderTimes(QUERIES, np.array([1.0, 2.0, 3.0], "float32"))}
    return Observation({"memory": memory, "encoder": story}, ponder, EVIL, "out", False)


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "index.html"
    path.write_text(html_page.render(_seen(), {"model": EVIL}), encoding="utf-8")
    return path


def _data(text):
    [found] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return json.loads(found)


def test_text_stays_text(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == 2 and "<img" not in text
    data = _data(text)
    assert data["maps"][0]["queries"] == QUERIES
    assert dict(data["about"]) == {"model": EVIL, "input": EVIL, "output": "out"}


def test_nothing_is_loaded_from_elsewhere(page):
    text = page.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    text = re.sub(r'<script type="application/json".*?</script>', "", text)
    assert "//" not in re.sub(r"^\s*//.*$|;  // .*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"\b(src|href|url|import|fetch)\b\s*[=(]", text)
    assert "default-src 'none'" in text and "script-src 'sha256-" in text


# In a browser.


def _expected(place, head, queries=QUERIES):
    weights = _seen().maps["memory"].weights[place, head]
    return [
        (f"{query} → {key}", f"{weights[row, column]:.4f}")
        for row, query in enumerate(queries)
        for column, key in enumerate(KEYS)
    ]


def test_page_draws_what_is_picked_without_errors(page):
    first = browser.show(page)
    assert first.console == []
    assert 'data-drawn="yes"' in first.dom
    # Both heads of the first step, and the ponder times.
    assert first.hints()[:12] == _expected(0, 0) + _expected(0, 1)
    assert [value for _, value in first.hints()[12:]] == ["1 steps", "2 steps", "3 steps"]
    assert first.captions()[:2] == ["head 1", "head 2"]
    assert 'aria-label="colours from weight 0 to weight 1"' in first.dom
    cells = re.findall(r'<rect class="cell"[^>]* width="(\d+)"', first.dom)
    assert len(cells) == 12 and min(map(int, cells)) >= 12  # pixels

    second = browser.show(page, "kind=memory&step=2&head=2")
    assert second.console == []
    assert second.hints()[:6] == _expected(1, 1)
    assert len(second.hints()) == 6 + 3
    assert "Grey: halted before this step (1 of 3)." in second.dom


def test_mean_bars_and_other_kinds(page):
    mean = browser.show(page, "step=1&head=mean&view=bars&query=1")
    values = [float(value) for _, value in mean.hints()[:2]]
    np.testing.assert_allclose(values, _seen().maps["memory"].weights[0, :, 1].mean(0), atol=1e-4)
    assert 'aria-label="colours' not in mean.dom
    assert mean.captions()[0] == f"Looking from: {EVIL}"
    other = browser.show(page, "kind=encoder&view=bars&query=0")
    assert [name for name, _ in other.hints()[:2]] == ["head 1, é", "head 2, é"]
    assert mean.console == other.console == []


def test_nonsense_behind_the_address_is_left_out(page):
    shown = browser.show(page, f"kind={EVIL}&step=99&head=-1&query=x&view=<b>")
    assert shown.console == []
    assert shown.hints()[:12] == _expected(0, 0) + _expected(0, 1)


def test_page_without_attention(tmp_path):
    path = tmp_path / "index.html"
    path.write_text(html_page.render(_seen()._replace(maps={})), encoding="utf-8")
    shown = browser.show(path)
    assert shown.console == [] and len(shown.hints()) == 3


def test_the_browser_tells_of_errors(tmp_path):
    """The checks above can fail."""
    path = tmp_path / "index.html"
    path.write_text("<script>throw new Error('oh')</script>", encoding="utf-8")
    assert "oh" in browser.show(path).console[0]
