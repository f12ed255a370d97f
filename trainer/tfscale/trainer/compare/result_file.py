"""Files with the results of `tfscale-train compare`, `batch` and `scale`, and the machine that they are of."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from tfscale.core.errors import UsageError
from tfscale.core.text import data_size, plural
from tfscale.trainer.saving.whole_files import write_text


def machine_facts() -> dict[str, Any]:
    """Return when and where the results were made, and by which version."""
    return {
        "at": time.time(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "tfscale": version("tfscale"),
    }


def machine_words() -> str:
    """Return the hardware and the system of this machine: `2 cores, Intel Xeon, 16.4 GB, Linux 6.1, x86_64`."""
    model = ""  # Only some architectures name one.
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    memory = data_size(psutil.virtual_memory().total)
    return ", ".join(filter(None, [plural(os.cpu_count() or 1, "core"), model, memory, system]))


def write_file(path: Path | None, text: str) -> None:
    """Write a result, whole or not at all; nothing where no file is asked for. Raises UsageError."""
    if path is None:
        return
    try:
        write_text(path, text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
