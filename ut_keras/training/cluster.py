"""The workers of a run, as the environment variable TF_CONFIG lists them, or Slurm. Loads no
TensorFlow but for the latter.

    TF_CONFIG='{"cluster": {"worker": ["host0:2222", "host1:2222"]},
                "task": {"type": "worker", "index": 0}}'

Every worker runs the same command with another index. The first, or the "chief" if there is one,
writes the files of the run.
"""

import json
import os
from collections.abc import MutableMapping
from typing import NamedTuple

from ut_keras.errors import UserError

_VARIABLE = "TF_CONFIG"
_TASKS = "SLURM_STEP_NUM_TASKS"
RESOLVERS = ("", "slurm", "none")


class ClusterError(UserError):
    """TF_CONFIG cannot be used."""


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
    """TF_CONFIG of this task, by TensorFlow's resolver; it loads TensorFlow."""
    if _TASKS not in environment:
        raise ClusterError(
            f"--cluster_resolver=slurm needs a step that srun started. Received: no {_TASKS}."
        )
    import tensorflow as tf

    # Which GPUs a task has is Slurm's to say (--gpus-per-task). The resolver would count those that
    # this task sees, and leave out the tasks for which there are none.
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=int(environment[_TASKS]), gpus_per_task=1, auto_set_gpu=False
    )
    jobs = resolver.cluster_spec().as_dict()
    kind, index = resolver.get_task_info()
    return json.dumps({"cluster": jobs, "task": {"type": kind, "index": index}})


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
