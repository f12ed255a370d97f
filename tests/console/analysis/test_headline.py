import re
from collections.abc import Callable

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, ConditionWatch
from tfscale.console.analysis.conspicuous import Conspicuous, ConspicuousWatch
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.headline import headline
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.run.pace_drop import Drop
from tfscale.console.analysis.stragglers.straggler_rule import ShortHistory, Suspect
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import Collective, ProbeState, ProbeStatus
from tfscale.core.records.step_batch import Coordinator, WorkerFunctions
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.text import clock

Make = Callable[[int], Diagnostician]
View = Callable[..., ObservedTask]
TRAINING = ClusterCondition()
TASKS = ("worker:0", "worker:1")


def of_now(views: list[ObservedTask]) -> ClusterCondition:
    return ConditionWatch().judge(views, 0.1, 100.0)


def said_of(*views: ObservedTask) -> str:
    return headline((), views, of_now([*views]))


def test_a_healthy_cluster_is_called_so_with_its_rate(view: View) -> None:
    workers = [view(f"worker:{index}", progressed=99.0) for index in range(3)]
    assert (
        headline((), workers, TRAINING, steps_per_second=12.34)
        == "healthy: 3 workers in step, 12.3 steps/s, no straggler"
    )
    assert headline((), workers[:1], TRAINING, steps_per_second=0.125) == "healthy: worker:0 trains, 8.0 s a step"


def test_a_cluster_that_was_much_faster_within_a_minute_is_not_called_healthy(view: View) -> None:
    workers = [view(f"worker:{index}", progressed=99.0) for index in range(3)]
    said = headline((), workers, TRAINING, steps_per_second=4.7, drop=lambda: Drop(2.9, 3661.0))
    assert said == "3 workers in step, 4.7 steps/s; 2.9x as fast up to " + clock(3661.0)


def test_a_step_that_is_more_than_a_batch_is_told(view: View) -> None:
    def said(**facts: int) -> str:
        probe = ProbeStatus(ProbeState.MEASURING, **facts)  # type: ignore[arg-type]
        return headline(
            (),
            [view(f"worker:{index}", progressed=99.0, probe=probe) for index in range(2)],
            TRAINING,
            steps_per_second=96.0,
        )

    assert said(micro_batches=4) == (
        "healthy: 2 workers in step, 96 steps/s, 1 all-reduce for 4 micro-batches, no straggler"
    )
    assert said(local_steps=8) == "healthy: 2 workers in step, 96 steps/s, 1 all-reduce in 8 steps, no straggler"


def test_what_takes_most_of_the_time_of_a_healthy_run_is_told(view: View) -> None:
    statement = "evaluation takes 60% of the time"
    sentence = f"{statement}; what would help: evaluation less often"
    found = ("saturation", "cluster", 1.0, None, "info", sentence, {"resource": "evaluation"})
    manner = Diagnosis(*found, statement=statement)
    full = Diagnosis(*found[:5], "the hosts' CPUs are full", {"resource": "cpu"})
    workers = [view("worker:0", progressed=99.0)]
    assert headline((manner,), workers, TRAINING, steps_per_second=8.0).endswith(
        "8 steps/s; evaluation takes 60% of the time"
    )
    assert headline((full,), workers, TRAINING, steps_per_second=8.0) == "healthy: worker:0 trains, 8 steps/s"


def test_the_first_open_diagnosis_goes_before_all(view: View) -> None:
    ended = Diagnosis("straggler", "worker:0", 1.0, 2.0, "critical", "was slow")
    opened = Diagnosis("imbalance", "cluster", 1.0, None, "info", "uneven")
    assert headline((ended, opened), [view("worker:0", up=False)], TRAINING, steps_per_second=1.0) == "uneven"


def test_a_crash_is_no_headline_once_its_task_runs_again(view: View) -> None:
    """A console that begins to watch tells the crashes of the last ten minutes, as events."""
    crash = Diagnosis("crash", "worker:0", 50.0, None, "critical", "worker:0 was killed by SIGINT")
    peer, again = view("worker:1", progressed=99.0), TaskStatus(TaskState.RUNNING, 2, 1, started=51.0)
    assert headline((crash,), [view("worker:0"), peer], TRAINING, steps_per_second=1.0) == crash.sentence
    starts = [view("worker:0", status=TaskStatus(TaskState.STARTING, 2, 1)), view("worker:1")]
    assert headline((crash,), starts, of_now(starts)) == "starting for 1 m 40 s: worker:0 is being started"
    trains = [view("worker:0", progressed=99.0, status=again), peer]
    assert (
        headline((crash,), trains, TRAINING, steps_per_second=8.0)
        == "healthy: 2 workers in step, 8 steps/s, no straggler"
    )


def test_a_cluster_that_is_used_well_is_healthy_and_one_at_a_costly_limit_is_not(view: View) -> None:
    used = Diagnosis("saturation", "cluster", 1.0, None, "info", "GPU-bound")
    bound = Diagnosis("saturation", "cluster", 1.0, None, "warning", "communication-bound")
    workers = [view(f"worker:{index}", progressed=99.0) for index in range(2)]
    assert headline((used,), workers, TRAINING, steps_per_second=5.0).startswith("healthy: ")
    assert headline((bound,), workers, TRAINING, steps_per_second=5.0) == "communication-bound"


def test_no_cluster_is_healthy_without_contact_or_with_an_ended_task(view: View) -> None:
    well = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(0, None, 99.0))
    gone = view("worker:1", status=well)
    assert (
        headline((), [view("worker:0"), view("worker:1", up=False)], TRAINING, steps_per_second=5.0)
        == "no contact with the agent of worker:1"
    )
    assert headline((), [view("worker:0"), gone], TRAINING, steps_per_second=5.0) == "worker:1 has ended"
    assert said_of(gone) == "all tasks have ended well"
    unheard = [view(f"worker:{index}", probe=None) for index in range(3)]
    assert said_of(*unheard[:2]).endswith("does not report; 1 more is missing")
    assert said_of(*unheard).endswith("does not report; 2 more are missing")
    new = [view(f"worker:{index}", up=False, at=None, status=None) for index in range(2)]
    assert said_of(view("worker:2"), new[0]) == "waiting for the agent of worker:0, which has not answered so far"
    assert said_of(*new) == "waiting for the agents of worker:0 and worker:1, which have not answered so far"
    left = view("worker:0", status=well, up=False)
    assert said_of(left, gone) == "all tasks have ended well", "with its task an agent may leave"
    served = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(None, 15, 99.0, requested=True))
    assert said_of(gone, view("ps:0", status=served)) == "all tasks have ended well"
    assert said_of(view("worker:0", status=served)) == "all tasks have ended as asked"
    failed = TaskStatus(TaskState.EXITED, 1, 1, exit=Exit(None, 9, 99.0))
    assert said_of(gone, view("ps:0", status=failed)) == "all tasks have ended"


def test_asynchronous_workers_are_in_no_step(view: View) -> None:
    functions = tuple(WorkerFunctions(f"worker:{index}", 7, 0, 0.1, 0.0) for index in range(2))
    chief = view("chief:0", progressed=99.0, coordinator=Coordinator(100.0, 0, 0.0, None, functions))
    said = headline((), [chief, view("worker:0"), view("worker:1"), view("ps:0")], TRAINING, steps_per_second=20.0)
    assert said == "healthy: 2 workers at work, 20 steps/s together"
    why = "restarted by itself after worker:1 was killed by SIGKILL, restart 1 of 10 within 1 h"
    again = TaskStatus(TaskState.RUNNING, 2, 1, started=90.0, reason=why)
    back = view("worker:1", status=again, probe=ProbeStatus(ProbeState.LOADED))
    said = headline((), [chief, view("worker:0"), back, view("ps:0")], TRAINING, steps_per_second=10.0)
    assert said == f"1 worker at work, 10 steps/s together; worker:1 prepares its training ({why})"


def test_nobody_is_called_healthy_whose_newest_steps_are_far_slower(view: View) -> None:
    both = [view(f"worker:{index}", progressed=99.0) for index in range(2)]

    def said(conspicuous: Conspicuous | None) -> str:
        return headline((), both, TRAINING, steps_per_second=13.2, conspicuous=conspicuous)

    assert said(None).endswith("no straggler")
    assert said(Conspicuous("worker:1", 8.34)) == (
        "2 workers in step, 13.2 steps/s; worker:1 is 8.3x slower than its peers in its newest steps, not judged yet"
    )
    assert said(Conspicuous("worker:1", 1.62, ago=3.0)).endswith(
        "; worker:1 was 1.6x slower than its peers until 3.0 s ago"
    )
    # The line in grey beside it says who looks slow.
    assert said(Conspicuous("worker:1", None)) == "2 workers in step, 13.2 steps/s"
    assert said(Conspicuous("worker:1", None, ago=2.0)).endswith("; worker:1 looked slow until 2.0 s ago")


def test_nobody_is_called_healthy_of_whom_too_little_is_known(view: View) -> None:
    workers = [view(f"worker:{index}", progressed=99.0) for index in range(3)]

    def said(seconds: float, steps: int | None = None) -> str:
        return headline((), workers, TRAINING, steps_per_second=9.4, short=ShortHistory(seconds, steps))

    assert said(3.4) == "3 workers in step, 9.4 steps/s; 3 s are too short to name a straggler"
    assert said(0.0).endswith("; 1 s is too short to name a straggler")
    assert said(40.0, 8).endswith("; 8 steps are too few to name a straggler")
    assert said(5.0, 1).endswith("; 1 step is too few to name a straggler")
    assert headline((), workers[:1], TRAINING, steps_per_second=9.4, short=ShortHistory(3.0, None)) == (
        "worker:0 trains, 9.4 steps/s; 3 s are too short to name a straggler"
    )


def test_a_pipeline_tells_its_stages_and_its_bubble(view: View) -> None:
    stages = [SubjectSummary(5, compute=0.5, input=0.1), SubjectSummary(5, compute=0.4, input=0.2)]
    said = headline((), [view("worker:0", progressed=99.0)], TRAINING, steps_per_second=1.6, stages=stages)
    assert said == "healthy: worker:0 trains, 1.6 steps/s, 2 stages, bubble 25%"


def test_the_first_step_is_no_standstill(view: View) -> None:
    entered = {"worker:0": 2, "worker:1": 1}
    views = [
        view(name, progressed=50.0, at=50.0, collective=Collective(entered=count, left=1))
        for name, count in entered.items()
    ]
    assert headline((), views, TRAINING) == "2 tasks running, the first steps are being measured"


def test_before_the_first_step_it_says_what_is_waited_for(view: View) -> None:
    pending = view("worker:1", status=TaskStatus(TaskState.PENDING))
    assert said_of(view("worker:0"), pending) == "waiting for worker:1: its task was not started"
    both = view("worker:0", probe=None), view("worker:1", probe=None, cores=0.9)
    assert said_of(*both) == "waiting for worker:0: its process runs, but does not report"


def test_of_a_cluster_that_stands_still_its_pace_is_not_told(view: View) -> None:
    old = Diagnosis("saturation", "cluster", 1.0, None, "serious", "communication-bound", {})
    views = [
        view(f"worker:{index}", progressed=95.0, collective=Collective(entered=7 + index, left=7)) for index in (0, 1)
    ]
    said = headline((old,), views, of_now(views), steps_per_second=0.0)
    assert said.startswith("no step for 5.0 s (since ") and said.endswith(
        "worker:0 has not entered the all-reduce in which worker:1 waits"
    )
    crash = Diagnosis("crash", "worker:0", 1.0, None, "critical", "worker:0 was killed")
    assert headline((crash, old), views, of_now(views), steps_per_second=0.0) == "worker:0 was killed"
    lasting = Diagnosis("unused_gpus", "worker:0", 1.0, None, "serious", "worker:0 trains on its CPU")
    assert headline((lasting,), views, of_now(views), steps_per_second=0.0) == said
    assert headline((lasting,), views, TRAINING, steps_per_second=5.0) == "worker:0 trains on its CPU"


def test_where_nobody_is_heard_nothing_is_told_of_the_training(view: View) -> None:
    views = [view(f"worker:{index}", progressed=99.0, heard=90.0) for index in range(2)]
    assert said_of(*views) == "nothing is heard from the agents: what the training does is not known"


def headlines(observer: Diagnostician, simulation: Simulation) -> list[str]:
    said = []
    for task, frame in simulation.frames():
        observer.observe(task, frame)
        if task == f"worker:{simulation.workers - 1}":
            said.append(observer.diagnose(frame.at).headline)
    return said


def test_a_ratio_about_the_limit_does_not_make_the_headline_alternate() -> None:
    watch = ConspicuousWatch()
    ratios = [1.0, 1.45, 1.55, 1.45, 1.3, 1.6, 1.45, 1.2, 1.6, 1.2, 1.1, 1.0, 1.0, 1.0, 1.0, 1.0]
    told = [watch.judge(TASKS, {"worker:1": ratio}, None, float(at)) for at, ratio in enumerate(ratios)]
    assert [each is not None for each in told] == [False] * 2 + [True] * 12 + [False] * 2
    assert told[7] == Conspicuous("worker:1", 1.45, ago=1.0)
    assert told[13] == Conspicuous("worker:1", 1.6, ago=5.0)


def test_who_looked_slow_a_moment_ago_is_told_so_and_another_attempt_begins_anew() -> None:
    watch, suspect = ConspicuousWatch(), Suspect("worker:1", 90.0)
    assert watch.judge(TASKS, {}, suspect, 100.0) == Conspicuous("worker:1", None)
    assert watch.judge(TASKS, {}, None, 102.0) == Conspicuous("worker:1", None, ago=2.0)
    assert watch.judge((), {}, None, 103.0) is None, "of a cluster that does not train nothing is said about its pace"
    assert watch.judge(TASKS, {}, None, 104.0) is None


@pytest.mark.parametrize("rate", [0.2, 2.0, 20.0, 400.0])
@pytest.mark.parametrize(
    ("workers", "quick", "named"), [(4, 1, "worker:0 is"), (8, 3, "worker:0, worker:1 and worker:2 are")]
)
def test_more_than_half_slow_from_the_start_are_not_called_healthy(
    diagnostician: Make, workers: int, quick: int, named: str, rate: float
) -> None:
    slow = tuple(Slow(worker, 2.0) for worker in range(quick, workers))
    said = headlines(diagnostician(workers), Simulation(workers, rate, max(40.0, 18 / rate), slow=slow))
    assert not any("healthy" in each for each in said)
    assert re.search(rf"; {named} 1\.[789]x as fast as the other {workers - quick}: they are slow, or ", said[-1])


def test_one_quick_worker_among_many_is_no_news(diagnostician: Make) -> None:
    slow = tuple(Slow(worker, 2.0) for worker in range(1, 8))
    assert headlines(diagnostician(8), Simulation(8, 20.0, 20.0, slow=slow))[-1].startswith("healthy: ")
