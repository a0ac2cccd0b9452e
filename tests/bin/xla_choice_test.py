import types

import pytest

from ut_keras.bin import xla_choice
from ut_keras.ops import devices

_ON = (True, True, True, xla_choice.MOST_SHAPES)
_OFF = (False, False, False, 0)


def _choose(trains=True, cluster=None, own_dataset=False, needs_hparams=False, **flags):
    args = {"xla_compile": "auto", "use_tpu": False, "worker_gpu": 1, "train_steps": 10_000}
    problem = types.SimpleNamespace(
        has_own_dataset=own_dataset, preprocess_needs_hparams=needs_hparams
    )
    problem.with_hparams = lambda hp, split: problem
    setup = types.SimpleNamespace(
        args=types.SimpleNamespace(**args | flags),
        problem=problem,
        hp=None,
        trains=trains,
        cluster=cluster,
    )
    return xla_choice.choose(setup)


@pytest.mark.parametrize("has_gpu", [False, True])
def test_auto_uses_xla_only_on_gpus(has_gpu, monkeypatch, capsys):
    monkeypatch.setattr(devices, "has_gpu", lambda: has_gpu)
    assert _choose() == _choose(worker_gpu=2) == (_ON if has_gpu else _OFF)
    # A run on the CPU and a run that only evaluates do not use XLA.
    assert _choose(worker_gpu=0) == _choose(trains=False) == _OFF
    assert _choose(use_tpu=True) == (False, False, True, 0)
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"cluster": "two workers"}, "the workers might not agree"),
        ({"train_steps": 4999}, "--train_steps is 4999"),
        ({"own_dataset": True}, "batch shapes vary"),
        ({"needs_hparams": True}, "batch shapes vary"),
    ],
)
def test_auto_says_why_it_uses_no_xla(change, reason, monkeypatch, capsys):
    monkeypatch.setattr(devices, "has_gpu", lambda: True)
    assert _choose(**change) == _OFF
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("note: --xla_compile=auto does not use XLA: ") and reason in line


@pytest.mark.parametrize("has_gpu", [False, True])
def test_explicit_value_wins(has_gpu, monkeypatch, capsys):
    monkeypatch.setattr(devices, "has_gpu", lambda: has_gpu)
    assert _choose(xla_compile=True, train_steps=1) == (True, False, True, 0)
    assert _choose(xla_compile=False) == _OFF
    assert not capsys.readouterr().out


def test_search_during_training_follows_the_flag():
    def of_search(xla_compile, worker_gpu=1, use_tpu=False, num_replicas=1):
        args = types.SimpleNamespace(
            xla_compile=xla_compile, worker_gpu=worker_gpu, use_tpu=use_tpu
        )
        return xla_choice.of_search(args, num_replicas)

    assert of_search("auto") == of_search(True) == "auto"
    for value in (
        of_search(False),
        of_search("auto", worker_gpu=0),
        of_search("auto", use_tpu=True),
        of_search("auto", num_replicas=2),
    ):
        assert value is False
