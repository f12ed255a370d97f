import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.condition.cluster_condition import ConditionWatch
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks import hangs as rules
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus

View = Callable[..., ObservedTask]


def hangs(views: list[ObservedTask]) -> list[Diagnosis]:
    """Return the hangs of tasks whose usual step takes a tenth of a second; not what only stands still."""
    condition = ConditionWatch().judge(views, 0.1, max(each.at or 0.0 for each in views))
    return [each for each in rules.hangs(views, condition) if each.kind == "hang"]


def pair(view: View, **changes: object) -> list[ObservedTask]:
    """Return two workers without a step since second 30: worker:0 waits in a collective, worker:1 before it."""
    waiting = view("worker:0", progressed=30.0, collective=Collective(558, 557, 30.1))
    stuck = view("worker:1", **{"progressed": 30.0, "collective": Collective(557, 557), **changes})
    return [waiting, stuck]


def test_whoever_has_not_entered_the_collective_is_stuck(view: View) -> None:
    (hang,) = hangs(pair(view))
    assert (hang.kind, hang.subject, hang.begin, hang.severity) == ("hang", "worker:1", 30.0, "critical")
    assert "has not entered the all-reduce in which worker:0 waits" in hang.sentence


def test_who_waits_for_a_task_that_starts_again_sees_no_trouble_until_it_rests(view: View) -> None:
    anew = TaskStatus(TaskState.RUNNING, 2, 1, started=60.0)

    def found(**changes: object) -> list[str]:
        waiting = view("worker:0", progressed=30.0, collective=Collective(558, 557, 30.1))
        views = [waiting, view("worker:1", status=anew, probe=None, collective=None, **changes)]
        return [each.kind for each in rules.hangs(views, ConditionWatch().judge(views, 0.1, 100.0))]

    assert found(cores=0.9) == []
    assert found(cores=0.0, idle_since=65.0) == ["still"]


@pytest.mark.parametrize(
    ("counters", "where"),
    [
        ((Collective(558, 557), Collective(558, 557)), "look at the network"),
        ((Collective(557, 557), Collective(557, 557)), "wait for what they share"),
        ((Collective(558, 557), None), "who waits for whom is not known"),
    ],
)
def test_otherwise_nobody_is_named(
    view: View, counters: tuple[Collective | None, Collective | None], where: str
) -> None:
    views = [view(f"worker:{i}", progressed=30.0, collective=each) for i, each in enumerate(counters)]
    (hang,) = hangs(views)
    assert hang.subject == "cluster"
    assert where in hang.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"progressed": 45.0},
        {"longest_gap": 15.0},
        {"activity": ActivityKind.EVALUATION},
        {"up": False},
        {"progressed": None},
        {"status": TaskStatus(TaskState.EXITED, 1, 1)},
    ],
)
def test_it_is_no_hang_while_it_may_be_something_else(view: View, changes: dict[str, object]) -> None:
    assert hangs(pair(view, **changes)) == []


def test_an_evaluator_that_waits_for_checkpoints_keeps_nobody_waiting(view: View) -> None:
    assert hangs([*pair(view, progressed=99.0), view("evaluator:0", progressed=10.0)]) == []


def test_the_longest_normal_gap_is_learnt_after_the_warm_up(
    view: View, batch: Callable[..., StepBatch], frame: Callable[..., Frame]
) -> None:
    worker = view("worker:0")
    worker.observe(frame(100.0, batch("worker:0", 0, 5, end=[60.0, 61.0, 62.0, 63.0, 64.0])))
    assert worker.longest_gap == 0.0
    worker.observe(frame(101.0, batch("worker:0", 5, 3, end=[66.0, 66.1, 74.1])))
    assert worker.longest_gap == pytest.approx(8.0)
    assert worker.progressed == 74.1


def test_ends_that_are_no_moments_count_for_nothing(
    view: View, batch: Callable[..., StepBatch], frame: Callable[..., Frame]
) -> None:
    worker = view("worker:0")
    worker.observe(frame(100.0, batch("worker:0", 5, 4, end=[60.0, math.inf, 62.0, 65.0])))
    worker.observe(frame(101.0, batch("worker:0", 9, 2, end=[66.0, math.inf])))
    worker.observe(frame(102.0, batch("worker:0", 11, 1, end=[math.nan])))
    assert (worker.longest_gap, worker.progressed) == (3.0, 66.0)


def of_any_kind(views: list[ObservedTask]) -> list[Diagnosis]:
    return rules.hangs(views, ConditionWatch().judge(views, 0.1, max(each.at or 0.0 for each in views)))


def test_from_ten_seconds_on_it_is_an_event_that_names_who_is_waited_for(view: View) -> None:
    assert of_any_kind(pair(view, at=39.0, cores=1.0)) == []
    both = [replace(each, at=41.0) for each in pair(view, cores=0.0)]
    (still,) = of_any_kind(both)
    assert (still.kind, still.subject, still.severity, still.begin) == ("still", "worker:1", "warning", 30.0)
    assert still.sentence.startswith("no step for 11 s (since ") and still.sentence.endswith(
        "worker:1 has not entered the all-reduce in which worker:0 waits; its process waits for something, and "
        "computes nothing"
    )


def test_a_process_at_work_is_not_stuck_for_ten_minutes(view: View) -> None:
    (still,) = of_any_kind(pair(view, cores=1.4))
    assert (still.kind, still.subject, still.severity) == ("still", "worker:1", "warning")
    assert still.sentence.endswith("in which worker:0 waits; its process is at work (1.4 cores)")
    (hang,) = of_any_kind([replace(each, at=631.0) for each in pair(view, cores=1.4)])
    assert hang.kind == "hang" and hang.sentence.startswith("worker:1 has made no step for 10 min (since ")


@pytest.mark.parametrize(("idle_since", "kind"), [(93.0, "still"), (89.0, "hang")])
def test_a_moment_without_cpu_does_not_end_the_work_of_a_process(view: View, idle_since: float, kind: str) -> None:
    (found,) = of_any_kind(pair(view, cores=0.0, idle_since=idle_since))
    assert found.kind == kind


def test_a_process_that_a_signal_has_stopped_need_not_be_waited_for_a_minute(view: View) -> None:
    (hang,) = of_any_kind([replace(each, at=41.0) for each in pair(view, stopped=True)])
    assert (hang.kind, hang.subject, hang.severity) == ("hang", "worker:1", "critical")
    assert hang.sentence.endswith("a signal has stopped its process; worker:0 waits")


def test_a_steps_own_length_and_pauses_that_come_again_are_no_events(view: View) -> None:
    views, watch = pair(view), ConditionWatch()
    assert rules.hangs(views, watch.judge(views, 8.0, 100.0)) == []
    for _ in range(3):
        for at, progressed in ((100.0, 80.0), (101.0, 101.0)):
            views = [replace(each, at=at, progressed=progressed) for each in views]
            watch.judge(views, 0.1, at)
    paused = [replace(each, at=125.0, progressed=101.0) for each in views]
    assert watch.judge(paused, 0.1, 125.0).stillness is None
    assert rules.hangs(paused, watch.judge(paused, 0.1, 125.0)) == []


def test_a_program_at_its_own_work_has_a_minute_before_it_is_an_event(view: View) -> None:
    both = [view(f"worker:{index}", progressed=30.0, at=50.0, cores=1.0) for index in range(2)]
    assert of_any_kind(both) == [] and of_any_kind(both[:1]) == []
    (still,) = of_any_kind([replace(each, at=91.0) for each in both])
    assert (still.kind, still.severity) == ("still", "warning")
    assert still.sentence.endswith(
        "nobody is inside the all-reduce; worker:0 and worker:1 are at work (1.0 and 1.0 cores)"
    )
    assert [each.kind for each in of_any_kind([replace(each, at=631.0) for each in both])] == ["hang"]
    assert [each.kind for each in of_any_kind([replace(each, cores=0.0) for each in both])] == ["still"]
    inside = Collective(11, 10)
    assert [each.kind for each in of_any_kind([replace(each, collective=inside) for each in both])] == ["still"]


def test_of_a_task_that_is_not_heard_nobody_says_that_it_hangs(view: View) -> None:
    waiting, silent = pair(view)
    cut = replace(silent, at=31.0, heard=31.0)
    (still,) = of_any_kind([waiting, cut])
    assert (still.kind, still.subject) == ("still", "worker:1")
    assert "nothing is heard from the agent of worker:1 since" in still.sentence


def test_of_a_task_that_was_never_heard_no_time_is_told_since_when(view: View) -> None:
    never = view("worker:1", at=None, status=None, progressed=None)
    never.note_link(False, 40.0)
    (still,) = of_any_kind([pair(view)[0], never])
    assert "nothing is heard from the agent of worker:1 since the console began to watch" in still.sentence


def test_of_a_task_that_is_not_heard_nobody_says_that_it_waits(view: View, died: Callable[..., TaskStatus]) -> None:
    waiting, silent = pair(view)
    three = [
        waiting,
        replace(silent, at=31.0, heard=31.0),
        view("worker:2", status=died(99.0, code=1), progressed=30.0),
    ]
    still = ConditionWatch().judge(three, 0.1, 100.0).stillness
    assert still is not None
    assert (list(still.late), still.waiting) == (["worker:2"], ("worker:0",))


def test_a_crash_is_not_told_again_as_a_stillness(view: View, died: Callable[..., TaskStatus]) -> None:
    waiting, dead = pair(view, status=died(31.0, signal=9))
    assert of_any_kind([waiting, dead]) == []
    waiting, left = pair(view, status=died(31.0, code=0))
    saving = replace(waiting, collective=Collective(557, 557))
    assert of_any_kind([saving, left]) == []
    condition = ConditionWatch().judge([saving, left], 0.1, 100.0)
    assert condition.stillness is not None
    assert condition.stillness.explanation == "worker:1 has ended well, and worker:0 runs"
    (still,) = of_any_kind([waiting, left])
    assert (still.kind, still.subject) == ("still", "worker:1") and "worker:1 left the training" in still.sentence


def test_idle_is_no_excuse(view: View) -> None:
    (hang,) = hangs(pair(view, activity=ActivityKind.IDLE))
    assert hang.subject == "worker:1"


@pytest.mark.parametrize("kind", [ActivityKind.COMPILE, ActivityKind.CHECKPOINT, ActivityKind.EVALUATION])
def test_what_lasts_ten_minutes_is_a_hang_whatever_is_done(view: View, kind: ActivityKind) -> None:
    assert hangs(pair(view, activity=kind, at=629.0)) == []
    assert hangs([replace(each, at=631.0) for each in pair(view, activity=kind)])


def test_the_time_counts_from_the_end_of_a_long_evaluation(
    view: View, frame: Callable[..., Frame], batch: Callable[..., StepBatch]
) -> None:
    task = view("worker:0")
    task.observe(frame(10.0, batch("worker:0", 180, 20)))
    task.observe(frame(109.0, activities=(Activity(ActivityKind.EVALUATION, 10.1),)))
    assert hangs([task]) == []
    task.observe(frame(111.0, activities=(Activity(ActivityKind.EVALUATION, 10.1, 110.4),)))
    assert hangs([task]) == []
    task.observe(frame(112.0))
    assert hangs([task]) == []
    task.observe(frame(171.0))
    (hang,) = hangs([task])
    assert hang.begin == 110.4
