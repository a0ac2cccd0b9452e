import argparse
import glob
import os
import re
import sys

import pytest

FOLDER = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "benchmarks"))


@pytest.fixture
def worker(benchmark_module):
    return benchmark_module("worker")


def test_path_of_a_checkout_is_accepted(worker):
    checkout = os.path.dirname(FOLDER)
    assert worker.checkout_path(checkout) == checkout


def test_folder_without_ut_keras_is_rejected(worker, tmp_path):
    """Without this check, a benchmark would compare the installed ut_keras with itself."""
    with pytest.raises(argparse.ArgumentTypeError, match=f"Received: {re.escape(str(tmp_path))}"):
        worker.checkout_path(str(tmp_path))


def test_every_option_for_a_checkout_checks_it():
    found = []
    for path in glob.glob(os.path.join(FOLDER, "*.py")):
        with open(path, encoding="utf-8") as file:
            source = file.read()
        found += re.findall(r"add_argument\(([^()]*metavar=\"CHECKOUT\"[^()]*)\)", source)
    assert len(found) >= 2
    for option in found:
        assert "type=checkout_path" in option or "SUPPRESS" in option, option


def test_error_shows_the_last_messages_of_a_failed_worker(worker):
    failing = worker.Worker([sys.executable, "-c", "raise SystemExit('no tensor')"])
    with pytest.raises(SystemExit, match=r"(?s)exit code 1 of .*python.*\nno tensor$"):
        failing.request("step")


def test_result_follows_many_messages(worker):
    """With a pipe for the messages, the worker would wait until the pipe is read."""
    program = "import sys; sys.stderr.write('x' * 2**20); input(); print('RESULT 3')"
    working = worker.Worker([sys.executable, "-c", program])
    assert working.request("step") == 3
    working.close()
