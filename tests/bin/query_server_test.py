import http.client
import json
import shutil
import socket
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf

from tests import export_models
from tests.bin import small_run
from ut_keras import export
from ut_keras.bin import flags, local_server, query_server, serving_flags

LIMITS = types.SimpleNamespace(timeout_secs=1, max_request_bytes=600, max_text_bytes=40)


def _upper(texts):
    """Stands for an export: beams of the text in capitals, and itself."""
    if b"wait" in texts:
        raise local_server.Refusal(504, "An answer takes more than 2 s.")
    outputs = np.array([[text.upper(), text] for text in texts], dtype=object)
    return {"outputs": outputs, "scores": np.array([[-0.25, -1.5]] * len(texts), np.float32)}


@pytest.fixture
def serving():
    """Function (export) -> "host:port" of a server, which ends with the test."""
    servers = []

    def start(answer=_upper, **limits):
        limits = types.SimpleNamespace(**{**vars(LIMITS), **limits})
        server = local_server.Server(("127.0.0.1", 0), "shout", answer, limits)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _post(address, body, path="/v1/models/shout:predict", headers=()):
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request("POST", path, body, dict(headers))
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def _main(*argv):
    return query_server.main(list(argv))


def test_asks_once(serving, capsys):
    address = serving()
    known = [f"--server=http://{address}/", "--servable_name=shout"]
    assert _main(*known, "--inputs_once=so \u00e9", "--problem=x", "--data_dir=y") == 0
    shown = "\nInput:\nso \u00e9\n\nOutput (Scores [-0.250,-1.500]):\nSO \u00e9\nso \u00e9\n"
    assert capsys.readouterr().out == shown


def test_asks_what_is_typed(serving, capsys, monkeypatch):
    lines = iter(["one", "w" * 50, "two"])

    def typed(prompt):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    assert _main(f"--server={serving()}", "--servable_name=shout") == 0
    shown = capsys.readouterr()
    assert "ONE" in shown.out and "TWO" in shown.out
    assert "status 413" in shown.err and "at most 40 bytes" in shown.err


def test_no_server_and_other_servers(serving, capsys):
    def error(*argv):
        return small_run.error(capsys, query_server.main, list(argv))

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    ask = ["--servable_name=shout", "--inputs_once=x"]
    assert "must be the REST API" in error(f"--server={nobody}", *ask)
    assert "must be the REST API" in error("--server=127.0.0.1:x", *ask)
    assert "must be host:port" in error("--server=https://localhost:1", *ask)
    assert "must be host:port" in error("--server=localhost:1/v1/models", *ask)
    assert "status 404" in error(
        f"--server={serving()}", "--servable_name=a/b c", "--inputs_once=x"
    )
    assert "status 504" in error(
        f"--server={serving()}", "--servable_name=shout", "--inputs_once=wait"
    )
    assert "port must be from 1 to 65535" in error("--server=localhost:99999", *ask)
    assert "must be the REST API" in error(f"--server={'x' * 70}:1", *ask)
    assert "--server must be given" in error("--servable_name=shout")
    assert "--servable_name must be given" in error("--server=localhost:1")
    assert "timeout_secs must be at least 1" in error("--timeout_secs=0", *ask)
    assert "Cloud ML" in error("--cloud_mlengine_model_name=x")
    assert "must be an export" in error("--serve_dir=/nowhere")
    assert "--serve_dir serves" in error("--serve_dir=/nowhere", "--server=x")


def test_what_cannot_be_served_is_told_before(tmp_path, capsys, monkeypatch):
    def error(name, *argv):
        argv = [f"--serve_dir={tmp_path / name}", *argv]
        return small_run.error(capsys, query_server.main, argv)

    class Sums(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "inputs")])
        def sums(self, inputs):
            return {"outputs": inputs + self.weights, "scores": inputs}

    module = Sums()
    module.weights = tf.Variable([1.0])
    tf.saved_model.save(module, str(tmp_path / "other"), module.sums)
    for name in ("empty", "garbage"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").write_bytes(b"garbage" if name == "garbage" else b"")
    shutil.copytree(tmp_path / "other", tmp_path / "torn")
    (tmp_path / "torn/variables/variables.data-00000-of-00001").write_bytes(b"x")
    for name in ("empty", "garbage", "torn"):
        line = error(name, "--port=0")
        assert "must be an export that can be loaded. Received: " in line and name in line
        assert "no file name" not in line and "Graph execution" not in line
    line = error("other", "--port=0")
    assert "must be an export of ut-exporter" in line and "serving_default" in line
    # Before TensorFlow is loaded.
    monkeypatch.setattr(local_server.command, "load_tensorflow", None)
    for argv in (["--port=99999"], ["--port=-1"], ["--host=no-such-host.invalid"]):
        assert "--host and --port must be free to listen on" in error("other", *argv)
    assert "--host must be an address" in error("other", "--host=")


def test_listens_on_loopback_unless_told_otherwise():
    args = flags.parse(serving_flags.QUERY_SERVER, ["--serve_dir=x"], "", "")
    assert args.host == "127.0.0.1"
    assert flags.parse(serving_flags.QUERY_SERVER, [], "", "").serve_dir is None


def test_answers_as_tensorflow_serving(serving):
    address = serving()
    texts = ["so", {"b64": "/yA="}, {"inputs": "cool"}, {"inputs": {"b64": "eA=="}}, "\ud800"]
    status, answer = _post(address, json.dumps({"instances": texts}))
    assert status == 200
    outputs = [row["outputs"][0] for row in answer["predictions"]]
    assert outputs == ["SO", "\ufffd ", "COOL", "X", "?"]
    assert answer["predictions"][0]["scores"] == [-0.25, -1.5]
    assert _post(address, '{"instances": []}') == (200, {"predictions": []})
    connection = http.client.HTTPConnection(address)
    connection.request("GET", "/v1/models/shout")
    assert json.loads(connection.getresponse().read())["model_version_status"]
    connection.close()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"[" * 590, 400),
        (b'{"instances": "text"}', 200),  # its letters: a string is a list of strings
        (b'{"instances": [7]}', 400),
        (b'{"instances": [{"b64": "?"}]}', 400),
        (b'{"instances": [{"b64": 7}]}', 400),
        (b'{"instances": [{"inputs": {"inputs": "x"}}]}', 400),
        (b'{"instances": ["x"], "signature_name": "ids"}', 400),
        (b'{"instances": ["' + b"x" * 41 + b'"]}', 413),
        (b'{"instances": ["' + b"x" * 40 + b'"' + b', ""' * 8 + b"]}", 413),
        (b'{"instances": ["' + b"x" * 900 + b'"]}', 413),
    ],
)
def test_what_it_refuses(serving, body, status):
    address = serving()
    found, answer = _post(address, body)
    assert found == status
    if status != 200:
        assert len(answer["error"]) < 250 and "Traceback" not in answer["error"]
    assert _post(address, '{"instances": ["x"]}')[0] == 200


def test_sizes_that_are_none(serving):
    address = serving()
    for length in ("-1", "x", "9" * 30):
        status, _ = _raw(
            address, f"POST /v1/models/shout:predict HTTP/1.0\r\nContent-Length: {length}\r\n\r\n"
        )
        assert status in (411, 413)
    status, _ = _raw(address, "POST /v1/models/shout:predict HTTP/1.0\r\n\r\n")
    assert status == 411
    assert _raw(address, "DELETE / HTTP/1.0\r\n\r\n")[0] == 501


def _raw(address, text):
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(text.encode())
        client.shutdown(socket.SHUT_WR)
        answer = client.makefile("rb").read()
    return int(answer.split()[1]) if answer else None, answer


def test_a_client_that_says_nothing_is_hung_up_on(serving):
    host, _, port = serving().partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"POST /v1/models/shout:predict HTTP/1.0\r\nContent-Length: 9\r\n\r\n{")
        assert client.recv(1) == b""


def test_a_client_that_dribbles_is_hung_up_on(serving):
    host, _, port = serving().partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(b"GET / HTTP/1.0\r\n")
        with pytest.raises(OSError):
            for _ in range(60):
                client.sendall(b"X: y\r\n")
                time.sleep(0.2)
    assert _post(f"{host}:{port}", '{"instances": ["x"]}')[0] == 200


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("export") / "1")
    model, encoders = export_models.build("bytes")
    export.export_saved_model(model, encoders, directory, **export_models.SEARCH)
    return directory


def test_serves_an_export(serving, exported):
    address = serving(local_server.Export(exported, 60), timeout_secs=60)
    answers = query_server.predict(address, "shout", export_models.TEXTS, 60)
    wanted = export_models.expected("bytes", export_models.TEXTS)
    assert [answer["outputs"] for answer in answers] == [written for written, _ in wanted]
    for answer, (_, scores) in zip(answers, wanted, strict=True):
        assert answer["scores"] == pytest.approx(scores, abs=1e-5)


def test_a_search_that_takes_too_long_is_stopped(tmp_path):
    model, encoders = export_models.build("prompts")
    directory = str(tmp_path / "1")
    endless = {"beam_size": 1, "decode_length": 10**6, "min_length": 10**6}
    export.export_saved_model(model, encoders, directory, **endless)
    served = local_server.Export(directory, 1)
    for _ in range(3):  # more often than searches may run at a time
        with pytest.raises(local_server.Refusal, match="more than 1 s"):
            served([b"so"])
