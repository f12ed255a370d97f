"""Three hosts of which some do not hear some others, with and without the console."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import fakes
import pytest
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.network.silence import SilenceWatch
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.observed.seats import SeatWatch
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, Neighbour
from tfscale.core.records.task_status import TaskStatus
from tfscale.core.text import clock

MakeFrame = Callable[..., Frame]
HOST = HostSample(0.5, 2, 1.0, 1 << 30, 8 << 30, 0)
CUT = 1010.0


class Network:
    """Workers whose agents greet all others; from second 1010 on some hosts do not reach some others."""

    def __init__(self, spec: ClusterSpec, make_frame: MakeFrame, deaf: Collection[tuple[int, int]]) -> None:
        self.watch = SilenceWatch(spec, SeatWatch(spec))
        self.tasks = {str(task): ObservedTask(task, up=True, since=0.0) for task in spec.tasks}
        self._frame, self._deaf = make_frame, deaf
        self.mute: set[int] = set()
        """Workers whose agents have been silent since second 1010, though their hosts answer."""
        self.greeted: float | None = None
        """Time of the newest greetings; None: half a second ago."""

    def second(self, at: float, lost: Collection[int] = ()) -> list[Diagnosis]:
        """Fold the frames of a second of all but the lost workers, and return what is open."""
        for index, task in enumerate(self.tasks.values()):
            if (task.up, index in lost) in ((True, True), (False, False)):
                task.up, task.since = index not in lost, at
            if index not in lost:
                task.observe(self._frame_of(index, at))
                self.watch.observe(task.name, self._frame_of(index, at))
        return self.watch.diagnose(fakes.cluster_view(self.tasks, at))

    def _frame_of(self, index: int, at: float) -> Frame:
        others = []
        for other in set(range(len(self.tasks))) - {index}:
            greeted = at - 0.5 if self.greeted is None else self.greeted
            reached = CUT - 0.5 if (index, other) in self._deaf and at > CUT else greeted
            heard = min(reached, CUT - 0.5) if other in self.mute else reached
            others.append(Neighbour(f"worker:{other}", heard, 0.001, reached))
        return replace(self._frame(at), host=replace(HOST, neighbours=tuple(others)))


@pytest.fixture
def network(cluster: Callable[[int], ClusterSpec], frame: MakeFrame) -> Callable[..., Network]:
    return lambda *deaf, workers=3: Network(cluster(workers), frame, deaf)


def both(first: int, second: int) -> list[tuple[int, int]]:
    return [(first, second), (second, first)]


def sentences(diagnoses: list[Diagnosis]) -> list[str]:
    return [each.sentence for each in diagnoses]


def test_while_all_hear_each_other_nothing_is_said(network: Callable[..., Network]) -> None:
    made = network()
    assert not any(made.second(1000.0 + second) for second in range(20))


def test_a_console_that_is_cut_off_from_a_host_is_told_that_it_lives(network: Callable[..., Network]) -> None:
    made = network()
    made.second(1010)
    for at in (1013, 1014, 1015, 1016):
        assert made.second(at, lost=[2]) == [], "what was heard before the console lost it says nothing"
    (told,) = made.second(1017, lost=[2])
    assert (told.kind, told.subject, told.severity) == ("unreachable", "worker:2", "warning")
    assert told.sentence == (
        f"the console cannot reach worker:2's agent since {clock(1013)}; worker:0 and worker:1 hear it: it lives"
    )
    assert made.second(1020) == []


def test_an_answer_before_the_loss_does_not_say_that_an_agent_lives(network: Callable[..., Network]) -> None:
    """On a busy machine greetings and frames came late: an agent that had been killed was said to live."""
    made = network()
    made.greeted = 1009.5
    made.second(1012)
    made.second(1012, lost=[2])
    made.greeted = 1012.9
    assert not any(made.second(at, lost=[2]) for at in (1013, 1014, 1015, 1016))


def test_an_agent_that_dies_later_is_not_said_to_live_any_more(network: Callable[..., Network]) -> None:
    made = network()
    made.second(1010)
    made.second(1013, lost=[2])
    assert "it lives" in made.second(1018, lost=[2])[0].sentence
    made.greeted = 1018.5
    assert "does not answer to anyone" in made.second(1023, lost=[2])[0].sentence


def test_a_host_that_nobody_hears_does_not_answer_to_anyone(network: Callable[..., Network]) -> None:
    made = network(*both(0, 2), *both(1, 2))
    made.second(1010)
    (told,) = made.second(1014, lost=[2])
    assert (told.kind, told.subject, told.severity, told.begin) == ("cut_off", "worker:2", "critical", CUT - 0.5)
    assert told.sentence == (
        f"worker:2's host does not answer to anyone: it is cut off or down since {clock(CUT - 0.5)}; "
        "neither the console nor worker:0 and worker:1 hears it"
    )


def test_a_host_whose_agent_is_gone_or_stopped_is_not_cut_off(network: Callable[..., Network]) -> None:
    made = network()
    made.mute = {1}
    made.second(1010)
    assert made.second(1013, lost=[1]) == []
    (told,) = made.second(1017, lost=[1])
    assert told.kind == "unreachable"
    assert told.sentence.endswith("; its host answers worker:0 and worker:2, its agent does not")


def test_an_agent_that_was_never_heard_is_not_said_to_train(network: Callable[..., Network]) -> None:
    """In a real run nobody had started it, and the advice was that the training goes on."""
    made = network()
    made.mute = {1}
    made.second(1013, lost=[1])
    (told,) = made.second(1017, lost=[1])
    assert told.sentence == (
        f"worker:1's agent has not answered since the console began to watch ({clock(1013)}), though its host answers "
        "worker:0 and worker:2: nobody has started it there, or it has ended"
    )
    assert first_step(told) == "start the agent on its host: the others wait for its task"


def test_an_agent_that_only_others_ever_heard_is_not_said_to_be_out_of_reach_since_then(
    network: Callable[..., Network],
) -> None:
    made = network()
    made.second(1013, lost=[2])
    (told,) = made.second(1017, lost=[2])
    since = f"since it began to watch ({clock(1013)})"
    assert told.sentence.startswith(f"the console cannot reach worker:2's agent {since}; ")


def test_two_hosts_that_do_not_hear_each_other_are_both_named(network: Callable[..., Network]) -> None:
    made = network(*both(0, 1))
    assert made.second(1012) == []
    (told,) = made.second(1014)
    assert told.sentence == (
        f"the hosts of worker:0 and worker:1 do not hear each other since {clock(CUT - 0.5)}: "
        "the network between them is cut, though the console reaches both"
    )


def test_a_host_that_only_the_console_reaches_is_cut_off_from_the_others(network: Callable[..., Network]) -> None:
    made = network(*both(0, 1), *both(1, 2))
    (told,) = made.second(1014)
    assert told.subject == "worker:1" and "worker:1's host and the others do not hear each other" in told.sentence


def test_a_host_that_comes_back_is_not_cut_off_from_one_that_hears_it_later(network: Callable[..., Network]) -> None:
    made = network(*both(0, 2), *both(1, 2))
    made.second(1010)
    assert made.second(1014, lost=[2])
    made._deaf = both(0, 2)
    (told,) = made.second(1020)
    assert (told.kind, told.subject, told.begin) == ("cut_off", "worker:2", CUT - 0.5)
    assert told.sentence.endswith("and is coming back: not all others hear it yet")
    assert [outage.task for outage in made.watch.outages._known] == ["worker:2"]
    (told,) = made.second(1040)
    assert "the hosts of worker:0 and worker:2 do not hear each other" in told.sentence


def test_an_agent_that_was_asked_to_leave_is_told_as_that(network: Callable[..., Network]) -> None:
    made = network()
    made.mute = {1}
    made.second(1010)
    made.tasks["worker:1"].has_left = True
    (told,) = made.second(1014, lost=[1])
    assert told.sentence == f"worker:1's agent left at {clock(1014)} as it was asked to, and the task went on"
    assert "start the agent of worker:1 again" in (first_step(told) or "")


def test_when_the_console_reaches_nobody_nothing_is_known(network: Callable[..., Network]) -> None:
    made = network()
    made.second(1010)
    assert made.second(1013, lost=[0, 1, 2]) == made.second(1014, lost=[0, 1, 2]) == []


def test_tasks_that_ended_of_an_outage_are_not_dead(
    diagnostician: Callable[[int], Diagnostician],
    cluster: Callable[[int], ClusterSpec],
    frame: MakeFrame,
    died: Callable[..., TaskStatus],
) -> None:
    observer, made = diagnostician(3), Network(cluster(3), frame, [*both(0, 2), *both(1, 2)])
    line = "UNAVAILABLE: Collective ops is aborted by: /job:worker/replica:0/task:2 failed to connect"

    def second(at: float, lost: Collection[int] = (), ended: Collection[int] = ()) -> str:
        for index in set(range(3)) - set(lost):
            told = made._frame_of(index, at)
            if index in ended:
                end = died(1035.0, code=1)
                assert end.exit is not None
                told = replace(told, status=replace(end, exit=replace(end.exit, log=(line,))))
            observer.observe(f"worker:{index}", told)
        return observer.diagnose(at).headline

    second(1010)
    observer.note_link("worker:2", False, 1013)
    assert second(1014, lost=[2]).startswith("worker:2's host does not answer to anyone")
    observer.note_link("worker:2", True, 1032)
    made._deaf = ()
    second(1032)
    for at in range(1036, 1041):
        headline = second(at, ended=[0, 1])
    assert headline == (
        f"worker:2's network was gone from {clock(CUT - 0.5)} to {clock(1032)}; worker:0 and worker:1 ended of that"
    )
