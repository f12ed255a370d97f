"""Devices that TensorFlow sees, which are fakes here where they are no CPUs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from tfscale.core.records.probe_status import Devices

pytestmark = pytest.mark.tensorflow
CUDA = {"is_cuda_build": True, "cuda_version": "12.5.1", "cudnn_version": "9"}
LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libcublas.so.12", "libcudnn.so.9")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Return a function that fakes so many GPUs, a build of TensorFlow, and the libraries of CUDA that are there."""
    import tensorflow as tf
    from tfscale.trainer.probe.process import seen_devices

    def make(
        found: int = 0, used: int = 0, remote: int = 0, build: object = CUDA, libraries: Sequence[str] = LIBRARIES
    ) -> None:
        local = [f"/job:worker/replica:0/task:1/device:GPU:{index}" for index in range(used)]
        other = [f"/job:worker/replica:0/task:0/device:GPU:{index}" for index in range(remote)]
        logical = {"GPU": other + local, "CPU": ["/job:worker/replica:0/task:1/device:CPU:0"], "TPU": []}
        named = {kind: [SimpleNamespace(name=name) for name in names] for kind, names in logical.items()}
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU"] * found if kind == "GPU" else [])
        monkeypatch.setattr(tf.config, "list_logical_devices", named.__getitem__)
        monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)
        for library in libraries:
            (tmp_path / library).touch()

    monkeypatch.setattr(seen_devices, "_CACHE", tmp_path / "no cache")
    monkeypatch.setattr(seen_devices.tf, "__file__", str(tmp_path / "packages" / "tensorflow" / "__init__.py"))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return make


def seen() -> Devices | None:
    from tfscale.trainer.probe.process.seen_devices import seen_devices

    return seen_devices()


def test_own_gpus_are_counted_and_not_those_of_other_tasks(fake: Callable[..., None]) -> None:
    fake(found=4, used=2, remote=2)
    assert seen() == Devices(gpus_found=4, gpus=2, tpus=0)


def test_a_missing_library_is_named(fake: Callable[..., None], tmp_path: Path) -> None:
    fake(libraries=LIBRARIES[:-1])
    assert seen() == Devices(0, 0, 0, "no libcudnn.so.9")
    folder = tmp_path / "packages" / "nvidia" / "cudnn" / "lib"
    folder.mkdir(parents=True)
    (folder / LIBRARIES[-1]).touch()
    assert seen() == Devices(0, 0, 0, "")


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_hidden_gpus_are_told(fake: Callable[..., None], hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    fake()
    assert seen() == Devices(0, 0, 0, f"CUDA_VISIBLE_DEVICES is '{hidden}' and hides them")


def test_a_build_without_gpus_is_told(fake: Callable[..., None]) -> None:
    fake(build={"is_cuda_build": False})
    devices = seen()
    assert devices is not None and devices.why_no_gpu.startswith("it is built without them: install")


def test_a_tensorflow_that_does_not_tell_stops_nothing(
    fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    fake()
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: 1 / 0)
    assert seen() is None


CONFIGURES = """
import tensorflow as tf
import tfscale.trainer.measure
tf.config.list_physical_devices("GPU")
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.set_visible_devices([], "GPU")
print(len(tf.config.list_logical_devices("CPU")))
"""


def test_a_script_still_configures_its_devices_after_the_probe_is_in() -> None:
    ran = subprocess.run([sys.executable, "-c", CONFIGURES], capture_output=True, text=True, check=True, timeout=240)
    assert ran.stdout == "2\n"
