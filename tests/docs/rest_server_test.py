"""Tests of the servers in docs/examples, with HTTP requests and with ut-query-server."""

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import pytest

from ut_keras import export, load
from ut_keras.bin import query_server

EXAMPLES = os.path.join(os.path.dirname(__file__), "../../docs/examples")
TEXTS = ["3 1 4 1 5", "2 7", ""]


@pytest.fixture(scope="module")
def run():
    return load("reverse40")


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    """Return a folder with an export of the run `reverse40`."""
    folder = tmp_path_factory.mktemp("served")
    export.export_saved_model(
        run.model, run.encoders, str(folder / "9"), beam_size=2, decode_length=2
    )
    (folder / "10.tmp").mkdir()  # this name is not a version
    return folder


@pytest.fixture(scope="module")
def address(folder):
    """Yield the "host:port" of a server with the export."""
    with _serving("rest_server.py", folder) as address:
        yield address


@contextlib.contextmanager
def _serving(script, folder, *arguments):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, os.path.join(EXAMPLES, script), str(folder), "reverse"]
    command += [f"--port={port}", *arguments]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait(server, port, log)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=60)


def _wait(server, port, log):
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if server.poll() is not None:
            log.seek(0)
            pytest.fail(log.read().decode())
        time.sleep(0.2)
    raise TimeoutError


def _post(address, body):
    return _post_bytes(address, json.dumps(body).encode())


def _post_bytes(address, body):
    request = urllib.request.Request(f"http://{address}/v1/models/reverse:predict", body)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_server_gives_the_outputs_of_the_run(address, run):
    predictions = query_server.predict(address, "reverse", TEXTS, timeout_secs=60)
    expected = run.translate(TEXTS, beam_size=2, decode_length=2)
    assert [row["outputs"][0] for row in predictions] == expected
    assert expected[0] == "5 1 4 1 3"


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="no ray: pip install 'ray[serve]'")
def test_ray_server_gives_the_outputs_of_the_run(folder, run):
    with _serving("ray_server.py", folder, "--replicas=2") as address:
        for _ in range(300):  # the port is open before the replicas have loaded the model
            with contextlib.suppress(OSError, ValueError):
                predictions = query_server.predict(address, "reverse", TEXTS, timeout_secs=60)
                break
            time.sleep(1)
        expected = run.translate(TEXTS, beam_size=2, decode_length=2)
        assert [row["outputs"][0] for row in predictions] == expected
        status, answer = _post(address, {"instances": "2 7"})
        assert status == 400 and "instances must be a list" in answer["error"]


@pytest.mark.slow
def test_server_reports_its_version_as_tensorflow_serving_does(address):
    with urllib.request.urlopen(f"http://{address}/v1/models/reverse", timeout=60) as response:
        [status] = json.load(response)["model_version_status"]
    assert (status["version"], status["state"]) == ("9", "AVAILABLE")
    assert status["status"] == {"error_code": "OK", "error_message": ""}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models/other", 404),
        ("POST", "/v1/models/other:predict", 404),
        ("GET", "/", 404),
        ("GET", "/v1/models/reverse:predict", 405),
        ("POST", "/v1/models/reverse", 405),
    ],
)
def test_server_names_its_addresses_for_other_requests(address, method, path, status):
    data = b"{}" if method == "POST" else None
    request = urllib.request.Request(f"http://{address}{path}", data)
    with pytest.raises(urllib.error.HTTPError) as found:
        urllib.request.urlopen(request, timeout=60)
    error = json.load(found.value)["error"]
    assert found.value.code == status
    assert "POST /v1/models/reverse:predict or GET /v1/models/reverse." in error
    assert error.endswith(f"Received: {method} {path}.")


@pytest.mark.slow
def test_server_prints_the_address_of_any_host_and_any_port(folder):
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 address ::1")
    command = [sys.executable, os.path.join(EXAMPLES, "rest_server.py"), str(folder), "reverse"]
    command += ["--host=::1", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = next(line for line in server.stdout if "Serving on" in line)
        finally:
            server.terminate()
    assert re.search(r"http://\[::1\]:[1-9]\d*/v1/models/reverse$", line.strip())


def _has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as listener:
        listener.bind(("::1", 0))
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("port", [0, 70000])
def test_server_names_an_address_that_is_not_free_before_loading(tmp_path, port):
    (tmp_path / "1").mkdir()  # the server does not load this version
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        command = [sys.executable, os.path.join(EXAMPLES, "rest_server.py"), str(tmp_path), "x"]
        command.append(f"--port={port or used.getsockname()[1]}")
        found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2 and "Loading" not in found.stdout
    assert "--host and --port must be an unused address" in found.stderr.splitlines()[-1]


@pytest.mark.slow
def test_server_takes_other_signatures_and_encodings(address):
    instances = [{"inputs": "2 7", "targets": "7 2"}, {"inputs": "2 7", "targets": "2 7"}]
    status, answer = _post(address, {"signature_name": "score", "instances": instances})
    likely, unlikely = answer["predictions"]  # no name, because the signature has one output
    assert status == 200 and unlikely < likely < 0
    status, answer = _post(address, {"instances": [{"b64": "MiA3"}]})
    assert status == 200 and answer["predictions"][0]["outputs"][0] == "7 2"


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, expected",
    [
        ([], "must be an object with instances"),
        ({}, "instances must be in the request"),
        ({"instances": [1.5]}, "inputs must be texts. Received: 1.5"),
        # TensorFlow would read one instance with two texts as two instances.
        ({"instances": [["2 7", "3"]]}, "inputs must be texts. Received: ['2 7', '3']"),
        ({"instances": [[2, 1], [1]], "signature_name": "ids"}, "Fill shorter lists with 0"),
        ({"instances": [[2.5, 1]], "signature_name": "ids"}, "inputs must be lists of ids"),
        # The search of an export has fixed options.
        ({"instances": ["2"], "beam_size": 9}, "Received: beam_size"),
        ({"instances": [{"inputs": "2", "beam_size": 9}]}, "Received: beam_size"),
        # The server must not read a str as a list of characters.
        ({"instances": "2 7"}, "instances must be a list"),
        ({"instances": ["2 7"], "signature_name": "score"}, "inputs, targets"),
        ({"instances": ["2"], "signature_name": "typo"}, "Received: 'typo'"),
        ({"instances": ["2"], "signature_name": ["ids"]}, "Received: ['ids']"),
        (
            {"instances": [{"inputs": "2 7"}], "signature_name": "score"},
            "have inputs, targets",
        ),
        ({"instances": [{"b64": 5}]}, "Received: {'b64': 5}"),
        # Python would skip a character that is not base64.
        ({"instances": [{"b64": "Mi-A3"}]}, "base64"),
        # tf.constant would convert this number to the id 5.
        ({"instances": [[2**32 + 5, 1]], "signature_name": "ids"}, "OverflowError"),
    ],
)
def test_server_rejects_invalid_requests(address, body, expected):
    status, answer = _post(address, body)
    assert status == 400 and expected in answer["error"]


@pytest.mark.slow
def test_server_rejects_deeply_nested_json(address):
    status, answer = _post_bytes(address, b"[" * 100_000)
    assert status == 400 and "RecursionError" in answer["error"]


@pytest.mark.slow
def test_server_takes_a_version_and_an_empty_batch_of_ids(folder):
    with _serving("rest_server.py", folder / "9") as address:
        for name in ("serving_default", "ids"):
            answer = _post(address, {"instances": [], "signature_name": name})
            assert answer == (200, {"predictions": []})


@pytest.mark.parametrize(
    "script, package, extra",
    [
        ("rest_server.py", "uvicorn", "'.[serve]'"),
        ("ray_server.py", "ray", "'.[serve]' 'ray[serve]'"),
    ],
)
def test_server_names_the_extra_that_is_missing(script, package, extra, tmp_path):
    reason = f"No module named '{package}'"
    (tmp_path / f"{package}.py").write_text(f'raise ModuleNotFoundError("{reason}")\n')
    command = [sys.executable, os.path.join(EXAMPLES, script), tmp_path, "x"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    (line,) = found.stderr.splitlines()
    assert found.returncode == 1
    assert line.startswith(f"error: {script} requires {package}") and reason in line
    assert line.endswith(f"run: pip install -e {extra}.")


@pytest.mark.slow
def test_server_names_a_folder_without_an_export(tmp_path):
    script = os.path.join(EXAMPLES, "rest_server.py")
    found = subprocess.run([sys.executable, script, tmp_path, "x"], capture_output=True, text=True)
    assert found.returncode == 2
    assert "folder must contain an export" in found.stderr.splitlines()[-1]
