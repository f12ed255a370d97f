from collections.abc import Callable
from dataclasses import replace

import pytest
from tfscale.console.analysis.first_steps import about_crash
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.announced_restart import with_restart
from tfscale.console.analysis.tasks.crashes import CrashWatch
from tfscale.core.failure.task_failure import SETTLE
from tfscale.core.failure.uncaught_exception import HEADER
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus
from tfscale.core.text import clock

View = Callable[..., ObservedTask]
Died = Callable[..., TaskStatus]
PEER = "UnavailableError: Collective ops is aborted by: Connection reset by peer /job:worker/replica:0/task:2"
UNHEARD = "may have died, stand still or be cut off: nothing is heard from its agent since "


def diagnose(watch: CrashWatch, *views: ObservedTask, now: float = 110.0) -> list[Diagnosis]:
    """Return the diagnoses once all reports are in."""
    tasks = {view.name: view for view in views}
    watch.diagnose(tasks, now)
    return watch.diagnose(tasks, now + SETTLE)


def with_log(status: TaskStatus, *lines: str) -> TaskStatus:
    assert status.exit is not None
    return replace(status, exit=replace(status.exit, log=lines))


def test_the_first_to_die_is_named_and_its_peer_is_told_as_the_consequence(view: View, died: Died) -> None:
    (crash,) = diagnose(
        CrashWatch(),
        view("worker:0", status=with_log(died(102.8, code=1), PEER)),
        view("worker:1", status=died(101.0, signal=9)),
    )
    assert (crash.kind, crash.subject, crash.begin, crash.severity) == ("crash", "worker:1", 101.0, "critical")
    assert crash.sentence.startswith("worker:1 was killed by SIGKILL at ")
    assert crash.sentence.endswith("worker:0 exited 1, 1.8 s later, because its peer was gone")
    assert crash.evidence["followers"] == ("worker:0",)


def test_a_death_by_signal_goes_before_an_exit_that_skewed_clocks_put_first(view: View, died: Died) -> None:
    views = [view("worker:0", status=died(100.0, code=1)), view("worker:1", status=died(101.5, signal=11))]
    assert diagnose(CrashWatch(), *views)[0].subject == "worker:1"


def test_the_abort_of_tensorflow_belongs_to_the_failure_before(view: View, died: Died) -> None:
    (crash,) = diagnose(
        CrashWatch(),
        view("worker:0", status=died(100.0, code=1)),
        view("worker:1", status=died(101.0, signal=6)),
        view("worker:2", status=with_log(died(102.0, signal=6), PEER)),
    )
    assert crash.subject == "worker:0"
    assert crash.sentence.endswith(
        "; worker:1 was killed by SIGABRT, 1.0 s later; worker:2 was killed by SIGABRT, 2.0 s later, because its peer "
        "was gone"
    ), "whose log does not tell why ended for no known reason"


@pytest.mark.parametrize("by", [2, 9, 11, 15])
@pytest.mark.parametrize("order", [1, -1])
def test_two_signals_from_outside_some_seconds_apart_are_two_failures(
    view: View, died: Died, by: int, order: int
) -> None:
    """The second of two kills within 15 s was told as a consequence of the first, which no kill is."""
    views = [
        view("worker:1", status=died(100.0, signal=9)),
        view("worker:0", status=died(110.0, signal=by)),
        view("worker:2", status=with_log(died(112.0, code=1), PEER.replace("task:2", "task:0"))),
    ]
    first, second = sorted(diagnose(CrashWatch(), *views[::order]), key=lambda crash: crash.begin)
    assert (first.subject, first.evidence["followers"]) == ("worker:1", None)
    assert (second.subject, second.evidence["followers"]) == ("worker:0", ("worker:2",))


def test_kills_at_once_are_one_failure_and_none_is_told_as_the_reason_of_another(view: View, died: Died) -> None:
    """A scheduler that ends a job kills all of its tasks, one after the other."""
    views = [view(f"worker:{index}", status=died(100.0 + index, signal=9)) for index in range(6)]
    (crash,) = diagnose(CrashWatch(), *views)
    assert crash.subject == "worker:0" and "peer" not in crash.sentence
    assert len(crash.evidence["followers"] or ()) == 5 and crash.sentence.endswith(" and 2 others, 5.0 s later")


def test_nothing_is_said_until_the_other_agents_could_report(view: View, died: Died) -> None:
    watch, tasks = (
        CrashWatch(),
        {"worker:0": view("worker:0", status=died(100.0, code=1)), "worker:1": view("worker:1")},
    )
    assert watch.diagnose(tasks, 100.5) == []
    tasks["worker:2"] = view("worker:2", status=died(99.0, signal=9))
    assert watch.diagnose(tasks, 101.5) == []
    assert [crash.subject for crash in watch.diagnose(tasks, 103.6)] == ["worker:2"]


def test_once_all_have_ended_no_report_is_missing(view: View, died: Died) -> None:
    (crash,) = CrashWatch().diagnose({"worker:0": view("worker:0", status=died(100.0, code=1))}, 100.5)
    assert crash.subject == "worker:0"


def test_a_task_without_peers_is_told_at_once(view: View, died: Died) -> None:
    (crash,) = CrashWatch().diagnose({"worker:0": view("worker:0", status=died(100.0, code=2))}, 100.5)
    assert crash.sentence.startswith("worker:0 exited 2 at ")


def test_what_agents_do_about_a_crash_is_told_and_not_advised(
    view: View, died: Died, status: Callable[..., TaskStatus]
) -> None:
    worker = view("worker:0", status=died(100.0, code=1))
    (crash,) = CrashWatch().diagnose({"worker:0": worker}, 100.5)
    assert about_crash(with_restart(crash, {"worker:0": worker})) == "read the end of its log; then restart"

    def told(task: ObservedTask) -> str:
        restarted = with_restart(crash, {"worker:0": task})
        assert about_crash(restarted) == "read the end of its log"
        return restarted.sentence.removeprefix(crash.sentence)

    soon = died(100.0, code=1, restart_at=105.0, reason="restart 2 of 10 within 1 h")
    assert told(view("worker:0", status=soon)) == (
        f"; restarts by itself at {clock(105.0)} (restart 2 of 10 within 1 h)"
    )
    again = view("worker:0", status=status(generation=2), last_end=soon.exit)
    assert told(again) == "; worker:0 is started again"
    left = view("worker:0", status=died(100.0, code=1, reason="given up after worker:0 exited 1: 10 restarts in 1 h"))
    given_up = with_restart(crash, {"worker:0": left})
    assert given_up.sentence.endswith("; the agent of worker:0: given up after worker:0 exited 1: 10 restarts in 1 h")
    assert about_crash(given_up) == "read the end of its log; then restart"


def test_failures_far_apart_are_two_incidents(view: View, died: Died) -> None:
    views = [view("worker:0", status=died(50.0, code=3)), view("worker:1", status=died(100.0, code=1))]
    assert [crash.subject for crash in diagnose(CrashWatch(), *views)] == ["worker:0", "worker:1"]


def test_what_ended_well_or_was_asked_to_is_no_crash(view: View, died: Died) -> None:
    asked = died(100.0, signal=15)
    assert asked.exit is not None
    asked = replace(asked, exit=replace(asked.exit, requested=True))
    assert diagnose(CrashWatch(), view("worker:0", status=died(100.0, code=0)), view("worker:1", status=asked)) == []


def test_a_lost_task_crashed_though_nobody_knows_how(view: View, status: Callable[..., TaskStatus]) -> None:
    (crash,) = diagnose(CrashWatch(), view("worker:0", status=status(TaskState.LOST)))
    assert crash.begin == 100.0
    assert "worker:0 was lost with its shim" in crash.sentence


def test_it_ends_when_the_culprit_runs_again_and_is_not_told_of_its_peer(
    view: View, died: Died, status: Callable[..., TaskStatus]
) -> None:
    watch, peer = CrashWatch(), view("worker:0", status=died(102.0, code=1))
    assert len(diagnose(watch, peer, view("worker:1", status=died(101.0, signal=9)))) == 1
    assert diagnose(watch, peer, view("worker:1", status=status(generation=2)), now=120.0) == []
    again = died(130.0, code=1, generation=2)
    (crash,) = diagnose(watch, peer, view("worker:1", status=again), now=140.0)
    assert crash.begin == 130.0
    assert "worker:0" not in crash.sentence


def test_who_fails_again_within_seconds_is_told_by_its_newest_end(
    view: View, died: Died, status: Callable[..., TaskStatus]
) -> None:
    """A worker that was killed while its restart after a crash was new was said to have crashed for half a minute."""
    watch, peer = CrashWatch(), view("worker:0")

    def second(at: float, worker: TaskStatus) -> list[float]:
        return [
            each.begin for each in watch.diagnose({"worker:0": peer, "worker:1": view("worker:1", status=worker)}, at)
        ]

    first, newest = died(100.0, signal=11), died(103.0, signal=9, generation=2)
    assert second(100.5, first) == second(101.5, first) == second(102.5, status(generation=2)) == []
    assert second(103.7, newest) == [100.0], "each is told once"
    assert second(104.7, newest) == []
    assert second(106.9, newest) == second(200.0, newest) == [103.0]


def test_peers_of_a_task_that_was_stopped_on_request_did_not_crash(view: View, died: Died) -> None:
    stopped = died(100.0, signal=15)
    assert stopped.exit is not None
    stopped = replace(stopped, exit=replace(stopped.exit, requested=True))
    followed = view("worker:0", status=died(101.5, code=1))
    assert diagnose(CrashWatch(), followed, view("worker:1", status=stopped)) == []
    killed = view("worker:0", status=died(101.5, signal=9))
    assert len(diagnose(CrashWatch(), killed, view("worker:1", status=stopped))) == 1


def test_a_crash_is_told_even_when_it_was_mended_at_once(
    view: View, died: Died, status: Callable[..., TaskStatus]
) -> None:
    watch = CrashWatch()
    peer = view("worker:1")
    dead = {"worker:0": view("worker:0", status=died(100.0, code=1)), "worker:1": peer}
    assert watch.diagnose(dead, 100.5) == []
    again = {"worker:0": view("worker:0", status=status(generation=2))}
    assert watch.diagnose(again, 101.5) == []
    assert len(watch.diagnose(again, 103.5)) == 1
    assert watch.diagnose(again, 104.5) == []


def test_the_line_that_matters_is_told(view: View, died: Died) -> None:
    oom = "ResourceExhaustedError: OOM when allocating tensor with shape[4096,4096]"
    (crash,) = diagnose(CrashWatch(), view("worker:0", status=with_log(died(100.0, code=1), "step 7", oom)))
    assert crash.sentence.endswith(f", out of memory: {oom}")
    assert (crash.evidence["reason"], crash.evidence["line"]) == ("out_of_memory", oom)
    assert crash.evidence["log"] == ("step 7", oom)


def test_whose_log_tells_of_another_death_is_not_the_culprit_though_its_clock_says_first(
    view: View, died: Died
) -> None:
    followed = view("worker:0", status=with_log(died(100.0, code=1), PEER))
    (crash,) = diagnose(
        CrashWatch(),
        followed,
        view("worker:2", status=with_log(died(109.0, code=1), HEADER, "ValueError: no such file")),
    )
    assert crash.subject == "worker:2"
    assert ": ValueError: no such file; worker:0 exited 1" in crash.sentence


def test_who_died_where_no_agent_says_so_is_read_from_its_peers_logs(view: View, died: Died) -> None:
    peers = [view(f"worker:{index}", status=with_log(died(100.0 + index, code=1), PEER)) for index in range(2)]
    (crash,) = diagnose(CrashWatch(), *peers, view("worker:2", up=False))
    assert (crash.subject, crash.evidence["followers"]) == ("worker:2", ("worker:0", "worker:1"))
    assert (
        crash.sentence.startswith(f"worker:2 {UNHEARD}")
        and f"; worker:0 exited 1 and worker:1 exited 1 at {clock(100.0)}, because their peer was gone"
        in crash.sentence
    )


@pytest.mark.parametrize(("stopped", "runs"), [(False, "runs"), (True, "runs: a signal has stopped its process")])
def test_no_death_is_said_of_a_task_whose_agent_sees_it(view: View, died: Died, stopped: bool, runs: str) -> None:
    line = f"E0000 00:00:1795754467.123456   12345 base_collective_executor.cc:252] {PEER}"
    lost = view("worker:0", status=with_log(died(100.0, code=1), line))
    (crash,) = diagnose(CrashWatch(), lost, view("worker:2", stopped=stopped))
    assert crash.subject == "worker:0" and "died" not in crash.sentence and "E0000" not in crash.sentence
    assert crash.sentence.endswith(f": it lost the connection to worker:2, which {runs}")


def test_who_was_killed_long_after_the_others_had_gone_is_not_the_culprit(view: View, died: Died) -> None:
    gone = view("worker:0", status=with_log(died(100.0, code=1), PEER.replace("task:2", "task:1")))
    killed = view("worker:1", status=with_log(died(108.0, signal=9), PEER))
    (crash,) = diagnose(CrashWatch(), gone, killed)
    assert crash.subject == "worker:0" and "peer was gone" not in crash.sentence
    assert crash.sentence.endswith(": it lost the connection to worker:1, which was killed by SIGKILL only 8.0 s later")


def test_a_time_out_of_contact_explains_who_failed_for_it(view: View, died: Died) -> None:
    peers = [view(f"worker:{index}", status=with_log(died(112.0, code=1), PEER)) for index in range(3)]
    peers[2].cut = (100.0, 122.0)
    (crash,) = diagnose(CrashWatch(), *peers, now=125.0)
    assert crash.subject == "worker:2"
    assert crash.sentence.startswith("the agent of worker:2 was out of contact from ")
    assert ", and is back: its task has ended; worker:0 exited 1 and worker:1 exited 1 at " in crash.sentence
    assert crash.sentence.endswith("because their peer was gone")


def test_who_names_a_failed_task_belongs_to_its_failure_however_late(view: View, died: Died) -> None:
    first = view("worker:1", status=with_log(died(100.0, code=1), HEADER, "KeyError: 'label'"))
    late = view("worker:0", status=with_log(died(125.0, code=1), PEER.replace("task:2", "task:1")))
    (crash,) = diagnose(CrashWatch(), first, late, now=130.0)
    assert crash.subject == "worker:1" and "worker:0 exited 1, 25 s later, because its peer was gone" in crash.sentence


def test_nobody_fails_for_a_moment_out_of_contact(view: View, died: Died) -> None:
    peers = [view(f"worker:{index}", status=with_log(died(112.0, code=1), PEER)) for index in range(3)]
    peers[2].cut = (100.0, 102.5)
    (crash,) = diagnose(CrashWatch(), *peers, now=125.0)
    assert "out of contact" not in crash.sentence


def test_who_fails_for_a_reason_of_its_own_is_nobodys_victim(view: View, died: Died) -> None:
    views = [
        view("worker:0", status=with_log(died(100.0, code=1), "OSError: [Errno 28] No space left on device")),
        view("worker:1", status=with_log(died(103.0, code=1), HEADER, "KeyError: 'label'")),
        view("worker:2", status=with_log(died(103.0, code=1), PEER)),
    ]
    (crash,) = diagnose(CrashWatch(), *views)
    assert "; worker:1 exited 1, 3.0 s later: KeyError: 'label'; worker:2 exited 1" in crash.sentence
    assert crash.sentence.endswith("worker:2 exited 1, 3.0 s later, because its peer was gone")


def test_a_crash_of_whom_nothing_is_known_but_that_it_followed_is_still_told(view: View, died: Died) -> None:
    (crash,) = diagnose(
        CrashWatch(), view("worker:0", status=with_log(died(100.0, code=1), "Collective ops is aborted"))
    )
    assert (crash.subject, crash.evidence["reason"]) == ("worker:0", "peer_died")
    assert "another task had died" in crash.sentence


@pytest.mark.parametrize("line", ["tfscale: cannot run: write it so", "NameError: name 'json' is not defined"])
def test_tasks_that_fail_alike_share_the_reason_and_are_not_each_others_victims(
    line: str, view: View, died: Died
) -> None:
    ends = [replace(died(at, code=1), exit=Exit(1, None, at, log=(HEADER, line))) for at in (100.0, 100.01)]
    views = [view(f"worker:{index}", status=status) for index, status in enumerate(ends)]
    (crash,) = diagnose(CrashWatch(), *views)
    assert crash.subject == "cluster" and crash.sentence.startswith("both tasks failed alike at ")
    assert crash.sentence.endswith(f": {line.removeprefix('tfscale: cannot run: ')}")
    (crash,) = diagnose(CrashWatch(), *views, view("worker:2"))
    assert crash.subject == "worker:0" and crash.sentence.endswith("; worker:1 exited 1, at once, for the same reason")


def test_a_peer_that_the_log_names_by_its_address_is_named(view: View, died: Died) -> None:
    line = (
        "Aborting RingReduce with UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: "
        "ipv4:10.77.0.2:2222: Failed to connect to remote host: Connection refused"
    )
    ended = died(112.0, code=1)
    assert ended.exit is not None
    failed = view("worker:0", status=replace(ended, exit=replace(ended.exit, log=(line,))), up=True, at=113.0)
    unheard = view("worker:1", up=False, since=105.0)
    watch = CrashWatch({("10.77.0.1", 2222): "worker:0", ("10.77.0.2", 2222): "worker:1"})
    (crash,) = diagnose(watch, failed, unheard, now=113.0)
    assert crash.subject == "worker:1"
    assert crash.sentence.startswith(f"worker:1 {UNHEARD}")
    (crash,) = diagnose(CrashWatch(watch.addresses), failed, view("worker:1", up=True, at=113.0), now=113.0)
    assert crash.subject == "worker:1"
    assert crash.sentence == (
        "worker:0 could not reach worker:1 at 10.77.0.2:2222, whose process ran (a closed port, or a firewall?); "
        f"worker:0 exited 1 of that at {clock(112.0)}"
    )
    late = view("worker:1", status=died(132.0, code=1), up=True, at=133.0)
    told = diagnose(CrashWatch(watch.addresses), failed, late, now=133.0)
    assert told[0].sentence == crash.sentence, "it ran when it could not be reached, whatever became of it"


def test_where_no_log_names_the_peer_it_is_the_one_that_is_not_heard(view: View, died: Died) -> None:
    line = "BaseCollectiveExecutor::StartAbort UNAVAILABLE: recvmsg:Connection reset by peer"
    ended = died(112.0, code=1)
    assert ended.exit is not None
    failed = view("worker:1", status=replace(ended, exit=replace(ended.exit, log=(line,))), up=True, at=113.0)
    unheard = [view(f"worker:{index}", up=False, since=105.0) for index in (0, 2)]
    (crash,) = diagnose(CrashWatch(), failed, unheard[0], view("worker:2", up=True, at=113.0), now=113.0)
    assert crash.subject == "worker:0" and crash.sentence.startswith(f"worker:0 {UNHEARD}")
    (crash,) = diagnose(CrashWatch(), failed, *unheard, now=113.0)
    assert crash.subject == "worker:1", "of two nobody knows which"
