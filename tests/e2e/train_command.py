"""`tfscale-train run` as a user starts it, without a GPU and with one of both Keras versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from example_programs import KERAS

TRAIN = Path(sys.executable).parent / "tfscale-train"


def environment(keras: str) -> dict[str, str]:
    return os.environ | {"CUDA_VISIBLE_DEVICES": ""} | KERAS[keras]


def run_train(*words: str | Path, keras: str = "keras 3", timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, within so many seconds."""
    return subprocess.run(
        [TRAIN, "run", *words], env=environment(keras), capture_output=True, text=True, timeout=timeout, check=False
    )
