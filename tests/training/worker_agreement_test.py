import pytest

from ut_keras.training import worker_agreement
from ut_keras.training.cluster import ClusterError

_SAME = {"problem": "p", "train_steps": 9, "hparam hidden_size": 8, "train_data": "1 files"}


@pytest.mark.parametrize(
    "name, value", [("train_steps", 8), ("hparam x", 12), ("train_data", None), ("new", 1)]
)
def test_what_differs_is_named_by_every_worker(name, value):
    statements = {"a:1": _SAME, "b:1": {**_SAME, name: value}, "c:1": dict(_SAME)}
    for index in range(3):
        with pytest.raises(ClusterError) as error:
            worker_agreement.check(statements, index)
        expected = f"{name}={_SAME.get(name)!r} on a:1 and {value!r} on b:1."
        assert str(error.value).endswith(f"same flags, hparams and data. Received: {expected}")


def test_each_names_what_is_its_own():
    """Of two that differ from the chief in other ways."""
    statements = {"a:1": _SAME, "b:1": {**_SAME, "train_steps": 8}, "c:1": {**_SAME, "x": 1}}
    for index, expected in enumerate(("train_steps=9", "train_steps=9", "x=None")):
        with pytest.raises(ClusterError, match=f"Received: {expected} on a:1"):
            worker_agreement.check(statements, index)


def test_many_differences_are_cut_off():
    other = {name: "other" for name in "abcdefgh"}
    with pytest.raises(ClusterError, match="e=None on a:1 and 'other' on b:1, and 3 more.$"):
        worker_agreement.check({"a:1": {}, "b:1": other}, 1)


def test_equal_workers():
    worker_agreement.check({"a:1": _SAME, "b:1": dict(_SAME)}, 1)
