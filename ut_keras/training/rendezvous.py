"""Waits until all workers of a cluster are there; loads no TensorFlow.

TensorFlow waits for them without an end, and hears no Ctrl-C meanwhile. So nobody goes to it before
all are there: each listens on its port, and goes on when all others' ports have answered, be it
because they wait as well or because they have gone on.
"""

import socket
import time

from ut_keras.training.cluster import ClusterError, host_and_port
from ut_keras.training.interruption import Interrupted

_NAME_SECONDS = 30  # A machine's name may be known a little later than another starts.
_PAUSE_SECONDS = 0.2
_CONNECT_SECONDS = 2


class WorkersMissing(Interrupted):
    """Workers have not come."""

    def __init__(self, message):
        super().__init__(message, exit_code=75)  # "try again", in sysexits.h


def wait(cluster, seconds):
    """Returns when all workers are there.

    Args:
        cluster: `Cluster`.
        seconds: int. How long to wait.

    Raises:
        ClusterError: if this worker's port is taken, or a name cannot be resolved.
        WorkersMissing: if some have not come.
    """
    started = time.monotonic()
    missing = [w for number, w in enumerate(cluster.workers) if number != cluster.index]
    with _listener(cluster.workers[cluster.index]):
        is_told = False
        while True:
            failures = {worker: _failure(worker) for worker in missing}
            missing = [worker for worker in missing if failures[worker]]
            if not missing:
                return
            waited = time.monotonic() - started
            reasons = "; ".join(f"{worker}: {_text(failures[worker])}" for worker in missing)
            names = [w for w in missing if isinstance(failures[w], (socket.gaierror, UnicodeError))]
            if names and waited >= min(seconds, _NAME_SECONDS):
                raise ClusterError(
                    f"The workers of TF_CONFIG must have names that can be resolved. "
                    f"Received: {names[0]}: {_text(failures[names[0]])}."
                )
            if waited >= seconds:
                raise WorkersMissing(
                    f"All workers must come within --worker_wait_secs={seconds}. Received no "
                    f"answer from {reasons}. Run the same command on all workers."
                )
            if not is_told:
                print(f"Waiting {seconds} s at most for {', '.join(missing)}", flush=True)
                is_told = True
            time.sleep(_PAUSE_SECONDS)


def _listener(address):
    _, port = host_and_port(address)
    both = socket.has_dualstack_ipv6()
    try:
        # On all of the machine's addresses: its own name may stand for one that is not among them.
        return socket.create_server(
            ("", port),
            family=socket.AF_INET6 if both else socket.AF_INET,
            backlog=1024,
            dualstack_ipv6=both,
        )
    except OSError as error:
        raise ClusterError(
            f"The port of this worker in TF_CONFIG must be free to listen on. "
            f"Received: {address}: {error.strerror}."
        ) from error


def _failure(address):
    """Why a worker does not answer; None if it does."""
    try:
        socket.create_connection(host_and_port(address), timeout=_CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        return error
    return None


def _text(error):
    return getattr(error, "strerror", None) or error
