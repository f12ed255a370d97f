"""Steps that XLA compiles, on one device."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from measuring.measured_workers import measured

PROGRAM = Path(__file__).parents[1] / "programs" / "measuring" / "compiled.py"


def assert_measured(loop: str, folder: Path) -> None:
    (worker,) = measured(folder, PROGRAM, loop)
    assert worker.exit_code == 0, worker.log[-3000:]
    assert [row.sequence for row in worker.rows] == list(range(40))
    known = [row for row in worker.rows[1:] if not math.isnan(row.host + row.input)]
    _, status = worker.sink.statuses[-1]
    assert any("XLA" in warning for warning in status.warnings) is ("gradients" not in loop)
    assert len(known) >= 38, [(row.host, row.input) for row in worker.rows]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_compiled_fit_of_keras_has_all_its_steps(tmp_path: Path) -> None:
    assert_measured("fit", tmp_path)


@pytest.mark.tensorflow
@pytest.mark.matrix
@pytest.mark.parametrize(
    "loop", ["nested", "fit8", "validation", "on_batch", "step", "by_hand", "gradients", "eager_gradients"]
)
def test_a_function_that_xla_compiles_is_a_step_wherever_it_is_called(loop: str, tmp_path: Path) -> None:
    assert_measured(loop, tmp_path)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("loop", ["clustered", "set_jit"])
def test_where_tensorflow_itself_chooses_what_xla_compiles_all_steps_are_there(loop: str, tmp_path: Path) -> None:
    variables = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"} if loop == "clustered" else {}
    (worker,) = measured(tmp_path, PROGRAM, loop, variables=variables)
    assert worker.exit_code == 0, worker.log[-3000:]
    assert [row.sequence for row in worker.rows] == list(range(40))
