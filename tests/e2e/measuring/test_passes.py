"""Stamps mean the same whatever grappler makes of the graph around them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from measuring.measured_workers import measured, middle_phases

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "passes.py"
sys.path.append(str(PROGRAM.parent))

from passes_constants import DELAYS, PASSES  # noqa: E402

pytestmark = pytest.mark.alone

TOLERANCE = 8.0
"""Milliseconds."""


@pytest.mark.tensorflow
@pytest.mark.matrix
def test_each_phase_is_the_same_with_every_pass_on_and_off(tmp_path: Path) -> None:
    workers = measured(tmp_path, PROGRAM, workers=2)
    assert [worker.exit_code for worker in workers] == [0, 0], workers[0].log[-3000:]
    problems = []
    for index, worker in enumerate(workers):
        blocks = [json.loads(line) for line in worker.log.splitlines() if line.startswith("[")]
        assert [name for name, *_ in blocks] == list(PASSES)
        for name, began, ended in blocks:
            shown = middle_phases([row for row in worker.rows if began < row.end <= ended])
            delays = {phase: 1000 * DELAYS.get(phase, 0.0) for phase in shown}
            if index == 0:
                delays = dict.fromkeys(shown, 0.0) | {"reduce": sum(delays.values())}
            wrong = {phase: shown[phase] for phase in shown if not abs(shown[phase] - delays[phase]) < TOLERANCE}
            if wrong or any(map(math.isnan, shown.values())):
                problems.append(f"worker:{index}, {name} switched: {wrong}")
    assert not problems, "\n".join(problems)
