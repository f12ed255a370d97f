"""Names of devices in the lists that strategies are made of."""

import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the repairs in place until the end of the test."""
    import tensorflow as tf
    from tfscale.trainer.compat.listings import device_names

    for kind in (tf.distribute.MirroredStrategy, tf.distribute.experimental.CentralStorageStrategy):
        monkeypatch.setattr(kind, "__init__", kind.__init__)
    monkeypatch.setattr(tf.DeviceSpec, "_string_to_components", staticmethod(tf.DeviceSpec._string_to_components))
    device_names.repair_names(tf)
    device_names.refuse_absent(tf)


def test_the_name_of_a_physical_device_is_a_device() -> None:
    import tensorflow as tf

    assert tf.DeviceSpec.from_string("/physical_device:CPU:0").to_string() == "/device:CPU:0"
    strategy = tf.distribute.MirroredStrategy([device.name for device in tf.config.list_physical_devices("CPU")])
    assert strategy.num_replicas_in_sync == 1
    with tf.device("/physical_device:CPU:0"):
        assert tf.constant(1.0).device.endswith("/device:CPU:0")


@pytest.mark.parametrize("devices", [["/gpu:0", "/gpu:1"], ["CPU:0", "GPU:0"], ["/job:localhost/device:CPU:99"]])
def test_devices_that_are_not_here_are_refused(devices: list[str]) -> None:
    import tensorflow as tf
    from tfscale.trainer.compat.listings.erratum import Erratum

    with pytest.raises(Erratum, match="not on this host"):
        tf.distribute.MirroredStrategy(devices=devices)
    with pytest.raises(Erratum, match="not on this host"):
        tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices)


def test_devices_that_are_here_are_taken() -> None:
    import tensorflow as tf

    assert tf.distribute.MirroredStrategy(["CPU:0"]).num_replicas_in_sync == 1
    assert tf.distribute.MirroredStrategy().num_replicas_in_sync >= 1
    assert tf.distribute.experimental.CentralStorageStrategy(["CPU:0"], "CPU:0").num_replicas_in_sync == 1
