from collections.abc import Callable

from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.no_first_step import no_first_step
from tfscale.core.records.probe_status import ActivityKind, Collective, ProbeState, ProbeStatus

View = Callable[..., ObservedTask]


def two(view: View, **changes: object) -> list[ObservedTask]:
    return [view(f"worker:{index}", **{"collective": None, **changes}) for index in range(2)]


def test_parameter_servers_without_a_chief_wait_for_ever_and_that_is_said(view: View) -> None:
    tasks = [*two(view), view("ps:0", collective=None)]
    (found,) = no_first_step(tasks, 100.0)
    assert (found.kind, found.subject, found.severity, found.begin) == ("not_started", "cluster", "serious", 0.0)
    assert "but no chief, whose program gives the workers their work" in found.sentence
    assert no_first_step(tasks, 59.0) == []
    assert no_first_step([*tasks, view("chief:0", collective=None)], 100.0) == []


def test_a_first_reduction_that_never_returns_is_a_hang(view: View) -> None:
    inside = Collective(1, 0, 30.0)
    (alone,) = no_first_step([view("worker:0", collective=inside)], 100.0)
    assert (alone.kind, alone.subject, alone.begin) == ("hang", "worker:0", 30.0)
    assert alone.sentence.startswith("no first step for 70 s (since ")
    (found,) = no_first_step(two(view, collective=inside), 100.0)
    assert found.subject == "cluster" and "all 2 tasks are inside the first all-reduce" in found.sentence
    assert no_first_step(two(view, collective=inside), 80.0) == []


def test_who_has_not_entered_the_first_collective_is_named_and_only_stuck_if_it_is_idle(view: View) -> None:
    first, second = two(view, collective=Collective(1, 0, 30.0))
    second.collective = Collective(0, 0)
    (found,) = no_first_step([first, second], 100.0)
    assert (found.kind, found.subject) == ("still", "worker:1")
    second.idle_since = 50.0
    assert [each.kind for each in no_first_step([first, second], 100.0)] == ["hang"]


def test_several_tasks_that_compute_nothing_stand_still_and_one_may_wait_for_its_user(view: View) -> None:
    (found,) = no_first_step(two(view, idle_since=60.0), 100.0)
    assert (found.kind, found.subject) == ("still", "cluster")
    assert no_first_step(two(view, idle_since=90.0), 100.0) == []
    assert no_first_step([view("worker:0", collective=None, idle_since=10.0)], 100.0) == []


def test_who_works_who_is_not_measured_and_who_has_not_joined_is_told_elsewhere(view: View) -> None:
    inside = Collective(1, 0, 30.0)
    assert no_first_step(two(view, collective=inside, activity=ActivityKind.COMPILE), 100.0) == []
    assert no_first_step(two(view, collective=inside, probe=ProbeStatus(ProbeState.DISABLED)), 100.0) == []
    assert no_first_step([*two(view, collective=inside), view("worker:2", up=False)], 100.0) == []
    assert no_first_step(two(view, collective=inside, progressed=90.0), 100.0) == []
