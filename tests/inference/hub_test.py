import hashlib
import http.server
import json
import os
import threading
import time

import huggingface_hub
import huggingface_hub.constants
import numpy as np
import pytest

import ut_keras
from ut_keras.errors import DataError, UsageError
from ut_keras.inference import hub

COMMIT = "0123456789" * 4
TEXTS = ["Two dogs are playing."]


class _Handler(http.server.BaseHTTPRequestHandler):
    """A server that responds like the hub for user/name at the revisions main and COMMIT."""

    def do_HEAD(self):
        self._answer(head=True)

    def do_GET(self):
        self._answer()

    def _answer(self, head=False):
        self.server.asked.append(self.path)
        path, files = self.path.split("?")[0], self.server.files
        headers, content, status = {}, b"", 200
        if path in (f"/api/models/user/name/revision/{name}" for name in ("main", COMMIT)):
            siblings = [{"rfilename": name} for name in files]
            content = {"id": "user/name", "sha": COMMIT, "siblings": siblings}
        elif path == f"/api/models/user/name/tree/{COMMIT}":
            content = [
                {"type": "file", "path": name, "size": len(data), "oid": _etag(data)}
                for name, data in files.items()
            ]
        elif path.startswith(f"/user/name/resolve/{COMMIT}/") and path.split("/")[-1] in files:
            content = files[path.split("/")[-1]]
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_etag(content)}"'}
        else:
            status, headers = 404, {"X-Error-Code": "RepoNotFound"}
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if not head:
            self.wfile.write(content[: self.server.longest])

    def log_message(self, *args):
        pass


def _etag(content):
    return hashlib.sha1(content).hexdigest()


@pytest.fixture(scope="module")
def run():
    return ut_keras.load("multi30k_ende")


@pytest.fixture
def server(run, tmp_path, monkeypatch):
    """Start a hub that contains user/name, and let the client use an empty cache."""
    run.save(tmp_path / "run")
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    made.asked, made.longest = [], None
    made.files = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    made.files["evil.py"] = b"raise SystemExit"
    threading.Thread(target=made.serve_forever, daemon=True).start()
    constants, address = huggingface_hub.constants, f"http://127.0.0.1:{made.server_port}"
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield made
    made.shutdown()
    made.server_close()


def _assert_same(loaded, run):
    for got, want in zip(loaded.model.weights, run.model.weights, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=want.path)


def _offline(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def test_load_fetches_only_files_of_save(server, run, monkeypatch, tmp_path):
    loaded = ut_keras.load("hf://user/name")
    _assert_same(loaded, run)
    for name, encoder in run.encoders.items():
        assert loaded.encoders[name].encode(TEXTS[0]) == encoder.encode(TEXTS[0])
    assert not any("evil" in path for path in server.asked)
    _assert_same(ut_keras.load(f"hf://user/name@{COMMIT}"), run)
    _offline(monkeypatch)
    _assert_same(ut_keras.load("hf://user/name"), run)


def test_load_rejects_missing_model(server, monkeypatch, tmp_path):
    with pytest.raises(DataError, match="hf://user/other.keras cannot be reached") as raised:
        ut_keras.load("hf://user/other.keras")
    assert "\n" not in str(raised.value)
    _offline(monkeypatch)
    with pytest.raises(DataError, match=f"the cache is {tmp_path}/cache"):
        ut_keras.load("hf://user/name")


def test_load_rejects_repository_without_config(server):
    server.files = {"pytorch_model.bin": b"x", "README.md": b"y"}
    with pytest.raises(DataError, match="without config.json"):
        ut_keras.load("hf://user/name")


def test_load_rejects_config_of_another_program(server):
    server.files["config.json"] = b'{"architectures": ["Bert"]}'
    with pytest.raises(DataError, match="config.json must .* Received: "):
        ut_keras.load("hf://user/name")


def test_load_rejects_interrupted_download(server, run, monkeypatch):
    """No call of `load` uses an incomplete file, even if a later call finds this file."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the client makes five attempts
    server.longest = 1000
    with pytest.raises(DataError, match="hf://user/name cannot be reached") as raised:
        ut_keras.load("hf://user/name")
    assert "\n" not in str(raised.value)
    server.longest = None
    _assert_same(ut_keras.load("hf://user/name"), run)


def test_load_rejects_truncated_weights(server):
    weights = server.files["model.safetensors"]
    server.files["model.safetensors"] = weights[: len(weights) // 2]
    with pytest.raises(DataError, match=r"model.safetensors must be .*Received: ") as raised:
        ut_keras.load("hf://user/name")
    assert "\n" not in str(raised.value)
    del server.files["model.safetensors"]
    with pytest.raises(DataError, match="model.safetensors"):
        ut_keras.load("hf://user/name@" + COMMIT)


@pytest.mark.parametrize("revision", ["", "@" + COMMIT])
@pytest.mark.parametrize("name", ["vocab.inputs.subwords", "model.safetensors"])
def test_load_names_revision_with_missing_file(server, revision, name):
    del server.files[name]
    with pytest.raises(DataError, match=f"hf://user/name{revision} must .*{name}") as raised:
        ut_keras.load("hf://user/name" + revision)
    message = str(raised.value)
    assert f"Received: revision {revision[1:] or f'main ({COMMIT})'}, which lacks" in message
    assert "--data_dir" not in message and "\n" not in message


@pytest.mark.parametrize(
    "address", ["hf://", "hf://user", "hf://a/b/c", "hf://../x@", "hf://a/b@ c"]
)
def test_load_rejects_invalid_address(address):
    with pytest.raises(UsageError, match="must be hf://user/name"):
        ut_keras.load(address)


def test_push_makes_one_commit_with_card(run, monkeypatch):
    done = {}

    class Api:
        def __init__(self, library_name):
            assert library_name == "ut_keras"

        def create_repo(self, name, private, exist_ok):
            done["repository"] = name, private, exist_ok

        def file_exists(self, repo_id, filename):
            return False

        def upload_folder(self, repo_id, folder_path):
            done["files"] = sorted(os.listdir(folder_path))
            with open(os.path.join(folder_path, "README.md"), encoding="utf-8") as file:
                done["card"] = file.read()
            return f"https://hub/{repo_id}/commit/1"

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    assert run.push("hf://user/name", private=True) == "https://hub/user/name/commit/1"
    assert done["repository"] == ("user/name", True, True)
    run.push("hf://user/name")
    assert done["repository"] == ("user/name", None, True)  # None selects the owner's default
    names = ["README.md", "config.json", "model.safetensors", "vocab.inputs.subwords"]
    assert done["files"] == names
    assert done["card"].startswith("---\nlibrary_name: ut_keras") and "hf://user" in done["card"]


def test_push_rejects_revision_and_reports_hub_error(run, server):
    with pytest.raises(UsageError, match="push .* Received: .*'v1'"):
        run.push("hf://user/name@v1")
    with pytest.raises(DataError, match="gives the token"):
        run.push("hf://user/name")


def test_load_requires_huggingface_hub(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match="pip install"):
        hub.fetch("hf://user/name")
