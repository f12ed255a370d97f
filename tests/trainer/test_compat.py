"""Repairs: the faults of stock TensorFlow and Keras, and under tfscale the same results as on one device.

Where a test about stock fails because it succeeds, upstream has mended it, and the repair goes.
"""

from __future__ import annotations

import pytest
from compat_run import KERAS_3, LEFT_BROKEN, Outcome, error, run

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

TOLERANCE = 1e-4
"""Relative difference of losses, metrics, sums of weights and predictions after up to 30 steps."""
ASYNCHRONOUS = 0.15
"""Relative difference of the losses of two workers that do not wait for each other."""
HALF_PRECISION = 1e-2

ON_SERVERS = "parameter_server"
STOCK = {
    ("mirrored", "keras 3"): {
        "fit_steps_per_execution": "",
        "fit_creator": "has no attribute 'experimental'",
        "custom_loop": "You must feed a value for placeholder tensor",
        "moving_average": "`merge_call` called while defining a new graph",
        "accumulated": "`merge_call` called while defining a new graph",
    },
    ("multi_worker", "keras 3"): {
        "fit": "Attempt to convert a value (PerReplica",
        "fit_steps_per_execution": "Attempt to convert a value (PerReplica",
        "evaluate": "Attempt to convert a value (PerReplica",
        "on_batch": "Invalid reduction dimension 0",
        "fit_creator": "has no attribute 'experimental'",
    },
    (ON_SERVERS, "keras 3"): {
        "fit": "create_per_worker_dataset",
        "evaluate": "create_per_worker_dataset",
        "predict_dataset": "create_per_worker_dataset",
    },
    ("multi_worker", "tf_keras"): {"fit_distributed": "you must specify the number of steps"},
    (ON_SERVERS, "tf_keras"): {"fit_distributed": "you must specify the number of steps"},
}
"""Results of stock 2.21.0 (Keras 3.15.1, tf_keras 2.21.0)."""
SYNCHRONOUS_ONLY = ("custom_loop", "overflow", "logs_of_batches")


def reference() -> dict[str, Outcome]:
    """Return the results of stock Keras on one device: tf_keras, and Keras 3 for its own tasks."""
    return run("one_device", "tf_keras", repaired=False) | run("one_device", "keras 3", repaired=False, tasks=KERAS_3)


@pytest.mark.parametrize(("strategy", "keras"), STOCK)
def test_stock_still_needs_the_repairs(strategy: str, keras: str) -> None:
    expected = STOCK[strategy, keras]
    found = run(strategy, keras, repaired=False, tasks=tuple(expected))
    for task, words in expected.items():
        outcome = found[task]
        assert isinstance(outcome, str) and words in outcome, (task, outcome)


def test_stock_predicts_wrongly_where_nothing_is_sharded() -> None:
    found = run("multi_worker", "keras 3", repaired=False, tasks=("predict_dataset_off",))
    wrong = error(reference()["predict_dataset_off"], found["predict_dataset_off"])
    assert wrong is not None and wrong > 0.05


@pytest.mark.parametrize(
    ("strategy", "keras", "task"),
    [
        ("mirrored", "keras 3", "fit_generator"),
        ("mirrored", "keras 3", "clipped"),
        ("multi_worker", "tf_keras", "on_batch"),
    ],
)
def test_stock_trains_or_tells_wrong_numbers(strategy: str, keras: str, task: str) -> None:
    wrong = error(reference()[task], run(strategy, keras, repaired=False, tasks=(task,))[task])
    assert wrong is not None and wrong > 0.5


def test_stock_spoils_the_weights_where_one_replica_overflows() -> None:
    found = run("mirrored", "keras 3", repaired=False, tasks=("overflow",))
    wrong = error(reference()["overflow"], found["overflow"])
    assert wrong is not None and not wrong < HALF_PRECISION


@pytest.mark.parametrize("keras", ["keras 3", pytest.param("tf_keras", marks=pytest.mark.matrix)])
@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker"])
def test_the_same_comes_out_as_on_one_device(strategy: str, keras: str) -> None:
    found = run(strategy, keras, repaired=True)
    for task, expected in reference().items():
        if task not in LEFT_BROKEN.get((strategy, keras), ()):
            wrong = error(expected, found.get(task, "hangs"))
            tolerance = HALF_PRECISION if task == "overflow" else TOLERANCE
            assert wrong is not None and wrong < tolerance, (task, wrong, found.get(task))


def test_one_worker_with_servers_comes_to_the_same_as_one_device() -> None:
    found = run(ON_SERVERS, "keras 3", repaired=True)
    for task, expected in reference().items():
        if task not in SYNCHRONOUS_ONLY:
            wrong = error(expected, found.get(task, "hangs"))
            assert wrong is not None and wrong < TOLERANCE, (task, wrong, found.get(task))


def test_two_workers_with_servers_come_near_one_device() -> None:
    tasks = ("fit_validation", "fit_validation_steps", "fit_steps_per_execution", "evaluate_uneven", "predict_uneven")
    found = run(ON_SERVERS, "keras 3", repaired=True, tasks=tasks, workers=2)
    expected = reference()
    for task in ("evaluate_uneven", "predict_uneven"):
        wrong = error(expected[task], found[task])
        assert wrong is not None and wrong < TOLERANCE, task
    for task in ("fit_validation", "fit_validation_steps", "fit_steps_per_execution"):
        # Accuracies, losses, then the same of the validation; weights differ more.
        wrong = error(expected[task][:8], found[task][:8])
        assert wrong is not None and wrong < ASYNCHRONOUS, (task, expected[task], found[task])
    # Every one of the steps of both workers is counted.
    assert found["fit_validation_steps"][-1] == 20
    assert found["fit_steps_per_execution"][-1] == 20


def test_fit_goes_on_when_a_worker_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECOND_WORKER_LIVES", "12")
    missing, loss = run(ON_SERVERS, "keras 3", repaired=True, tasks=("fit_20_seconds",), workers=2)["fit_20_seconds"]
    assert missing == 0
    assert 0 < float(loss) < 0.2
