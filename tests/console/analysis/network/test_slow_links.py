"""Rings whose links carry the same bytes a second, and one of them slowly; numbers of three real workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import fakes
import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.findings import loss_of
from tfscale.console.analysis.network.slow_links import SlowLinks
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import HostSample, PeerLink
from tfscale.core.text import clock

MakeFrame = Callable[..., Frame]
HOST = HostSample(0.5, 2, 1.0, 1 << 30, 8 << 30, 0)
WELL = PeerLink("", 20e6, 1e3, 0.12, 0.0, 0, 0, 0.0005, 150e6, False, 0.0)
SHAPED = replace(WELL, sent=7.1e6, busy=0.98, unsent=3_700_000, round_trip=0.036, delivery_rate=7.1e6)
LOSSY = replace(WELL, retransmitted=0.023)
CUT = replace(WELL, sent=0.0, busy=1.0, unsent=3_386_000, unanswered=2.0)
CONTROL = replace(WELL, sent=1.5e3, busy=0.4, round_trip=0.03)
"""Requests of a shaped host to the peer behind it in the ring."""


def ring(make_frame: MakeFrame, at: float, size: int, ill: dict[int, PeerLink]) -> dict[str, Frame]:
    """Return the frame of each worker, the links of some being as given."""
    frames = {}
    for worker in range(size):
        ahead, behind = f"worker:{(worker + 1) % size}", f"worker:{(worker - 1) % size}"
        carried = 7.1e6 if SHAPED in ill.values() else WELL.sent
        link = ill.get(worker, replace(WELL, sent=carried, busy=WELL.busy * carried / WELL.sent))
        links = tuple({peer: replace(each, peer=peer) for peer, each in ((behind, CONTROL), (ahead, link))}.values())
        frames[f"worker:{worker}"] = replace(make_frame(at), host=replace(HOST, links=links))
    return frames


def told(make_frame: MakeFrame, size: int, *stretches: tuple[int, dict[int, PeerLink]]) -> list[list[Diagnosis]]:
    """Return what is open after each second of these stretches: (seconds, links that are ill)."""
    watch, at, open_after = SlowLinks(), 1000.0, []
    for seconds, ill in stretches:
        for _ in range(seconds):
            at += 1
            for task, frame in ring(make_frame, at, size, ill).items():
                watch.observe(task, frame)
            open_after.append(watch.diagnose(fakes.cluster_view({}, at)))
    return open_after


@pytest.mark.parametrize("size", [2, 3, 64])
def test_a_slow_link_is_named_with_both_ends_within_five_seconds(frame: MakeFrame, size: int) -> None:
    after = told(frame, size, (20, {}), (30, {1: SHAPED}))
    first = next(second for second, diagnoses in enumerate(after) if diagnoses)
    assert 20 <= first <= 25
    (slow,) = after[-1]
    assert (slow.kind, slow.subject, slow.severity) == ("slow_link", "worker:1", "critical")
    assert slow.sentence.startswith(
        f"the link from worker:1 to worker:{2 % size} is slow: 58 Mbit/s with 3.70 MB waiting to be sent, "
        "round trip 36 ms (others 1.33 Gbit/s, 0.5 ms), since "
    )
    assert slow.sentence.endswith(": it makes the step 2.8x as long")
    assert slow.begin == pytest.approx(1020, abs=1)
    assert all(len(diagnoses) <= 1 for diagnoses in after)


def test_it_ends_when_the_link_is_as_fast_again(frame: MakeFrame) -> None:
    after = told(frame, 3, (20, {}), (10, {1: SHAPED}), (10, {}))
    assert after[29] and not after[-1]


def test_links_that_are_equally_busy_are_nobodys(frame: MakeFrame) -> None:
    assert not any(told(frame, 3, (30, {0: SHAPED, 1: SHAPED, 2: SHAPED})))


def test_a_link_that_was_slow_from_the_start_has_no_before(frame: MakeFrame) -> None:
    (slow,) = told(frame, 3, (10, {1: SHAPED}))[-1]
    assert slow.severity == "critical" and "step" not in slow.sentence and slow.evidence["ratio"] is None
    assert slow.sentence.endswith(f", since before {clock(slow.begin)}") and slow.began_earlier


def test_a_link_that_is_slow_since_it_was_opened_is_no_older_than_that(frame: MakeFrame) -> None:
    watch = SlowLinks()
    for at in range(1000, 1020):
        for task, made in ring(frame, at, 3, {1: SHAPED}).items():
            watch.observe(task, made if at >= 1010 else replace(made, host=None))
        found = watch.diagnose(fakes.cluster_view({}, at))
    (slow,) = found
    assert slow.sentence.endswith(f", since {clock(slow.begin)}") and not slow.began_earlier


def test_a_lossy_link_is_named_though_it_is_fast(frame: MakeFrame) -> None:
    (lossy,) = told(frame, 3, (10, {}), (10, {2: LOSSY}))[-1]
    assert (lossy.subject, lossy.severity) == ("worker:2", "warning")
    assert "the link from worker:2 to worker:0 loses 2.3% of what is sent (others nothing), since" in lossy.sentence


def test_a_lossy_link_that_is_slow_at_times_has_one_begin(frame: MakeFrame) -> None:
    slow = replace(SHAPED, retransmitted=0.04)
    after = told(frame, 3, (10, {}), (8, {2: LOSSY}), (8, {2: slow}), (8, {2: LOSSY}))
    (first,), (last,) = after[17], after[-1]
    assert "is slow" in after[25][0].sentence and "4.0% of it lost" in after[25][0].sentence
    assert first.begin == last.begin == pytest.approx(1011, abs=1)


def test_a_peer_that_does_not_read_is_no_slow_link(frame: MakeFrame) -> None:
    assert not any(told(frame, 3, (10, {}), (10, {1: replace(SHAPED, held=0.9)})))


def test_a_host_that_does_not_answer_is_no_slow_link(frame: MakeFrame) -> None:
    assert not any(told(frame, 3, (10, {}), (10, {1: CUT})))


def test_a_thousand_links_are_not_all_read(frame: MakeFrame) -> None:
    (slow,) = told(frame, 1000, (3, {}), (6, {777: SHAPED}))[-1]
    assert slow.subject == "worker:777"


def test_a_link_that_costs_most_of_the_time_stands_before_a_worker_that_costs_little(
    diagnostician: Callable[[int], Diagnostician], frame: MakeFrame
) -> None:
    observer = diagnostician(3)
    for task, made in Simulation(3, 5.0, 90.0, slow=(Slow(0, extra=0.05, begin=10.0),)).frames():
        links = ring(frame, made.at, 3, {} if made.at < 60 else {1: SHAPED})[task].host
        observer.observe(task, replace(made, host=links))
        if task == "worker:2":
            found = observer.diagnose(made.at)
    link, straggler = found.diagnoses
    assert (link.kind, straggler.kind, straggler.severity) == ("slow_link", "straggler", "warning")
    assert loss_of(link) > loss_of(straggler)  # type: ignore[operator]
    assert found.headline == link.sentence


def test_the_slow_link_stands_before_the_communication_that_it_bounds(
    diagnostician: Callable[[int], Diagnostician], frame: MakeFrame
) -> None:
    observer, headlines = diagnostician(3), []
    for task, made in Simulation(3, 5.0, 60.0).frames():
        links = ring(frame, made.at, 3, {} if made.at < 40 else {1: SHAPED})[task].host
        steps = tuple(replace(batch, reduce=[20 * seconds for seconds in batch.reduce]) for batch in made.steps)
        observer.observe(task, replace(made, host=links, steps=steps))
        if task == "worker:2":
            headlines.append(observer.diagnose(made.at).headline)
    assert headlines[38].startswith("communication-bound")
    assert headlines[-1].startswith("the link from worker:1 to worker:2 is slow")


def test_of_a_link_whose_other_end_is_not_heard_the_direction_is_not_told(frame: MakeFrame) -> None:
    """The unheard host may be what is slow: it holds up the answers to what it is sent."""
    watch, at, open_after = SlowLinks(), 1000.0, []
    for second in range(50):
        at += 1
        for task, each in ring(frame, at, 3, {1: SHAPED} if second >= 20 else {}).items():
            if second < 20 or task != "worker:2":
                watch.observe(task, each)
        open_after.append(watch.diagnose(fakes.cluster_view({}, at)))
    (slow,) = open_after[-1]
    assert slow.sentence.startswith("the link between worker:1 and worker:2 is slow: ")
