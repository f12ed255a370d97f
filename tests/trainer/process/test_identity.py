"""Identity of a process, from the variables that its agent has set."""

from __future__ import annotations

import pytest
from tfscale.trainer.probe.process.identity import Identity

VARIABLES = {"REPORT": "/run/agent.sock", "TASK": "worker:1", "GENERATION": "3", "ATTEMPT": "2"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(f"TFSCALE_{name}", value)


def test_an_agents_variables_are_read() -> None:
    assert Identity.from_environment() == Identity("/run/agent.sock", "worker:1", generation=3, attempt=2)


def test_variables_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFSCALE_ATTEMPT", "second")
    with pytest.raises(ValueError):
        Identity.from_environment()
    monkeypatch.delenv("TFSCALE_ATTEMPT")
    with pytest.raises(ValueError, match="no variables of an agent"):
        Identity.from_environment()


def test_a_part_that_begins_in_the_same_millisecond_is_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 5.0)
    first = Identity.from_environment().begun()
    assert first.part == 5000 and first.begun().part == 5001
