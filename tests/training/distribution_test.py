import pytest
import tensorflow as tf

from ut_keras.training import distribution


def test_strategy_has_one_device_by_default():
    strategy = distribution.get_strategy(devices=["CPU:0"])
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    assert strategy.num_replicas_in_sync == 1


def test_strategy_rejects_too_many_gpus():
    gpus = len(tf.config.list_logical_devices("GPU"))
    with pytest.raises(distribution.DeviceError, match=f"with {gpus} GPUs") as caught:
        distribution.get_strategy(num_gpus=gpus + 2)
    assert f"worker_gpu={gpus + 2}" in str(caught.value)


@pytest.mark.parametrize("gpus", [[], ["GPU:0"]])
def test_error_about_too_many_gpus_names_the_cpu_if_there_is_no_gpu(monkeypatch, gpus):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    with pytest.raises(distribution.DeviceError) as caught:
        distribution.physical_gpus(4)
    assert str(caught.value).endswith("To use the CPU, set worker_gpu=1.") == (not gpus)


def test_strategy_reports_unreachable_tpu(monkeypatch):
    def connect(tpu):
        raise OSError("Name or service not known")

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver
    monkeypatch.setattr(resolver, "connect", connect)
    with pytest.raises(distribution.DeviceError, match="cloud_tpu_name .*'x': Name or service"):
        distribution.get_strategy(tpu="x")
