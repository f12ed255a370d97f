from collections.abc import Callable
from dataclasses import replace

from tfscale.core.analysis.condition.cluster_condition import ConditionWatch
from tfscale.core.analysis.headline import headline
from tfscale.core.analysis.tasks.crashes import SETTLE, CrashWatch
from tfscale.core.analysis.tasks.hangs import hangs
from tfscale.core.analysis.tasks.observed_task import ObservedTask
from tfscale.core.analysis.tasks.out_of_step import left_early
from tfscale.core.records import ActivityKind, Collective, TaskStatus

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
    assert (crash.subject, crash.evidence["followers"]) == ("worker:1", "worker:0")
    assert crash.sentence.startswith(LEFT)
    assert crash.sentence.endswith("; worker:0 exited 1 for that")


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
