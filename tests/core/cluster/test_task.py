import pytest
from tfscale.core.cluster.task import CLUSTER, Role, Task, parse_role, subject_task
from tfscale.core.errors import UsageError


def test_a_name_and_its_task_are_the_same_thing() -> None:
    assert Task.parse("worker:12") == Task(Role.WORKER, 12)
    assert str(Task(Role.WORKER, 12)) == "worker:12"


@pytest.mark.parametrize("name", ["worker", "worker:", "worker:-1", "worker:1/replica:0", "Worker:1", ""])
def test_what_is_no_task_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(UsageError, match="write role:index, for example worker:1"):
        Task.parse(name)


def test_master_is_the_chief_and_other_roles_are_unknown() -> None:
    assert parse_role("master") is Role.CHIEF
    with pytest.raises(UsageError, match="use one of chief, worker, ps, evaluator"):
        parse_role("server")


def test_tasks_sort_by_role_then_by_number() -> None:
    names = ["worker:10", "worker:2", "evaluator:0", "chief:0", "ps:0"]
    assert [str(task) for task in sorted(map(Task.parse, names))] == [
        "chief:0",
        "worker:2",
        "worker:10",
        "ps:0",
        "evaluator:0",
    ]


def test_a_subject_belongs_to_a_task_but_for_the_cluster() -> None:
    assert subject_task("worker:1/replica:0") == Task(Role.WORKER, 1)
    assert subject_task("worker:1") == Task(Role.WORKER, 1)
    assert subject_task(CLUSTER) is None
