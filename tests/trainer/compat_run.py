"""Runs of `programs/compat/tasks.py` under a strategy, with stock TensorFlow or with the repairs of tfscale."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import tfscale
import tfscale.trainer.probe
from local_cluster import ENVIRONMENT, tasks_of
from loopback import free_addresses

PROGRAM = Path(__file__).parents[1] / "e2e" / "programs" / "compat" / "tasks.py"
SITE = Path(next(iter(tfscale.trainer.probe.__path__))) / "entry" / "site"
STRATEGIES = {
    "one_device": {"worker": 1},
    "mirrored": {"worker": 1},
    "multi_worker": {"worker": 2},
    "parameter_server": {"chief": 1, "worker": 1, "ps": 1},
    "parameter_server_sharded": {"chief": 1, "worker": 1, "ps": 2},
}
KERAS = {"keras 3": {}, "tf_keras": {"TF_USE_LEGACY_KERAS": "1"}}
SECONDS = 100
"""Seconds without a line after which a task counts as hung."""
KERAS_3 = ("accumulated", "moving_average")
"""Tasks that tf_keras cannot do, or does in another way, on any device."""
LEFT_BROKEN = {
    ("mirrored", "tf_keras"): KERAS_3,
    ("multi_worker", "tf_keras"): KERAS_3,
    ("parameter_server", "tf_keras"): (
        *KERAS_3,
        "clipped",
        *("fit", "fit_arrays", "fit_validation", "fit_unbuilt", "fit_distributed", "fit_steps_per_execution"),
        *(
            "fit_sequence",
            "fit_generator",
            "fit_batch_logs",
            "checkpoints",
            "evaluate",
            "evaluate_arrays",
            "evaluate_uneven",
            "on_batch",
            "overflow",
        ),
    ),
}
"""Tasks that are not repaired; docs/reference/compat.md says why."""
Outcome = list[float] | str
"""Numbers, or the reason why there are none."""


@functools.cache
def run(strategy: str, keras: str, repaired: bool, tasks: tuple[str, ...] = (), workers: int = 0) -> dict[str, Outcome]:
    """Return the outcome of each task, at the chief or the first worker; of all tasks by default."""
    roles = STRATEGIES[strategy] | ({"worker": workers} if workers else {})
    with TemporaryFile("w+") as said, _processes(strategy, keras, repaired, tasks, roles, said.fileno()) as first:
        _wait(first, said.fileno())
        said.seek(0)
        lines = said.read().splitlines()
    found = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith(("came ", "failed "))]
    return {name: " ".join(outcome.split()) if isinstance(outcome, str) else outcome for name, outcome in found}


def _wait(process: subprocess.Popen[bytes], said: int) -> None:
    """Wait until it has ended, or writes nothing more."""
    size = -1
    while (grown := os.fstat(said).st_size) > size:
        size = grown
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS)


@contextlib.contextmanager
def _processes(
    strategy: str, keras: str, repaired: bool, tasks: tuple[str, ...], roles: dict[str, int], said: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Start all tasks of the cluster; yield the first one, whose outcome counts, and which writes to `said`."""
    addresses = free_addresses(sum(roles.values()))
    cluster = {role: [*itertools.islice(addresses, number)] for role, number in roles.items()}
    processes = []
    for role, index in tasks_of(roles):
        variables = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}
        environment = os.environ | ENVIRONMENT | KERAS[keras] | (variables if sum(roles.values()) > 1 else {})
        processes.append(
            subprocess.Popen(
                [sys.executable, PROGRAM, strategy, *tasks],
                env=environment | (repairs() if repaired else {}),
                stdout=subprocess.DEVNULL if processes else said,
                stderr=subprocess.DEVNULL,
            )
        )
    try:
        yield processes[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def repairs() -> dict[str, str]:
    """Return an agent's variables, by which the repairs get into the program; no agent listens to its probe."""
    portions = os.pathsep.join(str(Path(path)) for path in tfscale.__path__)
    return {"TFSCALE_REPORT": "/nowhere", "TFSCALE_PROBE_PATH": portions, "PYTHONPATH": str(SITE)}


def error(reference: Outcome, outcome: Outcome) -> float | None:
    """Return the largest relative difference; None where there are no numbers to compare."""
    if isinstance(reference, str) or isinstance(outcome, str) or len(reference) != len(outcome):
        return None
    return max(abs(one - other) / (abs(one) + 1e-6) for one, other in zip(reference, outcome, strict=True))
