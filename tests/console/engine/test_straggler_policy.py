"""The policy `on_straggler` over synthetic diagnoses: what is asked of the lead, how often, and what is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import fakes
from tfscale.console.analysis.condition.cluster_condition import ClusterCondition, Condition
from tfscale.console.analysis.findings import Findings
from tfscale.console.analysis.restarts.worth_restarting import LASTS
from tfscale.console.engine.engine import Engine
from tfscale.console.engine.events import (
    AgentDescribed,
    CommandProgressed,
    Event,
    FrameArrived,
    PolicyTold,
    SecondPassed,
)
from tfscale.console.engine.inbox import Inbox
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state import ClusterState
from tfscale.console.engine.straggler_policy import StragglerPolicy
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import ClusterConnection, connect
from tfscale.console.transport.channels import Channels
from tfscale.console.transport.commands import AgentCommands, NoCommands
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import TfscaleError
from tfscale.core.records.diagnosis import Diagnosis, Evidence
from tfscale.core.records.task_status import Stage

SPEC = fakes.spec(3)
SLOW = fakes.worker(1)
EVIDENCE: Evidence = {
    "ratio": 1.5, "phase": "compute", "phase_ratio": 1.7, "slowdown": 1.5, "cause": "unknown", "step_before": 0.1,
}  # fmt: skip
STRAGGLER = Diagnosis("straggler", "worker:1", fakes.NOW - 60, None, "serious", "worker:1 has been slow", EVIDENCE)
REASON = "on_straggler: worker:1 1.7x slower in compute, the cluster loses 33%; expected gain 50%"
FINDINGS = Findings(
    (STRAGGLER,), "", 0.1, 10.0, slowdown=1.5, condition=ClusterCondition(Condition.TRAINING), local_steps=1
)


def measured(gained: float) -> Diagnosis:
    evidence: Evidence = {
        "gained": gained, "expected": 0.5, "lost_seconds": 20.0, "rate": 10.0, "restarted_for": "worker:1",
        "tasks": ("worker:0", "worker:1", "worker:2"),
    }  # fmt: skip
    return Diagnosis("restart", "cluster", fakes.NOW, fakes.NOW, "info", "restart of 3 workers", evidence)


@dataclass
class FakeLead:
    """Lead's agent that restarts, or refuses with these words."""

    refusal: str = ""
    asked: list[tuple[str, str, str, int, bool]] = field(default_factory=list)

    async def restart_slow(
        self, task: Task, policy: str, reason: str, generation: int, *, was_worth_it: bool
    ) -> AsyncIterator[CommandProgressed]:
        self.asked.append((str(task), policy, reason, generation, was_worth_it))
        if self.refusal:
            raise TfscaleError(self.refusal)
        yield CommandProgressed(5.0, "restart", Stage.PLANNED, tuple(SPEC.tasks), generation + 1, reason)


class Seconds:
    """Source that waits for the test to let seconds pass."""

    is_live = True

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec, self.at, self.inbox = spec, fakes.NOW, Inbox()

    def now(self) -> float:
        return self.at

    async def run(self, inbox: Inbox) -> None:
        self.inbox = inbox
        await asyncio.Event().wait()


class Told(fakes.Told):
    """Listener that lets a test wait for a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = asyncio.Event()

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        super().snapshot_taken(snapshot)
        self.taken.set()


class Console:
    """Console whose policy watches three workers; `findings` holds from one second to the next."""

    def __init__(self, policy: str = "restart", refusal: str = "", why_not: str = "") -> None:
        self.lead, self.told = FakeLead(refusal), Told()
        self.analysis = fakes.FakeAnalysis(FINDINGS)
        self.source, self.condition = Seconds(SPEC), Condition.TRAINING
        self.policy = StragglerPolicy(SPEC, self.lead, self.source.now, lambda: why_not)
        self.engine = Engine(self.source, lambda: ClusterState(SPEC, self.analysis), reaction=self.policy)
        self.running = asyncio.create_task(self.engine.run(self.told))
        self.described = replace(fakes.description(SPEC.lead), on_straggler=policy)

    async def __aenter__(self) -> Console:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for event in fakes.healthy_events(SPEC):
            self.put(event)
        self.put(AgentDescribed(fakes.NOW, SPEC.lead, self.described))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.engine.stop()
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    def put(self, event: Event) -> None:
        self.source.inbox.put(event)

    async def lasts(self, seconds: float, *diagnoses: Diagnosis) -> None:
        """Let seconds pass in which these diagnoses hold, by default the straggler."""
        condition = ClusterCondition(self.condition)
        self.analysis.findings = replace(FINDINGS, diagnoses=diagnoses or (STRAGGLER,), condition=condition)
        for _ in range(int(seconds)):
            self.source.at += 1.0
            self.told.taken.clear()
            self.put(SecondPassed(self.source.at))
            await self.told.taken.wait()
            await asyncio.sleep(0)

    async def checkpoints(self, age: float | None) -> None:
        """Have the newest checkpoint be so old, None for none."""
        for number, task in enumerate(SPEC.tasks):
            frame = fakes.frame(task, 10 + number, self.source.at)
            assert frame.probe is not None
            written = None if age is None else self.source.at - age
            self.put(FrameArrived(self.source.at, task, replace(frame, probe=replace(frame.probe, checkpoint=written))))

    @property
    def words(self) -> list[str]:
        return [event.message for event in self.told.events if isinstance(event, PolicyTold)]


async def test_a_straggler_that_lasts_is_restarted_once_with_its_reason() -> None:
    async with Console() as console:
        await console.lasts(LASTS)
        assert console.lead.asked == []
        await console.lasts(60)
        # The checkpoint was written 95 s before the last frame, and 10 steps are made a second.
        assert console.lead.asked == [("worker:1", "restart", f"{REASON}, some 950 steps repeated", 1, False)]
        (planned,) = [event for event in console.told.events if isinstance(event, CommandProgressed)]
        assert (planned.stage, planned.generation) == (Stage.PLANNED, 2)
        assert console.words == []


async def test_a_straggler_that_ends_or_is_not_alone_meanwhile_is_waited_for_anew() -> None:
    async with Console() as console:
        for _ in range(3):
            await console.lasts(LASTS - 1)
            await console.lasts(1, STRAGGLER, replace(STRAGGLER, subject="worker:2"))
        assert console.lead.asked == []
        await console.lasts(LASTS + 1)
        assert len(console.lead.asked) == 1


async def test_nothing_is_done_by_another_policy_or_while_the_cluster_stands_still() -> None:
    for policy in ("", "tell", "of a later version"):
        async with Console(policy) as console:
            await console.lasts(2 * LASTS)
            assert (console.lead.asked, console.words) == ([], [])
    async with Console() as console:
        console.condition = Condition.STILL
        await console.lasts(2 * LASTS)
        assert console.lead.asked == []


async def test_a_cause_that_the_policy_does_not_mend_is_told_once() -> None:
    hot = replace(STRAGGLER, evidence={**EVIDENCE, "cause": "thermal"})
    async with Console() as console:
        await console.lasts(3 * LASTS, hot)
        assert console.words == ["not restarted by on_straggler: overheated, which a restart does not mend"]
        assert console.lead.asked == []
    async with Console("replace") as console:
        await console.lasts(LASTS + 1, hot)
        assert [asked[1] for asked in console.lead.asked] == ["replace"]


async def test_an_old_checkpoint_is_waited_for_and_none_forbids_it() -> None:
    async with Console() as console:
        await console.checkpoints(None)
        await console.lasts(LASTS + 1)
        assert console.words == ["not restarted by on_straggler: no checkpoint of it is known, and it would begin anew"]
        await console.checkpoints(7200.0)
        await console.lasts(10)
        assert console.words[1:] == [
            "not restarted by on_straggler: a restart now would be paid back after 2 h 44 m only"
        ]
        assert console.lead.asked == []
        await console.checkpoints(5.0)
        await console.lasts(1)
        assert len(console.lead.asked) == 1


async def test_an_observer_says_that_it_may_not() -> None:
    why = "its certificate is that of an observer, which gives no orders"
    async with Console(why_not=why) as console:
        await console.lasts(2 * LASTS)
        assert (console.lead.asked, console.words) == ([], [f"not restarted by on_straggler: {why}"])


async def test_a_refusal_is_told_once_and_the_lead_is_asked_again_only_later() -> None:
    async with Console(refusal="cannot restart: no other agent is free to take worker:1") as console:
        await console.lasts(LASTS + 500)
        assert len(console.lead.asked) == 1
        await console.lasts(700)
        assert 2 <= len(console.lead.asked) <= 3
        assert console.words == [
            "not restarted by on_straggler: cannot restart: no other agent is free to take worker:1"
        ]


async def test_nothing_is_told_of_a_refusal_where_another_console_was_first() -> None:
    async with Console(refusal="the cluster is in generation 2, not 1") as console:
        await console.lasts(LASTS + 1)
        assert len(console.lead.asked) == 1
        for task in SPEC.tasks:
            of = fakes.status(generation=2)
            console.put(FrameArrived(console.source.at, task, fakes.frame(task, 20, console.source.at, of)))
        await console.lasts(10)
        assert console.words == []


async def test_a_restart_that_gained_too_little_is_told_and_not_tried_again() -> None:
    async with Console() as console:
        await console.lasts(LASTS + 1)
        await console.lasts(1, measured(0.02))
        again = replace(STRAGGLER, begin=console.source.at)
        await console.lasts(2 * LASTS, again)
        assert len(console.lead.asked) == 1
        assert console.words == [
            "restart of worker:1 gained 2% (50% expected): not tried again",
            "not restarted by on_straggler: its last restart has not gained enough",
        ]


async def test_a_restart_that_was_worth_it_may_be_repeated() -> None:
    async with Console() as console:
        await console.lasts(LASTS + 1)
        await console.lasts(1, measured(0.45))
        await console.lasts(LASTS + 1, replace(STRAGGLER, begin=console.source.at))
        assert [asked[-1] for asked in console.lead.asked] == [False, True]
        assert console.words == []


async def test_a_restart_for_a_task_that_the_cluster_has_not_does_no_harm() -> None:
    strange = measured(0.02)
    async with Console() as console:
        for name in ("banana:7", "worker:77", "\x1b[31m"):
            await console.lasts(1, STRAGGLER, replace(strange, evidence={**strange.evidence, "restarted_for": name}))
        await console.lasts(LASTS + 1)
        assert (len(console.lead.asked), console.words) == (1, [])


async def test_a_pause_of_all_is_no_break_and_nobody_is_restarted_in_it() -> None:
    async with Console() as console:
        await console.lasts(LASTS - 5)
        console.condition = Condition.STILL
        await console.lasts(20)
        assert console.lead.asked == []
        console.condition = Condition.TRAINING
        await console.lasts(1)
        assert len(console.lead.asked) == 1


async def test_the_measured_price_of_a_restart_takes_the_place_of_the_assumed_one() -> None:
    by_policy = measured(0.45)
    by_hand = {name: value for name, value in by_policy.evidence.items() if name != "restarted_for"}
    dear = replace(by_policy, evidence={**by_hand, "lost_seconds": 900.0})
    async with Console() as console:
        await console.lasts(1, STRAGGLER, dear)
        await console.lasts(LASTS + 10)
        assert console.lead.asked == []
        assert console.words == ["not restarted by on_straggler: a restart now would be paid back after 32 m 06 s only"]


async def test_only_a_console_of_living_agents_has_the_policy() -> None:
    settings = replace(Settings(), simulate=2)
    assert connect(settings, {}, {}).straggler_policy(settings) is None
    replay = ClusterConnection(Seconds(SPEC), NoCommands("this is a replay: it is over"))
    assert replay.straggler_policy(settings) is None
    channels = Channels(SPEC, insecure=True)
    live = ClusterConnection(Seconds(SPEC), AgentCommands(channels), channels)
    assert live.straggler_policy(settings) is not None
    only_looks = live.straggler_policy(replace(settings, read_only=True))
    assert only_looks is not None and only_looks._why_not() == "this console only looks (--read-only)"
    await channels.close()
