"""The programs in examples/, unmodified, as all tasks of a cluster: they train, and their steps are measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from example_programs import KERAS, PROGRAMS, Program, check, run

QUICK = ("multi_worker_steps_per_execution", "keras 3")
CASES = [
    pytest.param(
        program,
        keras,
        id=f"{program.name}-{keras.replace(' ', '')}",
        marks=[] if (program.name, keras) == QUICK else [pytest.mark.slow if keras == often else pytest.mark.matrix],
    )
    for place, program in enumerate(PROGRAMS)
    # Every third program with one Keras, most with Keras 3, which has the most repairs.
    for often in [None if place % 3 else "tf_keras 2" if place % 9 == 0 else "keras 3"]
    for keras in KERAS
]


@pytest.mark.tensorflow
@pytest.mark.parametrize(("program", "keras"), CASES)
def test_a_program_trains_and_is_measured(tmp_path: Path, program: Program, keras: str) -> None:
    check(run(program, keras, tmp_path, sys.executable), program, keras)
