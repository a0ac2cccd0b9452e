import json

import pytest

from ut_keras.training import cluster

_NO_CLUSTERS = (
    '{"cluster": 1}',
    '{"cluster": {"worker": 3}}',
    '{"cluster": {"worker": "a:1"}}',
    '{"cluster": {"worker": {"0": "a:1"}}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker"}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": 1}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": 3}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": 1.5}}',
    '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": [1]}}',
)


def _read(jobs, kind="worker", index=0):
    config = {"cluster": jobs, "task": {"type": kind, "index": index}}
    return cluster.from_environment({"TF_CONFIG": json.dumps(config)})


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": "{}"}])
def test_cluster_is_none_without_workers(environment):
    assert cluster.from_environment(environment) is None


def test_cluster_is_none_for_one_worker():
    assert _read({"worker": ["a:1"]}) is None


def test_cluster_chief_is_the_first_worker():
    first, second = (_read({"worker": ["a:1", "b:1"]}, index=index) for index in (0, 1))
    assert first == (("a:1", "b:1"), 0) and first.is_chief
    assert second.index == 1 and not second.is_chief


def test_cluster_puts_the_chief_job_first():
    jobs = {"worker": ["a:1"], "chief": ["c:1"]}
    assert _read(jobs, "chief") == (("c:1", "a:1"), 0)
    assert _read(jobs, "worker") == (("c:1", "a:1"), 1)


@pytest.mark.parametrize(
    "jobs, kind, index, message",
    [
        ({"worker": ["a:1"], "ps": ["b:1"]}, "worker", 0, "Received: worker, ps"),
        ({"master": ["a:1"], "worker": ["b:1"]}, "worker", 0, "Received: master, worker"),
        ({"chief": ["a:1", "b:1"]}, "chief", 0, "one chief. Received: \\['a:1', 'b:1'\\]"),
        ({"worker": ["a:1", "b:1"]}, "worker", 2, "task worker 2"),
        ({"worker": ["a:1", "b:1"]}, "chief", 0, "task chief 0"),
        ({"worker": ["a:1", "b:1", "a:1"]}, "worker", 0, "Received: a:1, b:1, a:1"),
        ({"worker": ["a:1"], "chief": ["a:1"]}, "worker", 0, "Received: a:1, a:1"),
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
def test_cluster_rejects_invalid_jobs(jobs, kind, index, message):
    with pytest.raises(cluster.ClusterError, match=message):
        _read(jobs, kind, index)


@pytest.mark.parametrize("text", ["{", "[]", "3", "[" * 100_000, *_NO_CLUSTERS])
def test_cluster_rejects_other_formats(text):
    with pytest.raises(cluster.ClusterError, match="TF_CONFIG must be JSON") as caught:
        cluster.from_environment({"TF_CONFIG": text})
    assert text in str(caught.value)


def test_address_accepts_ipv6_in_brackets():
    assert _read({"worker": ["[::1]:1", "a:1"]}) == (("[::1]:1", "a:1"), 0)
    assert cluster.host_and_port("[::1]:22") == ("::1", 22)
