"""Workers that end of a peer whose process is stopped: nobody has died, and who was stopped is told to the end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.network.outages import Outages
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, TaskUsage
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.text import clock

HOST = HostSample(0.5, 2, 1.0, 1 << 30, 8 << 30, 0)
LINE = "Collective ops is aborted by: Deadline Exceeded"


class Cluster:
    """Three workers of which the second one may be held."""

    def __init__(self, observer: Diagnostician, frame: Callable[..., Frame], died: Callable[..., TaskStatus]) -> None:
        self.observer, self._frame, self._died = observer, frame, died
        self.holds_all = False

    def second(self, at: float, held: TaskUsage | None = None, ended: Collection[int] = ()) -> str:
        for index in range(3):
            usage = held if index == 1 or self.holds_all else None
            told = replace(self._frame(at), host=replace(HOST, task=usage))
            if index in ended:
                status = self._died(1010.0 if index != 1 else 1032.0, code=1)
                assert status.exit is not None
                told = replace(told, status=replace(status, exit=replace(status.exit, log=(LINE,))))
            self.observer.observe(f"worker:{index}", told)
        return self.observer.diagnose(at).headline


@pytest.fixture
def three(
    diagnostician: Callable[[int], Diagnostician], frame: Callable[..., Frame], died: Callable[..., TaskStatus]
) -> Cluster:
    return Cluster(diagnostician(3), frame, died)


@pytest.mark.parametrize(
    ("held", "how"),
    [
        (TaskUsage(1, 1, None, 1, stopped=1), "stopped by a signal"),
        (TaskUsage(1, 1, None, 1, traced=1), "stopped by a debugger"),
        (TaskUsage(1, 1, None, 1, frozen=True), "frozen with its container"),
    ],
    ids=["signal", "debugger", "frozen"],
)
def test_workers_that_end_of_a_stopped_one_name_it_while_it_lasts_and_afterwards(
    three: Cluster, held: TaskUsage, how: str
) -> None:
    three.second(999.0)
    for second in range(1000, 1030):
        headline = three.second(float(second), held, ended=[0, 2] if second > 1010 else [])
    assert headline == f"worker:1 has been {how} since {clock(1000)}; worker:0 and worker:2 ended of that"
    for second in range(1030, 1040):
        headline = three.second(float(second), ended=[0, 1, 2] if second > 1032 else [0, 2])
    assert headline == (
        f"worker:1 was {how} from {clock(1000)} to {clock(1030)}; worker:0, worker:1 and worker:2 ended of that"
    )


def test_all_that_were_stopped_together_are_told_together(three: Cluster) -> None:
    three.second(999.0)
    three.holds_all = True
    for second in range(1000, 1008):
        three.second(float(second), TaskUsage(1, 1, None, 1, stopped=1))
    for second in range(1008, 1020):
        headline = three.second(float(second), ended=[0, 2])
    assert headline == (
        f"worker:0, worker:1 and worker:2 were stopped by a signal from {clock(1000)} to {clock(1008)}; "
        "worker:0 and worker:2 ended of that"
    )


def test_a_stop_of_a_moment_explains_nothing(three: Cluster) -> None:
    three.second(999.0)
    three.second(1007.0, TaskUsage(1, 1, None, 1, stopped=1))
    for second in range(1008, 1018):
        headline = three.second(float(second), ended=[0, 2] if second > 1010 else [])
    assert "stopped by a signal" not in headline


def test_the_last_pair_to_hear_each_other_belongs_to_the_outage_of_its_host() -> None:
    def cut(subject: str, other: str | None = None) -> Diagnosis:
        return Diagnosis("cut_off", subject, 1000.0, None, "critical", "", {"from": other})

    outages = Outages()
    for at, found in ((1003.0, [cut("worker:2")]), (1060.0, [cut("worker:0", "worker:2")]), (1061.0, [])):
        outages.note_cut_off(found, at, lambda _task, _since: False)
    line = {"code": 1, "reason": "peer_died", "followers": None}
    crash = Diagnosis("crash", "worker:0", 1012.0, None, "critical", "", line)
    (told,) = outages.explain([crash])
    assert told.sentence == (f"worker:2's network was gone from {clock(1000)} to {clock(1061)}; worker:0 ended of that")


def test_of_a_host_whose_task_was_placed_on_another_nobody_knows_whether_it_is_back() -> None:
    outages = Outages()
    cut = Diagnosis("cut_off", "worker:1", 1000.0, None, "critical", "")
    for at, found in ((1003.0, [cut]), (1042.0, [])):
        outages.note_cut_off(found, at, lambda task, _since: task == "worker:1")
    line = {"code": 1, "reason": "peer_died", "followers": None}
    (told,) = outages.explain([Diagnosis("crash", "worker:0", 1012.0, None, "critical", "", line)])
    assert told.sentence == (
        f"worker:1's host was not heard any more from {clock(1000)} on, and worker:1 was placed on another at "
        f"{clock(1042)}; worker:0 ended of that"
    )
