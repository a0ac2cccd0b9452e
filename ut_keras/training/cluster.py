"""The workers of a run, as the environment variable TF_CONFIG lists them, or Slurm. Loads no
TensorFlow.

    TF_CONFIG='{"cluster": {"worker": ["host0:2222", "host1:2222"]},
                "task": {"type": "worker", "index": 0}}'

Every worker runs the same command with another index. The first, or the "chief" if there is one,
writes the files of the run.
"""

import itertools
import json
import math
import os
import re
from collections.abc import MutableMapping
from typing import Any, NamedTuple

from ut_keras.errors import UserError

_VARIABLE = "TF_CONFIG"
_TASKS = "SLURM_STEP_NUM_TASKS"
_MOST_TASKS = 10_000
_FIRST_PORT = 8888  # of the tasks of a node, as SlurmClusterResolver of TensorFlow has it
RESOLVERS = ("", "slurm", "none")


class ClusterError(UserError):
    """The environment lists no workers that can be used."""


class Cluster(NamedTuple):
    """A worker among others.

    Fields:
        workers: tuple of str, HOST:PORT of each, the chief first.
        index: int. Which of them this process is.
    """

    workers: tuple
    index: int

    @property
    def is_chief(self) -> bool:
        return self.index == 0


def from_environment(
    environment: MutableMapping[str, str] | None = None, resolver: str = ""
) -> Cluster | None:
    """Returns the `Cluster`, or None where there are no other workers.

    Args:
        environment: dict; the process's by default.
        resolver: who lists the workers. "": TF_CONFIG; "slurm": the tasks of a step of Slurm's,
            which are put into TF_CONFIG; "none": nobody, whatever the environment says.

    Raises:
        ClusterError: if TF_CONFIG is not as TensorFlow's or names what is not supported; if Slurm
            has started several tasks, and it is not said what they are to each other.
    """
    if resolver not in RESOLVERS:
        raise ClusterError(
            f"--cluster_resolver must be slurm, none or nothing. Received: {resolver!r}."
        )
    environment = os.environ if environment is None else environment
    if resolver == "none":
        environment.pop(_VARIABLE, None)  # which tf.distribute would read
        return None
    if resolver == "slurm":
        environment[_VARIABLE] = _of_slurm(environment)
    elif not environment.get(_VARIABLE) and environment.get(_TASKS, "1") != "1":
        raise ClusterError(
            "Several tasks of Slurm must be workers of one run, --cluster_resolver=slurm, or runs "
            f"of their own, each with its --output_dir, --cluster_resolver=none. "
            f"Received: {_TASKS}={environment[_TASKS]}."
        )
    text = environment.get(_VARIABLE)
    if not text:
        return None
    try:
        config = json.loads(text)
        jobs = {job: _addresses(given) for job, given in config.get("cluster", {}).items()}
        task = config.get("task", {})
        kind, index = str(task.get("type", "worker")), int(str(task.get("index", 0)))
    except ClusterError:
        raise
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ClusterError(
            f'{_VARIABLE} must be JSON like {{"cluster": {{"worker": ["host:port", …]}}, "task": '
            f'{{"type": "worker", "index": 0}}}}. Received: {text!r}.'
        ) from error
    if not jobs:
        return None
    if not set(jobs) <= {"chief", "worker"}:
        raise ClusterError(
            f'The jobs of {_VARIABLE} must be "worker" and at most one "chief": there are no '
            f"parameter servers, evaluators or masters. Received: {', '.join(jobs)}."
        )
    if len(jobs.get("chief", [])) > 1:
        raise ClusterError(f"{_VARIABLE} must have one chief. Received: {jobs['chief']}.")
    if kind not in jobs or not 0 <= index < len(jobs[kind]):
        raise ClusterError(
            f"The task of {_VARIABLE} must be one of its cluster. "
            f"Received: task {kind} {index}, cluster {jobs}."
        )
    workers = (*jobs.get("chief", []), *jobs.get("worker", []))
    if len(set(workers)) < len(workers):
        raise ClusterError(
            f"The workers of {_VARIABLE} must have an address each. Received: {', '.join(workers)}."
        )
    if len(workers) == 1:
        return None
    return Cluster(workers, index + (len(jobs.get("chief", [])) if kind == "worker" else 0))


def _of_slurm(environment):
    """TF_CONFIG of this task.

    Not by TensorFlow's resolver: it fails on what is missing, expands 10^9 nodes, and sorts node10
    before node9, while tasks are counted in the order of the list.
    """
    found: list[Any] = []
    for name, (expected, read) in _OF_A_STEP.items():
        given = environment.get(name)
        value = read(given or "", *found)
        if value is None:
            raise ClusterError(
                f"--cluster_resolver=slurm needs a step that srun started: {name} must be "
                f"{expected}. Received: {'nothing' if given is None else repr(given)}."
            )
        found.append(value)
    _, index, counts, hosts = found
    workers = [
        f"{host}:{_FIRST_PORT + i}"
        for host, count in zip(hosts, counts, strict=True)
        for i in range(count)
    ]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


def _number(text, least, most):
    is_one = re.fullmatch("[0-9]{1,9}", text) and least <= int(text) <= most
    return int(text) if is_one else None


def _counts(text, num_tasks, index):
    """[2, 2, 1] of "2(x2),1"."""
    del index
    counts: list[int] = []
    for part in text.split(","):
        digits = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", part)
        texts = digits.groups("1") if digits else ("", "")
        number, times = (_number(text, 1, num_tasks) for text in texts)
        if number is None or times is None or len(counts) > num_tasks:
            return None
        counts += [number] * times
    return counts if sum(counts) == num_tasks else None


def _hosts(text, num_tasks, index, counts):
    """["a7", "a8", "b"] of "a[7-8],b"; "r[1-2]n[1-2]" are four."""
    del num_tasks, index
    hosts: list = []
    pieces = re.findall(r"[\w.-]+|\[[^][]*\]|.", text, re.ASCII | re.DOTALL)
    for is_name, parts in itertools.groupby(pieces, ",".__ne__):
        choices = [_choices(part, len(counts)) for part in parts] if is_name else [[]]
        if None in choices or math.prod(map(len, choices)) > len(counts) - len(hosts):
            return None
        hosts += map("".join, itertools.product(*choices))
    return hosts if len(hosts) == len(set(hosts)) == len(counts) else None


def _choices(piece, most):
    """["08", "09", "10"] of "[08-10]", ["node"] of "node"."""
    if not piece.startswith("["):
        return [piece] if re.fullmatch(r"[\w.-]+", piece, re.ASCII) else None
    found: list = []
    for part in piece[1:-1].split(","):
        digits = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if digits is None:
            return None
        first, last = int(digits[1]), int(digits[2] or digits[1])
        if not 0 <= last - first < most - len(found):
            return None
        found += [str(i).zfill(len(digits[1])) for i in range(first, last + 1)]
    return found


# What a variable must be, and a function from its text and the values before to its own, or None.
_OF_A_STEP: dict[str, tuple[str, Any]] = {
    _TASKS: (f"a number from 1 to {_MOST_TASKS}", lambda text: _number(text, 1, _MOST_TASKS)),
    "SLURM_PROCID": (f"a number below {_TASKS}", lambda text, total: _number(text, 0, total - 1)),
    "SLURM_STEP_TASKS_PER_NODE": (f'like "2(x3),1" and, together, {_TASKS}', _counts),
    "SLURM_STEP_NODELIST": (
        'like "node[1-3,07],other", a node for each number of SLURM_STEP_TASKS_PER_NODE',
        _hosts,
    ),
}


def host_and_port(address: str) -> tuple[str, int] | None:
    """("::1", 2222) of "[::1]:2222"; None if it is no address."""
    host, _, port = address.rpartition(":")
    in_brackets = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if in_brackets else host
    if not host or any(sign in host for sign in "/@[] \t" + ":" * (not in_brackets)):
        return None
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535):
        return None
    return host, int(port)


def _addresses(given):
    """The addresses of a job."""
    if not isinstance(given, list):
        raise TypeError(f"{given!r} is no list.")
    for address in given:
        if not isinstance(address, str) or host_and_port(address) is None:
            raise ClusterError(
                f'A worker of {_VARIABLE} must be "HOST:PORT", with a port from 1 to 65535. '
                f"Received: {address!r}."
            )
    return given
