"""Settings from outside in scripts of several styles, each in a process of its own with a real TensorFlow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loopback import free_addresses
from tfscale.core.log_clues import OVERRULED, TAKEN

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

PROGRAM = Path(__file__).parents[2] / "e2e/programs/set_from_outside.py"
MEASURED = "import runpy, sys, tfscale.trainer.measure; del sys.argv[0]; runpy.run_path(sys.argv[0])"
ALL = {"prefetch": 2, "map": "auto", "auto_shard": "off", "wire": "bfloat16", "strategy": "mirrored"}


def start(style: str | tuple[str, ...], wanted: dict[str, Any], **variables: str) -> subprocess.Popen[str]:
    own = {"TFSCALE_SET": json.dumps(wanted), "CUDA_VISIBLE_DEVICES": "", **variables}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    words = [sys.executable, "-c", MEASURED, str(PROGRAM), *([style] if isinstance(style, str) else style)]
    return subprocess.Popen(words, env=os.environ | own, text=True, **pipes)


def settings(log: str, how: str) -> set[str]:
    return {line.removeprefix(how) for line in log.splitlines() if line.startswith(how)}


@pytest.mark.parametrize("legacy", ["0", "1"])
def test_fit_takes_all_but_the_sharding_of_one_worker(legacy: str) -> None:
    log, _ = start("fit", ALL, TFSCALE_DEVICES="2", TF_USE_LEGACY_KERAS=legacy).communicate(timeout=600)
    assert settings(log, TAKEN) == {"prefetch", "map", "wire", "strategy"}, log
    assert not settings(log, OVERRULED) and "replicas 2" in log


def test_what_a_script_gives_itself_stays() -> None:
    log, _ = start("prefetched fit", ALL, TFSCALE_DEVICES="2").communicate(timeout=600)
    assert settings(log, OVERRULED) == {"prefetch", "strategy"}, log
    assert settings(log, TAKEN) == {"map", "wire"}


def test_a_loop_without_a_strategy_takes_those_of_its_data() -> None:
    wanted = {name: value for name, value in ALL.items() if name != "strategy"}
    log, _ = start("loop", wanted).communicate(timeout=600)
    assert settings(log, TAKEN) == {"prefetch", "map"} and not settings(log, OVERRULED), log
    assert "batches from _PrefetchDataset of ['_ParallelMapDataset']" in log


def test_workers_of_parameter_servers_take_those_of_their_data() -> None:
    log, _ = start(("servers", *free_addresses(2)), ALL).communicate(timeout=600)
    assert settings(log, TAKEN) == {"prefetch", "map"} and settings(log, OVERRULED) == {"strategy"}, log


def test_two_workers_sum_in_bfloat16_and_have_all_examples_each() -> None:
    workers = list(free_addresses(2))

    def worker(index: int) -> subprocess.Popen[str]:
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        return start("distributed", ALL, TF_CONFIG=json.dumps(task))

    started = [worker(index) for index in range(2)]
    for each in started:
        log, _ = each.communicate(timeout=600)
        assert settings(log, TAKEN) >= {"auto_shard", "wire"} and settings(log, OVERRULED) == {"strategy"}, log
        # 1.001 is 1 in bfloat16. A batch of 32 is one of 16 of each worker; without sharding it takes all of them.
        assert "sum 2.0\n" in log and "examples 640\n" in log
