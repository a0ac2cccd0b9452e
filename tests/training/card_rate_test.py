import types

import pytest
import tensorflow as tf

from ut_keras import hparams, models
from ut_keras.models import flops
from ut_keras.training import card_rate


@pytest.mark.parametrize(
    "name, bfloat16, float32, without_tf32",
    [
        ("NVIDIA H100 80GB HBM3", 989.4, 494.7, 66.9),
        ("NVIDIA H100 PCIe", 756.0, 378.0, 51.0),
        ("NVIDIA H200", 989.4, 494.7, 66.9),
        ("NVIDIA A100-SXM4-80GB", 312.0, 156.0, 19.5),
        ("NVIDIA A100 80GB PCIe", 312.0, 156.0, 19.5),
        ("A100-PCIE-40GB", 312.0, 156.0, 19.5),
        ("NVIDIA L4", 121.0, 60.0, 30.3),
        ("Tesla T4", None, 8.1, 8.1),
        ("Tesla V100-SXM2-16GB", None, 15.7, 15.7),
        ("NVIDIA GeForce RTX 4090", 165.2, 82.6, 82.6),
        # A part of a GPU and similar names have other rates.
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None, None, None),
        ("NVIDIA L40", None, None, None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None, None, None),
        ("", None, None, None),
    ],
)
def test_peak_depends_on_name_and_type(name, bfloat16, float32, without_tf32):
    rates = [
        card_rate.peak_of(name, "bfloat16"),
        card_rate.peak_of(name, "float32"),
        card_rate.peak_of(name, "float32", allows_tf32=False),
    ]
    assert rates == [rate and rate * 1e12 for rate in (bfloat16, float32, without_tf32)]
    assert card_rate.peak_of(name, "float64") is None


@pytest.fixture(scope="module")
def model():
    hp = hparams.get("adaptive_universal_transformer_tiny", "hidden_size=8,num_heads=2")
    return models.get("universal_transformer", hp, vocab_sizes={"inputs": 9, "targets": 9})


def _strategy(*devices):
    """Return a strategy whose batches are tuples with one tensor for each device."""
    return types.SimpleNamespace(
        extended=types.SimpleNamespace(worker_devices=[f"/device:{name}" for name in devices]),
        experimental_local_results=lambda parts: parts,
    )


def _fake_gpus(monkeypatch, *names):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: list(names))
    monkeypatch.setattr(
        tf.config.experimental, "get_device_details", lambda gpu: {"device_name": gpu}
    )


def test_rate_sums_over_the_gpus_and_their_parts_of_a_batch(model, monkeypatch):
    _fake_gpus(monkeypatch, "NVIDIA H200", "NVIDIA H200", "NVIDIA L4")
    rate = card_rate.find(model, _strategy("GPU:0", "GPU:1"))
    assert rate.peak == 2 * 494.7e12
    inputs, targets = ([tf.zeros([n, length]) for n in (3, 2)] for length in (5, 7))
    count = flops.counter(model)
    expected = count(3, 5, 7) + count(2, 5, 7)
    assert rate.flops(({"inputs": inputs, "targets": targets}, targets)) == expected


def test_rate_of_other_devices_is_unknown(model, monkeypatch):
    _fake_gpus(monkeypatch, "NVIDIA H200", "Another GPU")
    assert card_rate.find(model, _strategy("GPU:0")) is not None
    assert card_rate.find(model, _strategy("GPU:0", "GPU:1")) is None
    assert card_rate.find(model, _strategy("CPU:0")) is None
    assert card_rate.find(object(), _strategy("GPU:0")) is None
