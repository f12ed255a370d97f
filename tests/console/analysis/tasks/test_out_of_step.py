from collections.abc import Callable
from dataclasses import replace

from tfscale.console.analysis.condition.cluster_condition import ConditionWatch
from tfscale.console.analysis.headline import headline
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.out_of_step import between_steps, evaluated_alone, left_early
from tfscale.console.analysis.tasks.crashes import CrashWatch
from tfscale.console.analysis.tasks.hangs import hangs
from tfscale.core.failure.task_failure import SETTLE
from tfscale.core.records.probe_status import ActivityKind, Collective
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.text import clock

View = Callable[..., ObservedTask]
Died = Callable[..., TaskStatus]
LEFT = "worker:1 left the training after step 120 (exit 0) while the others went on: it has fewer batches"
UNHEALTHY = "Collective ops is aborted by: the following tasks are unhealthy: /job:worker/replica:0/task:1"


def leaver(view: View, died: Died) -> ObservedTask:
    return view("worker:1", status=died(101.0, code=0), collective=Collective(120, 120), steps=120, progressed=100.0)


def said_of(*views: ObservedTask) -> str:
    return headline([], views, ConditionWatch().judge(views, 0.1, 112.0))


def test_who_has_fewer_batches_is_named_while_the_others_wait(view: View, died: Died) -> None:
    waiting = view("worker:0", collective=Collective(121, 120), progressed=100.0)
    assert said_of(waiting, leaver(view, died)).startswith(LEFT)
    waiting.at = 112.0
    assert LEFT in said_of(waiting, leaver(view, died))


def test_who_has_fewer_batches_is_named_when_the_others_have_failed(view: View, died: Died) -> None:
    ended = died(112.0, code=1)
    assert ended.exit is not None
    failed = replace(ended, exit=replace(ended.exit, log=(UNHEALTHY,)))
    tasks = {
        "worker:0": view("worker:0", status=failed, collective=Collective(121, 120)),
        "worker:1": leaver(view, died),
    }
    watch = CrashWatch()
    watch.diagnose(tasks, 120.0)
    (crash,) = watch.diagnose(tasks, 120.0 + SETTLE)
    assert (crash.subject, crash.evidence["followers"]) == ("worker:1", ("worker:0",))
    assert crash.sentence.startswith(LEFT)
    assert crash.sentence.endswith(f"; worker:0 exited 1 for that at {clock(112.0)}")


def test_workers_that_ended_together_left_nobody_behind(view: View, died: Died) -> None:
    both = [view(f"worker:{index}", status=died(101.0, code=0), collective=Collective(9, 9)) for index in range(2)]
    assert left_early(both) is None
    between = view("worker:0", collective=Collective(120, 120))
    assert left_early([between, leaver(view, died)]) is None, "the other one is about to end, too"


def test_who_evaluates_alone_is_named_and_not_the_worker_that_trains(view: View) -> None:
    alone = view("worker:0", progressed=30.0, activity=ActivityKind.EVALUATION, collective=Collective(558, 557))
    other = view("worker:1", progressed=30.0, collective=Collective(557, 557))
    said = "worker:0 runs another collective (evaluation) than worker:1"
    (hang,) = hangs([alone, other], ConditionWatch().judge([alone, other], 0.1, 100.0))
    assert hang.subject == "worker:0" and hang.sentence.startswith(said)
    assert said in said_of(alone, other)


def test_workers_that_all_evaluate_are_in_step(view: View) -> None:
    both = [view(f"worker:{index}", progressed=30.0, activity=ActivityKind.EVALUATION) for index in range(2)]
    assert hangs(both, ConditionWatch().judge(both, 0.1, 100.0)) == []


def test_who_evaluated_alone_is_named_though_its_evaluation_is_over(view: View, died: Died) -> None:
    """In a real run the evaluation took 0.3 s, and the others took what it exchanged for a part of their step."""
    inside = {"collective": Collective(238, 237), "progressed": 107.0, "at": 112.0}
    alone = view("worker:0", evaluated=106.3, **inside)
    others = [view(f"worker:{index}", evaluated=20.0, **inside) for index in (1, 2)]
    assert said_of(alone, *others).endswith("worker:0 runs another collective (evaluation) than worker:1 and worker:2")
    ended = died(112.0, code=1)
    assert ended.exit is not None
    line = "Aborting RingReduce with INVALID_ARGUMENT: Shape mismatch in the collective instance 333"
    for task in (alone, *others):
        task.status = replace(ended, exit=replace(ended.exit, log=(line,)))
    tasks = {task.name: task for task in (alone, *others)}
    watch = CrashWatch()
    watch.diagnose(tasks, 113.0)
    (crash,) = watch.diagnose(tasks, 113.0 + SETTLE)
    assert (crash.subject, crash.evidence["reason"]) == ("worker:0", "out_of_step")
    assert crash.sentence == (
        "worker:0 runs another collective (evaluation) than worker:1 and worker:2; "
        f"worker:0 exited 1, worker:1 exited 1 and worker:2 exited 1 for that at {clock(112.0)}"
    )


def test_who_ran_another_collective_is_named_by_the_all_reduce_that_it_missed(view: View, died: Died) -> None:
    ended = died(112.0, code=1)
    assert ended.exit is not None
    line = "BaseCollectiveExecutor::StartAbort INTERNAL: Collective instance 315 expected type 0 but got type 1"
    status = replace(ended, exit=replace(ended.exit, log=(line,)))
    tasks = {f"worker:{index}": view(f"worker:{index}", status=status, steps=105) for index in range(3)}
    for index, entered in enumerate((106, 105, 106)):
        tasks[f"worker:{index}"].collective = Collective(entered, 105)
    watch = CrashWatch()
    watch.diagnose(tasks, 113.0)
    (crash,) = watch.diagnose(tasks, 113.0 + SETTLE)
    assert crash.subject == "worker:1"
    assert crash.sentence.startswith(
        "after step 105, worker:1 did not meet worker:0 and worker:2 in the next all-reduce, "
        "but ran another collective: it has fewer batches"
    )


def test_who_reduces_the_metrics_of_its_epoch_is_named_though_all_entered_as_many_collectives(
    view: View, died: Died
) -> None:
    inside = {"progressed": 30.0, "steps": 722}
    left = view("worker:1", collective=Collective(723, 722, between_steps=True), **inside)
    others = [view(f"worker:{index}", collective=Collective(723, 722), **inside) for index in (0, 2)]
    named = (
        "after step 722, worker:1 did not meet worker:0 and worker:2 in the next all-reduce, but ran another "
        "collective: it has fewer batches, ends its loop earlier, or evaluates"
    )
    assert said_of(left, *others).endswith(named)
    (hang,) = hangs([left, *others], ConditionWatch().judge([left, *others], 0.1, 112.0))
    assert hang.subject == "worker:1" and hang.sentence.startswith(named)
    ended = died(112.0, code=1)
    assert ended.exit is not None
    line = "Aborting RingReduce with INVALID_ARGUMENT: Shape mismatch in the collective instance 333"
    others[1].status = replace(ended, exit=replace(ended.exit, log=(line,)))
    watch, tasks = CrashWatch(), {task.name: task for task in (left, *others)}
    watch.diagnose(tasks, 113.0)
    (crash,) = watch.diagnose(tasks, 113.0 + SETTLE)
    assert (crash.subject, crash.sentence) == ("worker:1", f"{named}; worker:2 exited 1 for that at {clock(112.0)}")


def test_who_is_not_heard_is_named_where_all_others_met(view: View, died: Died) -> None:
    """The figures of the one that is not heard are of before."""
    line = "Aborting RingReduce with INVALID_ARGUMENT: Shape mismatch in the collective instance 333"
    ended = died(112.0, code=1)
    assert ended.exit is not None
    status = replace(ended, exit=replace(ended.exit, log=(line,)))
    unheard = view("worker:1", up=False, since=105.0, steps=650, collective=Collective(650, 650))
    tasks = {f"worker:{index}": view(f"worker:{index}", status=status, steps=722) for index in (0, 2)}
    tasks["worker:1"] = unheard
    for entered, subject in ((722, "worker:0"), (723, "worker:1")):
        tasks["worker:0"].collective, tasks["worker:2"].collective = Collective(723, 722), Collective(entered, 722)
        watch = CrashWatch()
        watch.diagnose(tasks, 113.0)
        (crash,) = watch.diagnose(tasks, 113.0 + SETTLE)
        assert crash.subject == subject, crash.sentence
    back = {**tasks, "worker:1": view("worker:1", status=status, up=True)}
    assert watch.diagnose(back, 140.0)[0].subject == "worker:1", "its agent is back, and knows nothing of the end"


def test_where_all_reduce_metrics_nobody_parts(view: View) -> None:
    both = [view(f"worker:{index}", collective=Collective(9, 8, between_steps=True)) for index in range(2)]
    assert between_steps(both) == []
    assert between_steps([*both, view("worker:2", collective=Collective(9, 9))]) == [], "one is still outside"


def test_where_all_have_evaluated_nobody_did_so_alone(view: View) -> None:
    inside = {"collective": Collective(238, 237), "progressed": 107.0}
    assert evaluated_alone([view(f"worker:{index}", evaluated=106.0 - index, **inside) for index in range(3)]) == []
    assert evaluated_alone([view("worker:0", evaluated=90.0, **inside), view("worker:1", **inside)]) == []
