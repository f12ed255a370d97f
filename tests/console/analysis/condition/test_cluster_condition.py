from collections.abc import Callable
from dataclasses import replace

import fakes
import pytest
from phase_simulation import Simulation
from simulated_runs import findings_by_second, simulated
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition, ConditionWatch
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.hangs import hangs
from tfscale.console.engine.events import Event, FrameArrived
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, TaskUsage
from tfscale.core.records.probe_status import Activity, ActivityKind, Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import StepBatch
from tfscale.core.records.task_status import TaskState, TaskStatus
from tfscale.core.text import elapsed

View = Callable[..., ObservedTask]
Make = Callable[[int], Diagnostician]
MakeFrame = Callable[..., Frame]


def judge(*views: ObservedTask, step_time: float | None = 0.1, now: float = 100.0) -> ClusterCondition:
    return ConditionWatch().judge(views, step_time, now)


@pytest.mark.parametrize(
    ("progressed", "step_time", "kind"),
    [
        (99.0, 0.1, Condition.TRAINING),
        (97.9, 0.1, Condition.STILL),
        (80.0, 5.0, Condition.TRAINING),
        (74.0, 5.0, Condition.STILL),
        (92.0, None, Condition.TRAINING),
        (89.0, None, Condition.STILL),
        (None, None, Condition.STARTING),
    ],
)
def test_it_stands_still_after_two_seconds_or_five_steps(
    view: View, progressed: float | None, step_time: float | None, kind: Condition
) -> None:
    views = [view(f"worker:{index}", progressed=progressed) for index in range(2)]
    assert judge(*views, step_time=step_time).kind is kind


def test_a_cluster_whose_tasks_have_ended_has_ended_though_its_servers_run(
    view: View, died: Callable[..., TaskStatus]
) -> None:
    well = died(91.0, code=0)
    assert judge(view("worker:0", progressed=90.0, status=well), view("ps:0")).kind is Condition.ENDED
    served = [view("worker:0", collective=None), view("ps:0", collective=None)]
    assert judge(view("chief:0", progressed=90.0, status=well), *served).kind is Condition.ENDED
    assert judge(view("chief:0", progressed=90.0, status=well), view("worker:0")).kind is Condition.STILL


def test_what_cannot_be_measured_and_who_is_not_heard_is_neither_starting_nor_training(view: View) -> None:
    assert judge(view("worker:0", probe=ProbeStatus(ProbeState.DISABLED))).kind is Condition.UNMEASURED
    gave_up = [view("worker:0", progressed=50.0, probe=ProbeStatus(ProbeState.DISABLED)), view("worker:1")]
    assert judge(*gave_up).kind is Condition.UNMEASURED
    assert judge(view("worker:0", progressed=99.0, heard=90.0)).kind is Condition.UNKNOWN
    assert judge(view("worker:0", up=False)).kind is Condition.UNKNOWN


def test_an_agent_that_is_silent_keeps_nobody_from_saying_that_the_others_train(view: View) -> None:
    assert judge(view("worker:0", progressed=99.0), view("worker:1", progressed=80.0, at=80.0, heard=80.0)).kind is (
        Condition.TRAINING
    )


def second(observer: Diagnostician, make: MakeFrame, at: float, entered: dict[str, int], **changes: object) -> Findings:
    """Fold a second in which no step ends, and diagnose."""
    for name, count in entered.items():
        observer.observe(name, make(at, collective=Collective(count, min(entered.values())), **changes))
    return observer.diagnose(at)


def trained(observer: Diagnostician, workers: int, seconds: float = 30.0) -> None:
    for task, frame in Simulation(workers, 20.0, seconds).frames():
        observer.observe(task, frame)
        if task == f"worker:{workers - 1}":
            observer.diagnose(frame.at)


def test_a_cluster_that_stops_is_said_to_be_still_its_figures_are_zero_and_its_row_has_no_times(
    diagnostician: Make, frame: MakeFrame
) -> None:
    observer = diagnostician(3)
    trained(observer, 3)
    for at in (31.0, 32.0, 33.0, 34.0):
        found = second(observer, frame, at, {"worker:0": 601, "worker:1": 600, "worker:2": 601})
    assert found.condition.kind is Condition.STILL
    assert found.headline.startswith("no step for ") and "worker:1 has not entered the all-reduce" in found.headline
    assert (found.steps_per_second, found.examples_per_second) == (0.0, 0.0)
    assert (found.step_time, found.transfer, found.slowdown) == (None, None, None)
    assert found.subjects["worker:0"].step is not None and found.subjects["worker:0"].compute is None


def test_after_a_stillness_no_rate_of_before_it_is_told(
    diagnostician: Make, frame: MakeFrame, batch: Callable[..., StepBatch]
) -> None:
    observer = diagnostician(2)
    trained(observer, 2)
    for at in range(31, 40):
        second(observer, frame, float(at), {"worker:0": 601, "worker:1": 600})
    found = second(observer, frame, 40.0, {"worker:0": 602, "worker:1": 602})
    assert (found.condition.kind, found.steps_per_second) == (Condition.TRAINING, None)
    assert found.headline == "2 tasks running, steps are made again"
    for worker in ("worker:0", "worker:1"):
        anew = batch(worker, 603, 10, end=[40.1 + 0.05 * step for step in range(10)])
        observer.observe(worker, frame(41.0, anew, collective=Collective(613, 613)))
    assert observer.diagnose(41.0).headline.startswith("healthy: 2 workers in step, 20 steps/s")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ActivityKind.CHECKPOINT, "worker:0 has been saving or restoring a checkpoint since "),
        (ActivityKind.EVALUATION, "worker:0 has been evaluating since "),
        (ActivityKind.COMPILE, "worker:0 has been compiling (a function is traced) since "),
    ],
)
def test_work_without_steps_is_told_as_what_it_is_and_is_no_event(
    diagnostician: Make, frame: MakeFrame, kind: ActivityKind, said: str
) -> None:
    observer = diagnostician(2)
    trained(observer, 2)
    for at in range(31, 60):
        observer.observe(
            "worker:0", frame(float(at), activities=(Activity(kind, 30.0),), collective=Collective(60, 60))
        )
        observer.observe("worker:1", frame(float(at), collective=Collective(61, 60)))
        found = observer.diagnose(float(at))
        assert found.diagnoses == ()
    assert found.headline.startswith(said) and found.headline.endswith("; worker:1 waits")


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_by_an_hour_is_no_hour_without_a_step(
    diagnostician: Make, frame: MakeFrame, batch: Callable[..., StepBatch], by: float
) -> None:
    observer = diagnostician(1)
    for at in range(1, 20):
        shift = by if at > 10 else 0.0
        ends = [at - 0.95 + 0.05 * step + (shift if at > 11 or step > 10 else 0.0) for step in range(20)]
        steps = batch("worker:0", 20 * (at - 1), 20, end=ends) if at != 11 else batch("worker:0", 200, 0)
        observer.observe("worker:0", replace(frame(at + shift, steps), sequence=at))
        assert observer.diagnose(float(at)).headline.startswith(("healthy", "1 task running")), at
    for at in range(20, 40):
        observer.observe("worker:0", replace(frame(at + by), sequence=at))
    assert observer.diagnose(39.0).headline.startswith("no step for 20 s")


def test_a_clock_that_is_set_back_in_a_standstill_is_forgotten_with_the_first_steps_after_it() -> None:
    def on_its_clock(event: Event) -> Event:
        if not isinstance(event, FrameArrived) or event.at < fakes.NOW + 25:
            return event
        steps = tuple(replace(each, end=[end - 80 for end in each.end]) for each in event.frame.steps)
        return replace(event, frame=replace(event.frame, at=event.frame.at - 80, steps=steps))

    events = [on_its_clock(event) for event in simulated(50, 2, "worker:1=hang@20s-30s")]
    after = [found for at, found in findings_by_second(events, 2) if at > fakes.NOW + 32]
    assert all(found.headline.startswith(("healthy: 2 workers in step", "2 workers in step")) for found in after)
    assert [found.steps_per_second for found in after] == [pytest.approx(10.0, rel=0.15)] * len(after)
    assert 35 < sum(after[-1].spent.values()) <= 50, "no second is counted twice"


def test_a_stop_teaches_nothing_about_normal_gaps(
    diagnostician: Make, frame: MakeFrame, batch: Callable[..., StepBatch]
) -> None:
    observer, halted = diagnostician(2), HostSample(0.1, 2, 1.0, 1, 2, 0, task=TaskUsage(1, 9, 0.0, 1, stopped=1))
    trained(observer, 2)
    for at in range(31, 50):
        second(observer, frame, float(at), {"worker:0": 601, "worker:1": 600}, host=halted)
    for worker in ("worker:0", "worker:1"):
        anew = batch(worker, 603, 10, end=[50.1 + 0.05 * step for step in range(10)])
        observer.observe(worker, frame(51.0, anew, collective=Collective(613, 613)))
    assert observer.diagnose(51.0).condition.kind is Condition.TRAINING
    assert all(task.longest_gap < 1.0 for task in observer._tasks.values())


def test_while_tasks_start_their_full_processors_are_no_finding(diagnostician: Make, frame: MakeFrame) -> None:
    observer, busy = diagnostician(3), HostSample(1.0, 2, 6.0, 1, 2, 0, task=TaskUsage(1, 9, 2.0, 1))
    for at in range(1, 60):
        for index in range(3):
            observer.observe(f"worker:{index}", frame(float(at), host=busy))
        found = observer.diagnose(float(at))
        assert found.diagnoses == ()
        start = f"starting for {elapsed(at)}: worker:0, worker:1 and worker:2 prepare their training"
        # The seconds of that stage follow.
        assert found.headline.startswith(start)


def test_once_a_stillness_is_an_event_no_limit_of_before_is_open(
    diagnostician: Make, frame: MakeFrame, batch: Callable[..., StepBatch]
) -> None:
    observer = diagnostician(2)
    for at in range(1, 41):
        for worker in ("worker:0", "worker:1"):
            observer.observe(worker, frame(float(at), batch(worker, 20 * (at - 1), 20, reduce=[0.06] * 20)))
        found = observer.diagnose(float(at))
    assert [each.kind for each in found.diagnoses] == ["saturation"]
    assert found.headline.startswith("communication-bound")
    for at in range(41, 60):
        found = second(observer, frame, float(at), {"worker:0": 801, "worker:1": 800})
        assert "communication" not in found.headline or at < 43
    assert [each.kind for each in found.diagnoses if each.end is None] == ["still"]


def test_after_a_death_the_one_that_lingers_is_not_bound_by_communication(
    diagnostician: Make, frame: MakeFrame, died: Callable[..., TaskStatus]
) -> None:
    observer = diagnostician(2)
    trained(observer, 2)
    for at in range(31, 60):
        observer.observe("worker:0", frame(float(at), collective=Collective(601, 600)))
        observer.observe("worker:1", frame(float(at), status=died(30.5, code=0), collective=Collective(600, 600)))
        found = observer.diagnose(float(at))
        assert not [each for each in found.diagnoses if each.kind in ("saturation", "slowdown")]
    assert "worker:1 left the training" in found.headline


def test_a_restarted_worker_that_the_others_wait_for_is_only_starting(view: View) -> None:
    anew = view("worker:1", status=TaskStatus(TaskState.RUNNING, 1, 2, started=95.0), collective=None)
    still = judge(view("worker:0", progressed=90.0, collective=Collective(11, 10)), anew).stillness
    assert still is not None and still.explanation == "worker:1 is only starting; worker:0 waits"
    ends = view("worker:2", status=TaskStatus(TaskState.STOPPING, 1, 1, started=0.0), collective=None)
    still = judge(view("worker:0", progressed=90.0, collective=Collective(11, 10)), ends).stillness
    assert still is not None and still.explanation == "worker:2 is stopping; worker:0 waits"
    still = judge(view("worker:0", progressed=90.0, collective=Collective(11, 10)), anew, ends).stillness
    assert still is not None
    assert still.explanation == "worker:1 and worker:2 are stopping or only starting; worker:0 waits"


def test_workers_of_servers_that_start_again_are_waited_for_only_where_none_is_left(view: View) -> None:
    loaded = ProbeStatus(ProbeState.LOADED)
    anew = [
        view(f"worker:{index}", status=TaskStatus(TaskState.RUNNING, 2, 1, started=95.0), probe=loaded, collective=None)
        for index in range(2)
    ]
    chief = view("chief:0", progressed=90.0, collective=None)
    still = judge(chief, *anew, view("ps:0")).stillness
    assert still is not None and still.explanation == "worker:0 and worker:1 are only starting; chief:0 waits"
    assert hangs([chief, *anew, view("ps:0")], judge(chief, *anew, view("ps:0"), now=110.0)) == []
    still = judge(chief, view("worker:0", collective=None), anew[1], view("ps:0")).stillness
    assert still is not None and still.explanation == "worker:1 is only starting; who waits for whom is not known"
