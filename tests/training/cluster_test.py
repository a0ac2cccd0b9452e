import json
import os

import pytest

from ut_keras.training import cluster

_NO_CLUSTERS = (
    '{"cluster": 1}',
    '{"cluster": {"worker": 3}}',
    '{"cluster": {"worker": "a:1"}}',
    '{"cluster": {"worker": {"0": "a:1"}}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": 3}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": 1.5}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": [1]}}',
)


def _read(jobs, kind="worker", index=0):
    config = {"cluster": jobs, "task": {"type": kind, "index": index}}
    return cluster.from_environment({"TF_CONFIG": json.dumps(config)})


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
def test_no_cluster(environment):
    assert cluster.from_environment(environment) is None


def test_one_worker_is_no_cluster():
    assert _read({"worker": ["a:1"]}) is None


def test_the_first_worker_is_the_chief():
    first, second = (_read({"worker": ["a:1", "b:1"]}, index=index) for index in (0, 1))
    assert first == (("a:1", "b:1"), 0) and first.is_chief
    assert second.index == 1 and not second.is_chief


def test_a_chief_of_its_own_comes_first():
    jobs = {"worker": ["a:1"], "chief": ["c:1"]}
    assert _read(jobs, "chief") == (("c:1", "a:1"), 0)
    assert _read(jobs, "worker") == (("c:1", "a:1"), 1)


@pytest.mark.parametrize(
    "jobs, kind, index, message",
    [
        ({"worker": ["a:1"], "ps": ["b:1"]}, "worker", 0, "no parameter servers"),
        ({"master": ["a:1"], "worker": ["b:1"]}, "worker", 0, "Received: master, worker"),
        ({"chief": ["a:1", "b:1"]}, "chief", 0, "one chief"),
        ({"worker": ["a:1", "b:1"]}, "worker", 2, "task worker 2"),
        ({"worker": ["a:1", "b:1"]}, "chief", 0, "task chief 0"),
        ({"worker": ["a:1", "b:1", "a:1"]}, "worker", 0, "an address each. Received: a:1, b:1"),
        ({"worker": ["a:1"], "chief": ["a:1"]}, "worker", 0, "an address each"),
        ({"worker": ["a:1", "b:99999"]}, "worker", 0, "from 1 to 65535. Received: 'b:99999'"),
        ({"worker": ["a:1", "b:0"]}, "worker", 0, "Received: 'b:0'"),
        ({"worker": ["a:1", "b:" + "9" * 5000]}, "worker", 0, "Received: 'b:999"),
        ({"worker": ["a:1", "b"]}, "worker", 0, "Received: 'b'"),
        ({"worker": ["a:1", ":1"]}, "worker", 0, "Received: ':1'"),
        ({"worker": ["a:1", "http://b:1"]}, "worker", 0, "Received: 'http://b:1'"),
        ({"worker": ["a:1", "::1:1"]}, "worker", 0, "Received: '::1:1'"),
        ({"worker": [1, 2]}, "worker", 0, "Received: 1."),
        ({"worker": ["a:1", ["b:1"]]}, "worker", 0, "Received: \\['b:1'\\]"),
        ({"worker": ["a:1", None]}, "worker", 0, "Received: None"),
        ({"worker": ["a:1", "b:1"]}, ["worker"], 0, "task \\['worker'\\] 0"),
    ],
)
def test_what_is_refused(jobs, kind, index, message):
    with pytest.raises(cluster.ClusterError, match=message):
        _read(jobs, kind, index)


@pytest.mark.parametrize("text", ["{", "[]", "3", "[" * 100_000, *_NO_CLUSTERS])
def test_not_a_configuration(text):
    with pytest.raises(cluster.ClusterError, match="TF_CONFIG must be JSON") as caught:
        cluster.from_environment({"TF_CONFIG": text})
    assert text in str(caught.value)


def test_addresses_of_version_6_are_in_brackets():
    assert _read({"worker": ["[::1]:1", "a:1"]}) == (("[::1]:1", "a:1"), 0)
    assert cluster.host_and_port("[::1]:22") == ("::1", 22)


_SLURM = {
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}


def test_tasks_of_slurm(monkeypatch):
    for name, value in _SLURM.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(cluster.ClusterError, match="--cluster_resolver=slurm.*NUM_TASKS=4"):
        cluster.from_environment()
    found = cluster.from_environment(resolver="slurm")
    assert found == (("node1:8888", "node1:8889", "node2:8888", "node2:8889"), 3)
    assert json.loads(os.environ["TF_CONFIG"])["task"] == {"type": "worker", "index": 3}
    assert cluster.from_environment(resolver="none") is None
    assert "TF_CONFIG" not in os.environ


def test_slurm_without_a_step():
    with pytest.raises(cluster.ClusterError, match="Received: 'slrum'"):
        cluster.from_environment({}, resolver="slrum")
    with pytest.raises(cluster.ClusterError, match="needs a step that srun started"):
        cluster.from_environment({}, resolver="slurm")
    assert cluster.from_environment({"SLURM_STEP_NUM_TASKS": "1"}) is None


@pytest.mark.parametrize(
    "nodes, counts, workers",
    [
        ("one", "1", None),
        ("a,b", "2,1", "a:8888 a:8889 b:8888"),
        ("a[9-10]", "1(x2)", "a9:8888 a10:8888"),  # as Slurm counts the tasks, not sorted
        ("a[08-10,2],b-c.d", "1(x5)", "a08:8888 a09:8888 a10:8888 a2:8888 b-c.d:8888"),
        ("r[1-2]n[1-2]x", "1(x4)", "r1n1x:8888 r1n2x:8888 r2n1x:8888 r2n2x:8888"),
    ],
)
def test_nodes_of_slurm(nodes, counts, workers):
    total = len(workers.split()) if workers else 1
    environment = _SLURM | {
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": counts,
        "SLURM_STEP_NUM_TASKS": str(total),
        "SLURM_PROCID": str(total - 1),
    }
    found = cluster.from_environment(environment, "slurm")
    assert found == (workers and (tuple(workers.split()), total - 1))


@pytest.mark.parametrize(
    "name, values",
    {
        "SLURM_STEP_NUM_TASKS": ["0", "-4", "4.0", "5"],
        "SLURM_PROCID": ["4", "-1", "x"],
        "SLURM_STEP_TASKS_PER_NODE": ["2", "3(x2)", "2(x2", "2(2)", "4(x0)", "2,,2,1", "-2,6", "x"],
        "SLURM_STEP_NODELIST": [
            *["node1", "node1,node1", "node[1-3]", "node[2-1]", "node[1-]", "node[x]", "node[]"],
        ],
    }.items(),
)
def test_what_slurm_does_not_say(name, values):
    for value in [None, "", *values]:
        environment = {key: _SLURM[key] for key in _SLURM if key != name or value is not None}
        environment |= {name: value} if value is not None else {}
        with pytest.raises(cluster.ClusterError, match="a step that srun started") as caught:
            cluster.from_environment(environment, "slurm")
        assert f"{name}={value}" in str(caught.value)
