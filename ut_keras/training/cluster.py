"""The workers of a run, as the environment variable TF_CONFIG lists them. Loads no TensorFlow.

    TF_CONFIG='{"cluster": {"worker": ["host0:2222", "host1:2222"]},
                "task": {"type": "worker", "index": 0}}'

Every worker runs the same command with another index. The first, or the "chief" if there is one,
writes the files of the run.
"""

import json
import os
import urllib.parse
from collections.abc import Mapping
from typing import NamedTuple

from ut_keras.errors import UserError

_VARIABLE = "TF_CONFIG"


class ClusterError(UserError):
    """The environment lists no workers that can be used."""


class Cluster(NamedTuple):
    """A worker among others."""

    workers: tuple  # of str, HOST:PORT of each, the chief first
    index: int  # which of them this process is

    @property
    def is_chief(self) -> bool:
        return self.index == 0


def from_environment(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """Returns the `Cluster`, or None where there are no other workers.

    Raises:
        ClusterError: if TF_CONFIG is not as TensorFlow's or names what is not supported.
    """
    text = environment.get(_VARIABLE)
    if not text:
        return None
    try:
        config = json.loads(text)
        jobs = config.get("cluster", {})
        for given in jobs.values():
            if not isinstance(given, list):
                raise TypeError(f"The addresses of a job must be a list. Received: {given!r}.")
        # Two that did not say which they are would both be the first.
        task = config["task"] if jobs else {"type": "worker", "index": 0}
        kind, index = str(task["type"]), int(str(task["index"]))
    except (LookupError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ClusterError(
            f'{_VARIABLE} must be JSON like {{"cluster": {{"worker": ["host:port", …]}}, "task": '
            f'{{"type": "worker", "index": 0}}}}. Received: {text!r}.'
        ) from error
    if not jobs:
        return None
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
    workers = (*jobs.get("chief", []), *jobs.get("worker", []))
    for worker in workers:
        host_and_port(worker)
    if len(set(workers)) < len(workers):
        raise ClusterError(
            f"The workers of {_VARIABLE} must have different addresses. "
            f"Received: {', '.join(workers)}."
        )
    if len(workers) == 1:
        return None
    return Cluster(workers, index + (len(jobs.get("chief", [])) if kind == "worker" else 0))


def host_and_port(address: str) -> tuple[str, int]:
    """("::1", 2222) of "[::1]:2222"; a ClusterError if it is no address."""
    try:
        parts = urllib.parse.urlsplit(f"//{address}")
        if parts.netloc == address and parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:  # a port that is none
        pass
    raise ClusterError(
        f'A worker of {_VARIABLE} must be "HOST:PORT", with a port from 1 to 65535. '
        f"Received: {address!r}."
    )
