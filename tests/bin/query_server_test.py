import concurrent.futures
import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from tests.bin import small_run
from tests.inference import export_models, shouting
from ut_keras import export, hparams, models
from ut_keras.bin import command_line, flags, query_server
from ut_keras.errors import UsageError
from ut_keras.inference import local_server, served_export


@pytest.fixture(scope="module")
def address():
    """ "host:port" of a server that shouts."""
    with shouting.serving() as address:
        yield address


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
    assert "must be the REST API" in error("--server=localhost\r\n:1", *ask)
    assert "must be UTF-8" in error("--server=localhost:1", "--servable_name=\udcff", ask[1])
    assert "must be UTF-8" in error("--server=localhost:1", ask[0], "--inputs_once=\ud800")
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
    with pytest.raises(UsageError, match="or one with exports"):
        local_server.newest_export(str(tmp_path / "11"))


@contextlib.contextmanager
def _dripping(before, then=b" ", every=0.05):
    """Context with "host:port" of a server that says this, and then more now and again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def drip():
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                while not client.recv(65536).endswith(b"}"):
                    pass
                client.sendall(before)
                while then and not over.wait(every):
                    client.sendall(then)

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_a_server_that_drips_is_not_waited_for(before):
    late = pytest.raises(UsageError, match="TimeoutError no answer within 0.2 s")
    with _dripping(before) as address, late:
        query_server.predict(address, "shout", ["x"], 0.2)


def _answer(**changed):
    return json.dumps({"predictions": [{"outputs": ["X"], "scores": [0.5], **changed}]})


@pytest.mark.parametrize(
    "content",
    [
        *["", "<html>", "null", "[]", '"predictions"', "[" * 100_000, '{"other": 1}', "\xff"],
        *[json.dumps({"predictions": rows}) for rows in ([], 3, [1], ["x"], [{}], None)],
        '{"predictions": [{"outputs": [], "scores": []}, {"outputs": [], "scores": []}]}',
        *[_answer(scores=scores) for scores in ([], [1, 2], ["x"], [None], [10**400], 1)],
        *[_answer(outputs=outputs) for outputs in ("X", [], [1], [["X"]], {"X": 1}, None)],
    ],
)
def test_an_answer_that_is_none(content):
    head = f"HTTP/1.0 200 OK\r\n\r\n{content}".encode("latin-1")
    wrong = pytest.raises(
        UsageError, match="must be JSON with predictions.*Received: status 200, b"
    )
    with _dripping(head, b"") as address, wrong:
        query_server.predict(address, "shout", ["x"], 60)


_HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "before, then, message",
    [
        (b"", b"", "RemoteDisconnected"),
        (b"SSH-2.0-x\x1b[2J\r\n", b"", "BadStatusLine SSH-2.0-x"),
        (_HEAD + b"Content-Length: 99\r\n\r\n{", b"", "Received: status 200, b'{'"),
        (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", b"", "IncompleteRead"),
        (_HEAD, b"X: " + b"y" * 2**16, "LineTooLong"),
        (_HEAD, b"X: y\r\n" * 100, "HTTPException got more than 100 headers"),
        (_HEAD + b"\r\n", b"[" * 2**20, "8388608 bytes at most. Received: status 200, b'"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n", b"", "Received: status 302, b''"),
    ],
)
def test_an_answer_that_is_cut_short_or_has_no_end(before, then, message):
    wrong = pytest.raises(UsageError, match=re.escape(message))
    with _dripping(before, then, 0) as address, wrong:
        query_server.predict(address, "shout", ["x"], 60)


def test_what_a_server_says_commands_no_terminal(capsys):
    content = _answer(outputs=["a\x1b[2Jb", "\ud800", "\u202ec"], scores=[1, 2, 3])
    ask = ["--servable_name=shout", "--inputs_once=x"]
    with _dripping(f"HTTP/1.0 200 OK\r\n\r\n{content}".encode(), b"") as address:
        assert _main(f"--server={address}", *ask) == 0
    assert capsys.readouterr().out.endswith("\na\\x1b[2Jb\n\\ud800\n\\u202ec\n")
    content = json.dumps({"error": "no\x1b[2J \ud800"})
    with _dripping(f"HTTP/1.0 500 No\r\n\r\n{content}".encode(), b"") as address:
        line = small_run.error(capsys, query_server.main, [f"--server={address}", *ask])
    assert line.endswith(r"refuses, status 500: no\x1b[2J \ud800")


def test_an_address_that_is_not_found_in_time(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: over.wait(30))
    with pytest.raises(UsageError, match="no answer within 0.05 s"):
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
    args = command_line.parse(flags.QUERY_SERVER, ["--serve_dir=x"], "", "")
    assert args.host == "127.0.0.1"
    assert command_line.parse(flags.QUERY_SERVER, [], "", "").serve_dir is None


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("export") / "1")
    model, encoders = export_models.build("bytes")
    export.export_saved_model(model, encoders, directory, **export_models.SEARCH)
    return directory


def test_serves_an_export(exported):
    limits = shouting.limits(timeout_secs=60)
    with shouting.serving(served_export.Export(exported, limits), timeout_secs=60) as address:
        answers = query_server.predict(address, "shout", export_models.TEXTS, 60)
        alone = [query_server.predict(address, "shout", [t], 60)[0] for t in export_models.TEXTS]
    assert [answer["outputs"] for answer in alone] == [answer["outputs"] for answer in answers]
    wanted = export_models.expected("bytes", export_models.TEXTS)
    assert [answer["outputs"] for answer in answers] == [written for written, _ in wanted]
    for answer, (_, scores) in zip(answers, wanted, strict=True):
        assert answer["scores"] == pytest.approx(scores, abs=1e-5)


def test_positions_are_bounded_before_anything_is_searched(exported, monkeypatch):
    served = served_export.Export(exported, shouting.limits(timeout_secs=60, max_positions=99))
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
            status, answer = shouting.post(address, json.dumps({"instances": texts}))
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
    served = served_export.Export(directory, shouting.limits(max_positions=10**7))
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
            line = next(line for line in process.stdout if "http://" in line)  # it loads, too
            where = line.strip().partition("http://")[2]
            yield process, where.partition("/")[0]
        finally:
            process.kill()


@pytest.mark.slow
def test_a_signal_ends_it_in_a_line(exported):
    with _command(exported, "--timeout_secs=60") as (process, address):
        assert query_server.predict(address, "shout", ["so"], 60)[0]["outputs"]
        with shouting.connected(address):  # which it does not wait for
            process.send_signal(signal.SIGTERM)
            shown = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert shown == ("", "SIGTERM: stopped.\n")
