import os
import signal
import subprocess
import sys
import time

import pytest

from ut_keras.data.writing import process_pool
from ut_keras.errors import DataError


def _square(item):
    return item**2, os.getpid()


def _fail(item):
    if item == 2:
        raise DataError("item 2 must be better.")
    return item


def _fail_in_an_unusual_way(item):
    class Local(Exception):
        pass

    raise Local("very unusual")


def _be_killed(item):
    os.kill(os.getpid(), signal.SIGKILL)


def _children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


@pytest.mark.parametrize("num_processes", [1, 2])
def test_results_are_ordered(num_processes):
    done = []
    results = process_pool.run(_square, list(range(7)), num_processes, done.append)
    assert [value for value, _ in results] == [i**2 for i in range(7)]
    assert done == list(range(7))
    pids = {pid for _, pid in results}
    assert (pids == {os.getpid()}) == (num_processes == 1)


def test_pool_accepts_no_items():
    assert process_pool.run(_square, [], 4) == []


@pytest.mark.parametrize("num_processes", [1, 2])
def test_errors_reach_the_caller(num_processes):
    with pytest.raises(DataError, match=r"^item 2 must be better\.$"):
        process_pool.run(_fail, [1, 2, 3], num_processes)


def test_unpicklable_errors_come_as_text():
    with pytest.raises(RuntimeError, match="very unusual"):
        process_pool.run(_fail_in_an_unusual_way, [1, 2], 2)


def test_killed_worker_gives_one_line():
    with pytest.raises(DataError, match="memory.*exit code -9") as error:
        process_pool.run(_be_killed, [1, 2], 2)
    assert "\n" not in str(error.value)


def test_unpicklable_functions_run_in_this_process():
    def local(item):
        return os.getpid()

    assert process_pool.run(local, [1, 2], 2) == [os.getpid()] * 2


def test_script_without_a_guard_runs_once(tmp_path):
    """The pool calls functions of a script in the process of the script.

    The worker processes must not run the script again.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "import os\n"
        "from ut_keras.data.writing import process_pool\n"
        "def mine(item): return os.getpid()\n"
        "print('runs', process_pool.run(mine, [1, 2], 2) == [os.getpid()] * 2)\n"
        "import operator\n"
        "print(process_pool.run(operator.neg, [1, 2], 2))\n"
    )
    root = os.path.join(os.path.dirname(__file__), "..", "..", "..")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "runs True\n[-1, -2]\n"


def test_workers_end_with_the_caller(tmp_path):
    """A busy worker ends even if a signal kills the caller."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from ut_keras.data.writing import process_pool\n"
        "process_pool.run(time.sleep, [100, 100], 2)\n"
    )
    root = os.path.join(os.path.dirname(__file__), "..", "..", "..")
    read, write = os.pipe()
    caller = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": root},
        stderr=write,
    )
    os.close(write)
    deadline = time.monotonic() + 60
    while len(_children(caller.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(_children(caller.pid)) == 2
    caller.kill()
    caller.wait()
    # The pipe ends only when all processes that write to it have ended.
    with os.fdopen(read, "rb") as stderr:
        stderr.read()
