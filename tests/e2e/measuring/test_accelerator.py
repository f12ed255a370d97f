"""Stamps where kernels are queued: they come when the kernels are done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import ENVIRONMENT

pytestmark = pytest.mark.alone

REPOSITORY = Path(__file__).parents[3]
PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "accelerator.py"


@pytest.mark.tensorflow
def test_a_stamp_waits_for_the_queue_of_its_device() -> None:
    variables = os.environ | ENVIRONMENT | {"PYTHONPATH": f"{REPOSITORY / 'trainer'}{os.pathsep}{REPOSITORY / 'core'}"}
    ran = subprocess.run([sys.executable, PROGRAM], env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["without"]["queued"] == [] and said["without"]["milliseconds"] < 40
    assert said["with"]["queued"] == ["CPU:1"] and said["with"]["milliseconds"] >= 50
