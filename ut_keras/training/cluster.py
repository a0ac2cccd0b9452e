"""The workers of a run, as the environment variable TF_CONFIG lists them, or Slurm. Loads no
TensorFlow.

    TF_CONFIG='{"cluster": {"worker": ["host0:2222", "host1:2222"]},
                "task": {"type": "worker", "index": 0}}'

Every worker runs the same command with another index. The first, or the "chief" if there is one,
writes the files of the run.
"""

import itertools
import json
import os
import re
from collections.abc import MutableMapping
from typing import NamedTuple

from ut_keras.errors import UserError

_VARIABLE = "TF_CONFIG"
_TASKS = "SLURM_STEP_NUM_TASKS"
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

    Not by TensorFlow's resolver: it fails on what is missing, and sorts node10 before node9, while
    tasks are counted in the order of the list.
    """
    try:
        index, total = int(environment["SLURM_PROCID"]), int(environment[_TASKS])
        counts = [
            int(count)
            for part in environment["SLURM_STEP_TASKS_PER_NODE"].split(",")
            for count, times in re.findall(r"^([0-9]+)(?:\(x([0-9]+)\))?$", part)
            for _ in range(int(times or 1))
        ]
        hosts = _hosts(environment["SLURM_STEP_NODELIST"])
        is_whole = 0 <= index < total == sum(counts)
        is_whole = is_whole and len(hosts) == len(set(hosts)) == len(counts)
    except (KeyError, ValueError):
        is_whole = False
    if not is_whole:
        names = (_TASKS, "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST")
        given = ", ".join(f"{name}={environment.get(name)}" for name in names)
        raise ClusterError(
            "--cluster_resolver=slurm needs a step that srun started: the number of the task below "
            'that of all, tasks like "2(x3),1", and as many nodes, like "node[1-3,07],other". '
            f"Received: {given}."
        )
    workers = [
        f"{host}:{_FIRST_PORT + i}"
        for host, count in zip(hosts, counts, strict=True)
        for i in range(count)
    ]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


def _hosts(text):
    """["a7", "a8", "b"] of "a[7-8],b"; "r[1-2]n[1-2]" are four."""
    hosts: list[str] = []
    for name in re.split(r",(?![^[]*\])", text):  # at commas that are not in brackets
        parts = [
            _choices(part[1:-1]) if part.startswith("[") else [part]
            for part in re.findall(r"[^[\]]+|\[[^[\]]*\]", name)
        ]
        hosts += map("".join, itertools.product(*parts))
    return hosts


def _choices(text):
    """["08", "09", "10", "2"] of "08-10,2"."""
    found: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        found += [str(number).zfill(len(first)) for number in numbers]
    return found


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
