"""One of two workers that train the batches of two_replicas.py, over loopback; prints JSON.

    TF_CONFIG=… python -m tests.training.two_workers

Run by two_workers_test.py. Without TF_CONFIG it trains alone, on one device.
"""

import json
import sys

from tests.training import two_replicas
from ut_keras.training import cluster, distribution


def main():
    strategy = distribution.get_strategy(cluster=cluster.from_environment())
    runs = {
        name: two_replicas.train(*made, strategy)
        for name, *made in two_replicas.RUNS
        if name in ("toy", "adaptive")
    }
    chief = distribution.is_chief(strategy)
    runs["agreed"] = [
        distribution.is_chief(strategy),
        distribution.from_chief(strategy, 5 if chief else 7),
        distribution.any_worker(strategy, not chief),
        distribution.any_worker(strategy, False),
        distribution.is_agreed(strategy, 3),
        distribution.is_agreed(strategy, 3 if chief else 4),
    ]
    json.dump(runs, sys.stdout)


if __name__ == "__main__":
    main()
