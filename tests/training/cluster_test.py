import json

import pytest

from ut_keras.training import cluster


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
    ],
)
def test_what_is_refused(jobs, kind, index, message):
    with pytest.raises(cluster.ClusterError, match=message):
        _read(jobs, kind, index)


@pytest.mark.parametrize("text", ["{", "[]", '{"cluster": 1}', '{"cluster": {"worker": 3}}'])
def test_not_a_configuration(text):
    with pytest.raises(cluster.ClusterError, match="TF_CONFIG must be JSON") as caught:
        cluster.from_environment({"TF_CONFIG": text})
    assert text in str(caught.value)
