"""The programs in examples/, run as all tasks of a cluster, and what to expect of each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from task_cluster import Ran, run_program

EXAMPLES = Path(__file__).parents[2] / "examples"
KERAS = {"keras 3": {}, "tf_keras 2": {"TF_USE_LEGACY_KERAS": "1"}}
SLOW_KERAS = [pytest.param(each, marks=pytest.mark.slow if each == "keras 3" else pytest.mark.matrix) for each in KERAS]
"""Both Keras versions, of which CI takes one."""
TIMEOUT = 150
"""Seconds until a program must have ended."""


@dataclass(frozen=True)
class Program:
    """Expectations of a program in examples/."""

    name: str
    loss: float
    """Bound of the final loss; an untrained model's is 1.39 with four classes, 0.69 with two."""
    steps: int | None
    """Steps of each worker. None: the chief of a ParameterServerStrategy reports how many each worker made."""
    roles: dict[str, int] = field(default_factory=lambda: {"worker": 1})


TWO = {"worker": 2}
SERVERS = {"chief": 1, "worker": 2, "ps": 2}
PROGRAMS = [
    Program("mirrored_fit", 0.35, 72),
    Program("mirrored_custom_loop", 0.35, 72),
    Program("mirrored_2019", 0.35, 96),
    Program("mirrored_save_load", 0.8, 144),
    Program("mirrored_mobilenet", 0.75, 24),
    Program("central_storage_fit", 0.35, 72),
    Program("multi_worker_fit", 0.35, 72, TWO),
    Program("multi_worker_steps_per_execution", 0.35, 108, TWO),
    Program("multi_worker_custom_loop", 0.35, 72, TWO),
    Program("multi_worker_distributed_dataset", 0.35, 72, TWO),
    Program("multi_worker_predict", 0.6, 72, TWO),
    Program("multi_worker_2020", 0.7, 72, TWO),
    Program("multi_worker_side_car", 0.5, 72, TWO | {"evaluator": 1}),
    Program("multi_worker_keras", 0.35, 96, TWO),
    Program("parameter_server_fit", 0.35, None, SERVERS),
    Program("parameter_server_data", 0.35, None, SERVERS),
    Program("parameter_server_custom_loop", 0.45, None, SERVERS),
    Program("parameter_server_side_car", 0.6, None, SERVERS | {"evaluator": 1}),
]


def run(program: Program, keras: str, folder: Path, python: str) -> Ran:
    variables = KERAS.get(keras, {}) | {"CHECKPOINTS": str(folder / "checkpoints")}
    return run_program(folder, [python, EXAMPLES / f"{program.name}.py"], program.roles, variables, TIMEOUT)


def check(ran: Ran, program: Program, keras: str) -> None:
    """Require that it trained, and that its steps were measured. Raises AssertionError."""
    found = losses(ran)
    assert set(found) == ran.ending, {task: log[-1500:] for task, log in ran.logs.items()}
    assert all(ran.exit_code(task) == 0 for task in ran.ending)
    assert all(0 < loss < program.loss for loss in found.values()), found
    assert_measured(ran, program, keras)


def losses(ran: Ran) -> dict[str, float]:
    """Return the final loss of each task that printed one; TensorFlow may complain of its peers' end after it."""
    told = {task: re.findall(r"^final loss (\S+)$", log, re.MULTILINE) for task, log in ran.logs.items()}
    return {task: float(found[-1]) for task, found in told.items() if found}


def assert_measured(ran: Ran, program: Program, keras: str) -> None:
    """Require that all steps of every worker came, in order, and that `compute` is known in nearly all."""
    for index in range(program.roles["worker"]):
        assert f"worker:{index}" in ran.recording.steps
        columns = ran.recording.steps[f"worker:{index}"]
        assert columns["sequence"] == list(range(program.steps or len(columns["sequence"])))
        known = [value for value in columns["compute"] if value is not None]
        assert known and len(known) >= 0.9 * len(columns["compute"])
    reporter = "worker:0" if program.steps else "chief:0"
    probe = [frame["probe"] for frame in ran.recording.frames if frame["task"] == reporter][-1]
    assert probe["state"] == "measuring" and probe["keras"].startswith(keras)
