import concurrent.futures
import contextlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import tensorflow as tf

import hparams
from tests.bin import small_run
from tests.inference import export_models
from ut_keras import export, models
from ut_keras.bin import flags, query_server, serving_flags
from ut_keras.inference import local_server, served_export

LIMITS = types.SimpleNamespace(
    timeout_secs=1, max_request_bytes=600, max_text_bytes=40, max_texts=20, max_positions=1000
)


def _upper(texts):
    """Stands for an export: beams of the text in capitals, and itself."""
    if b"wait" in texts:
        raise served_export.Refusal(504, "An answer takes more than 2 s.")
    outputs = np.array([[text.upper(), text] for text in texts], dtype=object)
    return {"outputs": outputs, "scores": np.array([[-0.25, -1.5]] * len(texts), np.float32)}


def _limits(**changed):
    return types.SimpleNamespace(**{**vars(LIMITS), **changed})


@contextlib.contextmanager
def _serving(answer=_upper, **limits):
    """Context with "host:port" of a server of a function."""
    with local_server.listening("127.0.0.1", 0) as listener:
        server = local_server.server(local_server.App("shout", answer, _limits(**limits)))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def address():
    """ "host:port" of a server that shouts."""
    with _serving() as address:
        yield address


def _post(address, body, path="/v1/models/shout:predict", headers=()):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", path, body, dict(headers))
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def _main(*argv):
    return query_server.main(list(argv))


def test_asks_once(address, capsys):
    known = [f"--server=http://{address}/", "--servable_name=shout"]
    assert _main(*known, "--inputs_once=so \u00e9", "--problem=x", "--data_dir=y") == 0
    shown = "\nInput:\nso \u00e9\n\nOutput (Scores [-0.250,-1.500]):\nSO \u00e9\nso \u00e9\n"
    assert capsys.readouterr().out == shown


def test_asks_what_is_typed(address, capsys, monkeypatch):
    lines = iter(["one", "w" * 50, "two"])

    def typed(prompt):
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    assert _main(f"--server={address}", "--servable_name=shout") == 0
    shown = capsys.readouterr()
    assert "ONE" in shown.out and "TWO" in shown.out
    assert "status 413" in shown.err and "at most 40 bytes" in shown.err


def test_no_server_and_other_servers(address, capsys):
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
    assert "status 404" in error(f"--server={address}", "--servable_name=a/b c", "--inputs_once=x")
    assert "status 504" in error(
        f"--server={address}", "--servable_name=shout", "--inputs_once=wait"
    )
    assert "port must be from 1 to 65535" in error("--server=localhost:99999", *ask)
    assert "must be the REST API" in error(f"--server={'x' * 70}:1", *ask)
    assert "--server must be given" in error("--servable_name=shout")
    assert "--servable_name must be given" in error("--server=localhost:1")
    assert "timeout_secs must be at least 1" in error("--timeout_secs=0", *ask)
    assert "Cloud ML" in error("--cloud_mlengine_model_name=x")
    assert "must be an export" in error("--serve_dir=/nowhere")
    assert "--serve_dir serves" in error("--serve_dir=/nowhere", "--server=x")


def test_the_newest_export_is_served(tmp_path):
    """As ut-exporter numbers them; what is half written has no saved_model.pb."""
    for name in ("9", "10", "11", "temp-12", "notes"):
        (tmp_path / name).mkdir()
        if name != "11":
            (tmp_path / name / "saved_model.pb").touch()
    assert local_server.newest_export(str(tmp_path)) == str(tmp_path / "10")
    assert local_server.newest_export(str(tmp_path / "9")) == str(tmp_path / "9")
    with pytest.raises(flags.UsageError, match="or one with exports"):
        local_server.newest_export(str(tmp_path / "11"))


@contextlib.contextmanager
def _dripping(before):
    """Context with "host:port" of a server that says this, and then a byte now and again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def drip():
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                client.sendall(before)
                while not over.wait(0.05):
                    client.sendall(b" ")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_a_server_that_drips_is_not_waited_for(before):
    late = pytest.raises(flags.UsageError, match="TimeoutError no answer within 0.2 s")
    with _dripping(before) as address, late:
        query_server.predict(address, "shout", ["x"], 0.2)


def test_an_address_that_is_not_found_in_time(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: over.wait(30))
    with pytest.raises(flags.UsageError, match="no answer within 0.05 s"):
        query_server.predict("nowhere.invalid:80", "shout", ["x"], 0.05)
    over.set()


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
    monkeypatch.setattr(query_server.command, "load_tensorflow", None)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "uvicorn", None)
        assert "pip install 'ut_keras[serve]'" in error("other")
    for argv in (["--port=99999"], ["--port=-1"], ["--host=no-such-host.invalid"]):
        assert "--host and --port must be free to listen on" in error("other", *argv)
    assert "--host must be an address" in error("other", "--host=")


def test_listens_on_loopback_unless_told_otherwise():
    args = flags.parse(serving_flags.QUERY_SERVER, ["--serve_dir=x"], "", "")
    assert args.host == "127.0.0.1"
    assert flags.parse(serving_flags.QUERY_SERVER, [], "", "").serve_dir is None


def test_answers_as_tensorflow_serving(address):
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
        (b'{"instances": "text"}', 400),
        (b'{"instances": {"b64": "eA=="}}', 400),
        (b'{"instances": [7]}', 400),
        (b'{"instances": [{"b64": "?"}]}', 400),
        (b'{"instances": [{"b64": 7}]}', 400),
        (b'{"instances": [{"inputs": {"inputs": "x"}}]}', 400),
        (b'{"instances": ["x"], "signature_name": "ids"}', 400),
        (b'{"instances": ["' + b"x" * 41 + b'"]}', 413),
        (b'{"instances": ["' + b"x" * 40 + b'"' + b', ""' * 8 + b"]}", 413),
        (b'{"instances": [' + b'"",' * 20 + b'""]}', 413),
        (b'{"instances": ["' + b"x" * 900 + b'"]}', 413),
        (b"x" * 2**22, 413),  # more than the sockets hold: read, so that the client can listen
    ],
)
def test_what_it_refuses(address, body, status):
    found, answer = _post(address, body)
    assert found == status
    if status != 200:
        assert len(answer["error"]) < 250 and "Traceback" not in answer["error"]
    assert _post(address, '{"instances": ["x"]}')[0] == 200


def _raw(address, text):
    """(status, answer) for bytes after which the client says no more."""
    with _connected(address) as client:
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        answer = client.makefile("rb").read()
    return int(answer.split()[1]), answer


def _connected(address):
    host, _, port = address.partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def _predict(rest):
    return b"POST /v1/models/shout:predict HTTP/1.1\r\nHost: x\r\n" + rest


def test_sizes_that_are_none(address):
    body = b'{"instances": ["x"]}'
    for length in (b"-1", b"x", b"9" * 30):
        said = _predict(b"Content-Length: " + length + b"\r\n\r\n" + body)
        assert _raw(address, said)[0] == 400
    # Shorter than it says, and without saying it.
    assert _raw(address, _predict(b"\r\n"))[0] == 400
    status, answer = _raw(address, _predict(b"Content-Length: 99\r\n\r\n" + body))
    assert status == 400 and b"must have its Content-Length. Received: 99, 20 bytes" in answer
    assert _raw(address, _predict(b"Content-Length: 20\r\n\r\n" + body))[0] == 200
    chunked = b"Transfer-Encoding: chunked\r\n\r\n14\r\n" + body + b"\r\n0\r\n\r\n"
    assert _raw(address, _predict(chunked))[0] == 400
    assert _raw(address, b"DELETE / HTTP/1.0\r\n\r\n")[0] == 404
    assert _raw(address, b"\0\xff\r\n\r\n")[0] == 400


def test_a_client_that_says_nothing_is_hung_up_on(address):
    with contextlib.ExitStack() as slow:
        clients = [slow.enter_context(_connected(address)) for _ in range(3)]
        for client, said in zip(clients, (b"", b"GET / HT", _predict(b"X: y\r\n")), strict=True):
            client.sendall(said)
        assert [client.recv(1) for client in clients] == [b""] * 3


def test_a_client_that_dribbles_is_hung_up_on(address):
    with _connected(address) as client, pytest.raises(OSError):
        client.sendall(b"GET / HTTP/1.0\r\n")
        for _ in range(60):
            client.sendall(b"X: y\r\n")
            time.sleep(0.2)


def test_a_body_that_does_not_come_is_told(address):
    with _connected(address) as client:
        client.sendall(_predict(b"Content-Length: 9\r\n\r\n{"))
        assert b" 408 " in client.makefile("rb").readline()


def test_slow_clients_block_nobody(address):
    """As many as were served at all before; they hold nothing that another one needs."""
    with contextlib.ExitStack() as slow:
        clients = [slow.enter_context(_connected(address)) for _ in range(50)]
        for number, client in enumerate(clients):
            client.sendall(_predict(b"Content-Length: 9\r\n\r\n{")[: 20 * number + 1])
        assert _post(address, '{"instances": ["x"]}')[0] == 200


def test_too_many_are_told_so(monkeypatch):
    monkeypatch.setattr(local_server, "_CONNECTIONS", 4)
    with _serving(timeout_secs=20) as address, contextlib.ExitStack() as slow:
        for _ in range(4):
            slow.enter_context(_connected(address))
        status, _ = _raw(address, b"GET /v1/models/shout HTTP/1.0\r\n\r\n")
        assert status == 503
        for _ in range(4):
            slow.enter_context(_connected(address))
        with _connected(address) as client:  # and hung up on where they only fill the memory
            assert client.recv(1) == b""


def test_a_model_that_is_busy(caplog):
    going = threading.Event()

    def answer(texts):
        going.wait(30)
        return _upper(texts)

    body = '{"instances": ["x"]}'
    with _serving(answer) as address, concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = [pool.submit(_post, address, body) for _ in range(3)]
        done, _ = concurrent.futures.wait(waiting, return_when="FIRST_COMPLETED")
        assert done.pop().result() == (503, {"error": "The server is busy."})
        going.set()
        assert sorted(future.result()[0] for future in waiting) == [200, 200, 503]
    assert "503: The server is busy." in caplog.text


def test_a_fault_of_ours_is_logged(caplog):
    def answer(texts):
        raise ZeroDivisionError("a fault")

    with _serving(answer) as address:
        status, shown = _raw(address, _predict(b'Content-Length: 20\r\n\r\n{"instances": ["x"]}'))
    assert status == 500 and b"fault" not in shown
    assert "ZeroDivisionError: a fault" in caplog.text


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("export") / "1")
    model, encoders = export_models.build("bytes")
    export.export_saved_model(model, encoders, directory, **export_models.SEARCH)
    return directory


def test_serves_an_export(exported):
    limits = _limits(timeout_secs=60)
    with _serving(served_export.Export(exported, limits), timeout_secs=60) as address:
        answers = query_server.predict(address, "shout", export_models.TEXTS, 60)
        alone = [query_server.predict(address, "shout", [t], 60)[0] for t in export_models.TEXTS]
    assert [answer["outputs"] for answer in alone] == [answer["outputs"] for answer in answers]
    wanted = export_models.expected("bytes", export_models.TEXTS)
    assert [answer["outputs"] for answer in answers] == [written for written, _ in wanted]
    for answer, (_, scores) in zip(answers, wanted, strict=True):
        assert answer["scores"] == pytest.approx(scores, abs=1e-5)


def test_positions_are_bounded_before_anything_is_searched(exported, monkeypatch):
    served = served_export.Export(exported, _limits(timeout_secs=60, max_positions=99))
    served([b"so"] * 3)  # x 3 beams x (2 bytes + EOS + 6 more) = 81
    session = served._session.run
    ran = []
    monkeypatch.setattr(served._session, "run", lambda *a, **k: ran.append(a) or session(*a, **k))
    with pytest.raises(served_export.Refusal, match="must be at most 99. Received: 108") as refusal:
        served([b"so"] * 4)
    assert refusal.value.status == 413
    with pytest.raises(served_export.Refusal, match="at most 40 symbols .* Received: 41."):
        served([b"x" * 40])
    assert len(ran) == 2 and all(set(outputs) == {"lengths", "positions"} for outputs, _ in ran)


def _peak(process):
    """The most memory that a process had at a time, in MB."""
    with open(f"/proc/{process.pid}/status") as file:
        [line] = [line for line in file if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1000


@pytest.mark.slow
def test_memory_is_bounded_under_the_largest_requests(tmp_path):
    """16,000 texts of one byte took 11 GB; those that are answered take what the limits allow."""
    encoders, specs = export_models.features("bytes")
    overrides = "hidden_size=128,num_hidden_layers=2,batch_size=8"
    model = models.from_specs("transformer", hparams.get("transformer_tiny", overrides), specs)
    directory = str(tmp_path / "1")
    export.export_saved_model(model, encoders, directory, beam_size=4, decode_length=40)
    few, many = ["x" * 200] * 33, ["x"] * 64  # 31,812 and 10,752 positions of 32,768
    refused = [["x"] * 16_000, ["x" * 2048] * 8, ["x" * 300] * 40, ["x"] * 65]
    with _command(directory, "--timeout_secs=300") as (process, address):
        before = _peak(process)
        for texts in refused:
            status, answer = _post(address, json.dumps({"instances": texts}))
            assert status == 413, answer
        assert _peak(process) < before + 100
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = [
                pool.submit(query_server.predict, address, "shout", texts, 600)
                for texts in (few, few, many)
            ]
            assert [len(future.result()) for future in asked] == [33, 33, 64]
        # 2 at a time; a position is 2 layers x keys and values of 128 floats, held and reordered.
        assert _peak(process) < before + 1000


@pytest.mark.slow
def test_a_search_that_takes_too_long_is_stopped(tmp_path):
    model, encoders = export_models.build("prompts")
    directory = str(tmp_path / "1")
    endless = {"beam_size": 1, "decode_length": 10**6, "min_length": 10**6}
    export.export_saved_model(model, encoders, directory, **endless)
    served = served_export.Export(directory, _limits(max_positions=10**7))
    for _ in range(3):  # more often than searches may run at a time
        with pytest.raises(served_export.Refusal, match="more than 1 s"):
            served([b"so"])


@contextlib.contextmanager
def _command(directory, *argv):
    """Context with the process of the command that serves, and "host:port"."""
    command = [sys.executable, "-m", "ut_keras.bin.query_server", f"--serve_dir={directory}"]
    with subprocess.Popen(
        [*command, "--port=0", "--servable_name=shout", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            where = process.stdout.readline().strip().partition("http://")[2]
            yield process, where.partition("/")[0]
        finally:
            process.kill()


def test_a_signal_ends_it_in_a_line(exported):
    with _command(exported, "--timeout_secs=60") as (process, address):
        assert query_server.predict(address, "shout", ["so"], 60)[0]["outputs"]
        with _connected(address):  # which it does not wait for
            process.send_signal(signal.SIGTERM)
            shown = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert shown == ("", "SIGTERM: stopped; what was not saved before is lost.\n")
