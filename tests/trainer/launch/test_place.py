"""Places of tasks in clusters, and clusters that do not fit a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tfscale.core.errors import UsageError
from tfscale.trainer.launch.catalogue import Entry
from tfscale.trainer.launch.place import check_tasks, own_tasks, read_place
from tfscale.trainer.launch.plan import Plan, make_plan
from tfscale.trainer.slow.delay import Delay


def plan(program: str = "digits", strategy: str = "multi-worker", **given: Any) -> Plan:
    return make_plan({"program": program, "strategy": strategy} | given, {})


@pytest.mark.parametrize(
    ("strategy", "given", "tasks"),
    [
        ("one-device", {}, {"worker": 1}),
        ("multi-worker", {}, {"worker": 2}),
        ("multi-worker", {"workers": 3}, {"worker": 3}),
        ("parameter-server", {"servers": 3}, {"chief": 1, "worker": 2, "ps": 3}),
        ("parameter-server", {"evaluators": 1}, {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1}),
        ("one-device", {"input": "service=3"}, {"worker": 1, "dispatcher": 1, "dataworker": 3}),
    ],
)
def test_a_strategy_knows_the_tasks_of_its_cluster(strategy: str, given: dict[str, Any], tasks: dict[str, int]) -> None:
    made = plan(strategy=strategy, **given)
    assert made.local_tasks == tasks
    check_tasks(made, tasks)


def test_the_place_is_that_of_tf_config() -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1", "b:2"]}
    place = read_place({"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}})})
    assert (place.role, place.index, place.tasks, place.leads) == ("worker", 1, {"chief": 1, "worker": 2}, False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not of the form"),
        ("[]", "is not of the form"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "x"}}', "is not of the form"),
        ('{"cluster": {"worker": 1}, "task": {"type": "worker", "index": 0}}', "is not of the form"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "worker:1 is not in its cluster"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "boss"}}', "boss:0 is not in its cluster"),
        ('{"cluster": {"worker": "a:1"}, "task": {"type": "worker"}}', "is not of the form"),
        ('{"cluster": {"worker": "127.0.0.1:1"}}', "is not of the form"),
    ],
)
def test_a_wrong_tf_config_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        read_place({"TF_CONFIG": text})
    assert "\n" not in str(raised.value)


def test_delays_are_by_task() -> None:
    made = plan(slow=["worker:1=60ms,input@3s"])
    assert made.slow == {"worker:1": Delay("input", 0.06, start=3.0)}
    check_tasks(made, {"worker": 2})
    with pytest.raises(UsageError, match=r"--slow worker:1: the tasks that train are worker:0$"):
        check_tasks(made, {"worker": 1})


@pytest.mark.parametrize(
    ("made", "tasks", "said"),
    [
        (plan(strategy="mirrored"), {"worker": 2}, "has 2 tasks of the role worker, not 1"),
        (plan(workers=3), {"worker": 2}, "--workers 3: this cluster has 2"),
        (plan(), {"worker": 2, "ps": 1}, "multi-worker has no ps: its tasks are chief, worker"),
        (plan(strategy="parameter-server"), {"worker": 2, "ps": 1}, "0 tasks of the role chief, not 1"),
    ],
)
def test_a_cluster_that_the_strategy_cannot_use_is_refused(made: Plan, tasks: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_tasks(made, tasks)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (plan(workers=3, global_batch=64), "--global-batch 64: not divisible by 3 workers"),
        (plan(strategy="mirrored", replicas=2, global_batch=65), "--global-batch 65: not divisible by 2 replicas"),
    ],
)
def test_a_batch_that_cannot_be_shared_out_is_refused_without_tensorflow(made: Plan, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}$"):
        check_tasks(made, made.local_tasks)
    check_tasks(plan(workers=3, global_batch=66), {"worker": 3})
    check_tasks(plan(strategy="parameter-server", global_batch=65), {"chief": 1, "worker": 2, "ps": 2})
    check_tasks(plan(strategy="mirrored", global_batch=65), {"worker": 1})


@pytest.mark.parametrize(
    ("text", "tasks", "address", "said"),
    [
        ("service=2", {"worker": 2}, "", "service=2: this cluster has none: add a dispatcher and dataworkers"),
        (
            "service=2",
            {"worker": 2, "dispatcher": 1, "dataworker": 3},
            "",
            "service=2: this cluster has 3 dataworkers: write service=3",
        ),
        ("cache", {"worker": 2, "dispatcher": 1, "dataworker": 3}, "", "has a tf.data service: ask for it"),
        ("cache", {"worker": 2}, "grpc://10.0.0.6:2222", "has a tf.data service: ask for it"),
    ],
)
def test_a_cluster_has_a_service_of_data_if_and_only_if_it_is_asked_for(
    text: str, tasks: dict[str, int], address: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        check_tasks(plan(input=text), tasks, address)
    check_tasks(plan(input="service=3"), {"worker": 2}, "grpc://10.0.0.6:2222")
    check_tasks(plan(input="service=3"), {"worker": 2, "dispatcher": 1, "dataworker": 3})


def test_a_program_with_its_own_command_line_has_the_tasks_of_its_roles() -> None:
    program = Entry(
        "program", "own", "", {"ROLES": {"chief": (None, 1, 1, 1), "worker": ("workers", 2, 1, 4)}}, frozenset()
    )
    assert own_tasks(program, ["--steps", "5"], None) == {"chief": 1, "worker": 2}
    assert own_tasks(program, ["--workers", "3"], None) == {"chief": 1, "worker": 3}
    assert own_tasks(program, [], {"chief": 1, "worker": 4}) == {"chief": 1, "worker": 4}
    assert own_tasks(Entry("program", "alone", "", {}, frozenset()), [], None) == {"worker": 1}
    with pytest.raises(UsageError, match="own: this cluster has 9 tasks of the role worker, not 1 to 4"):
        own_tasks(program, [], {"chief": 1, "worker": 9})
    for number in ("0", "9"):
        with pytest.raises(UsageError, match=f"^--workers {number}: use 1 to 4 with own$"):
            own_tasks(program, ["--workers", number], None)
    with pytest.raises(UsageError, match="--workers 3: this cluster has 2; leave --workers out"):
        own_tasks(program, ["--workers", "3"], {"chief": 1, "worker": 2})
    with pytest.raises(UsageError, match="own has no ps: its tasks are chief, worker"):
        own_tasks(program, [], {"chief": 1, "worker": 2, "ps": 1})
