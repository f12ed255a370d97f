"""Programs in processes of their own: each chooses its devices, which a process can do once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

CHECKS = Path(__file__).parent / "checks"
TRAIN = Path(sys.executable).parent / "tfscale-train"
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # As an agent sets it: the program runs in this process.
    "TF_CONFIG": json.dumps({"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}}),
}


def ended(*command: str | Path, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=os.environ | ENVIRONMENT | (variables or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def check() -> Callable[..., dict[str, Any]]:
    """Runs a script of `checks` and returns the object that it prints last."""

    def result_of(name: str, *arguments: str, **variables: str) -> dict[str, Any]:
        ran = ended(sys.executable, CHECKS / f"{name}.py", *arguments, variables=variables)
        assert ran.returncode == 0, ran.stderr[-3000:]
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return found

    return result_of


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs a program with options and returns its result."""

    def result_of(name: str, *options: str, **variables: str) -> dict[str, Any]:
        out = tmp_path / "result.json"
        ran = ended(TRAIN, "run", name, *options, "--json", out, variables=variables)
        assert ran.returncode == 0, ran.stderr[-3000:]
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    return result_of
