"""The past that a console is given: it tells what the other told, once, and nothing of another run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from simulated_runs import simulated
from tfscale.console.engine.events import AgentDescribed, Event, SecondPassed
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.state_factory import resilient_states
from tfscale.console.engine.timeline.past import Past, PastError, parse_past, past_json
from tfscale.console.sources.simulation.simulated import simulated_spec

SPEC = simulated_spec(3)
RUN = simulated(150, 3, "worker:1=1.8x@3s-40s", "worker:2=kill@110s")
LATE = next(number for number, event in enumerate(RUN) if event.at > RUN[0].at + 95)


def seen(events: Sequence[Event], past: Past | None = None) -> Snapshot:
    """Return the last snapshot of a console that sees these events."""
    state = resilient_states(SPEC, pytest.fail, past=past)()
    snapshot = state.snapshot(events[0].at)
    for event in events:
        state.fold(event)
        if isinstance(event, SecondPassed):
            snapshot = state.snapshot(event.at)
    return snapshot


def past_of(snapshot: Snapshot) -> Past:
    assert snapshot.history is not None
    agents = {str(view.task): view.description for view in snapshot.tasks if view.description}
    known = {task: (agent.pid, agent.started) for task, agent in agents.items()}
    return Past(known, snapshot.timeline, snapshot.history.figures.kept(), frozenset([("straggler", "worker:1")]))


EARLY = seen(RUN)
PAST = parse_past(past_json(past_of(EARLY)), "past.json")
DESCRIBED = [event for event in RUN if isinstance(event, AgentDescribed)]


def told(snapshot: Snapshot) -> list[tuple[str, str, int]]:
    return [(entry.kind, entry.subject, round(entry.at)) for entry in snapshot.timeline]


def test_a_past_is_read_as_it_was_written() -> None:
    assert list(PAST.entries) == list(EARLY.timeline)
    assert PAST.open == {("straggler", "worker:1")} and len(PAST.figures) > 100


def test_a_late_console_with_the_past_tells_what_the_early_one_told_once() -> None:
    late = [*DESCRIBED, *RUN[LATE:]]
    without, with_past = seen(late), seen(late, PAST)
    assert told(with_past) == told(EARLY)
    assert ("straggler", "worker:1") not in {each[:2] for each in told(without)}
    assert with_past.history is not None and EARLY.history is not None
    begin, end = int(RUN[0].at), int(RUN[-1].at)
    kept = [snapshot.history.figures.read(begin, end)[0] for snapshot in (EARLY, with_past) if snapshot.history]
    assert abs(kept[0][20:80] - kept[1][20:80]).max() < 0.01


def test_the_past_of_other_agents_is_not_shown() -> None:
    other = replace(PAST, agents={task: (pid + 1, started) for task, (pid, started) in PAST.agents.items()})
    late = [*DESCRIBED, *RUN[LATE:]]
    assert told(seen(late, other)) == told(seen(late))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "agents": 3}', past_json(PAST)[:-9], "[" * 100_000])
def test_a_damaged_past_is_one_line(text: str) -> None:
    with pytest.raises(PastError, match=r"past\.json: damaged"):
        parse_past(text, "past.json")


def test_a_past_of_a_newer_version_is_refused() -> None:
    newer = json.dumps({**json.loads(past_json(PAST)), "version": 2})
    with pytest.raises(PastError, match=r"past\.json: of version 2, this tfscale reads 1"):
        parse_past(newer, "past.json")
