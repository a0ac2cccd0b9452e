"""With --global_batch_size, a run is the same on one device and on two devices.

The number of devices may also change in the middle of the run.
"""

import json
import pathlib

import numpy as np
import pytest

from tests import forks
from tests.training import elastic
from ut_keras import problems

_ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.slow
def test_run_resumes_with_another_number_of_devices(tmp_path):
    """The run uses one device, then two devices, then one device again.

    Compared with a run on one device, the batches are the same, and the weights are equal up to
    rounding.
    """
    problem = problems.get(elastic.PROBLEM)
    problem.generate_data(str(tmp_path), str(tmp_path), 1, num_processes=1)
    parts = ["alone,6,1", "changing,2,1", "changing,4,2", "changing,6,1"]
    done = forks.run(["-m", "tests.training.elastic", str(tmp_path), *parts], folder=_ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, last = done.stdout.splitlines()
    seen = json.loads(last)
    assert len(seen["alone"]) == 6 and len({str(batch) for batch in seen["alone"]}) == 6
    assert seen["changing"] == seen["alone"]
    message = "\n".join(lines)
    assert "replicas changed from 1 to 2. Because of --global_batch_size, the batches" in message
    assert "replicas changed from 2 to 1. Because of --global_batch_size" in message
    assert "order of the batches differs" not in message
    wanted, found = (elastic.weights(tmp_path / name) for name in ("alone", "changing"))
    assert wanted.keys() == found.keys() and len(wanted) > 20
    for name, weight in wanted.items():
        np.testing.assert_allclose(found[name], weight, atol=1e-5, err_msg=name)
