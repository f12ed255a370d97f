"""Devices that TensorFlow sees in this process, and the reason if there is no GPU among them.

They are listed only after the program has made steps: until then it may still configure its devices, and listing
logical devices initialises them.
"""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf
from tfscale.core.records.probe_status import Devices

_CACHE = Path("/etc/ld.so.cache")


def seen_devices() -> Devices | None:
    """Return the devices of this process, None if TensorFlow cannot list them."""
    try:
        found = len(tf.config.list_physical_devices("GPU"))
        return Devices(found, _own("GPU"), _own("TPU"), "" if found else why_no_gpu())
    except Exception:
        return None


def _own(kind: str) -> int:
    """Return the number of logical devices of this process; in a cluster TensorFlow may also list the others'."""
    place = tf.config.list_logical_devices("CPU")[0].name.rpartition("/device:")[0]
    return sum(device.name.startswith(f"{place}/device:") for device in tf.config.list_logical_devices(kind))


def why_no_gpu() -> str:
    """Return why TensorFlow has found no GPU, empty if the reason is unknown."""
    build = tf.sysconfig.get_build_info()
    if not (build.get("is_cuda_build") or build.get("is_rocm_build")):
        return "it is built without them: install tensorflow[and-cuda] in the place of this package"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and (not hidden.strip() or hidden.strip().startswith("-1")):
        return f"CUDA_VISIBLE_DEVICES is {hidden!r} and hides them"
    missing = [library for library in _needed(build) if not _is_there(library)]
    return f"no {missing[0]}" if missing else ""


def _needed(build: dict[str, str]) -> list[str]:
    """Return the libraries that TensorFlow loads before it uses NVIDIA's GPUs."""
    cuda, cudnn = (str(build.get(f"{name}_version", "")).partition(".")[0] for name in ("cuda", "cudnn"))
    if not cuda or not cudnn:
        return []
    return ["libcuda.so.1", f"libcudart.so.{cuda}", f"libcublas.so.{cuda}", f"libcudnn.so.{cudnn}"]


def _is_there(library: str) -> bool:
    """Decide whether the loader finds a library, without loading it."""
    packages = Path(tf.__file__).parents[1]
    folders = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    folders += [*(packages / "nvidia").glob("*/lib"), Path("/usr/local/cuda/lib64")]
    if any((folder / library).exists() for folder in folders):
        return True
    return _CACHE.exists() and f"{library}\0".encode() in _CACHE.read_bytes()
