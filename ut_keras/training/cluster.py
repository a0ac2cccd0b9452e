"""Reads the workers of a run from the environment variable TF_CONFIG.

    TF_CONFIG='{"cluster": {"worker": ["host0:2222", "host1:2222"]},
                "task": {"type": "worker", "index": 0}}'

All workers run the same command, and only the index in TF_CONFIG differs. One worker, called the
chief, writes the files of the run. The chief is the worker of the job "chief". If there is no such
job, the chief is the first worker. This module does not import TensorFlow.
"""

import json
import os
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from ut_keras.errors import UserError

_VARIABLE = "TF_CONFIG"


class ClusterError(UserError):
    """TF_CONFIG does not describe a usable cluster."""


class Cluster(NamedTuple):
    """The workers of a run, and the index of this process among them."""

    workers: tuple  # tuple of str, the address HOST:PORT of each worker; the chief is first
    index: int  # index of this process in `workers`

    @property
    def is_chief(self) -> bool:
        return self.index == 0


def from_environment(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Return the `Cluster` in TF_CONFIG, or None if this process is the only worker.

    Raises:
        ClusterError: if TF_CONFIG does not have TensorFlow's format, or contains unsupported jobs.
    """
    text = environment.get(_VARIABLE)
    if not text:
        return None
    jobs, kind, index = _parse(text)
    if not jobs:
        return None
    _check_jobs(jobs, kind, index)
    chiefs = jobs.get("chief", [])
    workers = (*chiefs, *jobs.get("worker", []))
    _check_addresses(workers)
    if len(workers) == 1:
        return None
    return Cluster(workers, index + (len(chiefs) if kind == "worker" else 0))


def _parse(text):
    """Return (addresses by job, job of this process, its index) from TF_CONFIG."""
    try:
        config = json.loads(text)
        jobs = config.get("cluster", {})
        for given in jobs.values():
            if not isinstance(given, list):
                raise TypeError(f"The addresses of a job must be a list. Received: {given!r}.")
        # The task is required. Otherwise every worker would assume that it is the first worker.
        task = config["task"] if jobs else {"type": "worker", "index": 0}
        return jobs, str(task["type"]), int(str(task["index"]))
    except (LookupError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ClusterError(
            f'{_VARIABLE} must be JSON like {{"cluster": {{"worker": ["host:port", …]}}, "task": '
            f'{{"type": "worker", "index": 0}}}}. Received: {text!r}.'
        ) from error


def _check_jobs(jobs, kind, index):
    """Check the names of the jobs, and that task `index` of the job `kind` exists."""
    if not set(jobs) <= {"chief", "worker"}:
        raise ClusterError(
            f'The jobs of {_VARIABLE} must be "worker" and, optionally, "chief". Parameter '
            f"servers, evaluators and masters are not supported. Received: {', '.join(jobs)}."
        )
    if len(jobs.get("chief", [])) > 1:
        raise ClusterError(f"{_VARIABLE} must have at most one chief. Received: {jobs['chief']}.")
    if kind not in jobs or not 0 <= index < len(jobs[kind]):
        raise ClusterError(
            f"The task of {_VARIABLE} must be a member of its cluster. "
            f"Received: task {kind} {index}, cluster {jobs}."
        )


def _check_addresses(workers):
    """Check that all workers have valid addresses, which differ from each other."""
    for worker in workers:
        host_and_port(worker)
    if len(set(workers)) < len(workers):
        raise ClusterError(
            f"The workers of {_VARIABLE} must have different addresses. "
            f"Received: {', '.join(workers)}."
        )


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address, such as "[::1]:2222", into the host "::1" and the port 2222.

    Raises:
        ClusterError: if the text is not an address.
    """
    try:
        parts = urllib.parse.urlsplit(f"//{address}")
        if parts.netloc == address and parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:  # this error means that the port is not a valid number
        pass
    raise ClusterError(
        f'A worker of {_VARIABLE} must be "HOST:PORT", with a port from 1 to 65535. '
        f"Received: {address!r}."
    )
