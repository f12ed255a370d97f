"""docs/how-it-works/ownership.md, "What survives what": real agents, shims and tasks, killed with SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pytest
import tfscale
from life.killed_parties import aftermath

PATIENCE = 40.0
"""Seconds for a cluster to mend itself: three agents start at once, on a machine that may have other things to do."""


@pytest.fixture(autouse=True)
def python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the agents find the packages of this checkout."""
    monkeypatch.setenv("PYTHONPATH", ":".join(str(Path(portion).parent) for portion in tfscale.__path__))


@pytest.mark.parametrize(
    ("party", "moment"),
    [
        ("agent of the lead", "running"),
        ("agent of a peer", "running"),
        ("agent of the lead", "stopping"),
        ("agent of a peer", "stopping"),
        ("agent of the lead", "between"),
        ("agent of the lead", "starting"),
        ("caller", "stopping"),
    ],
)
async def test_the_cluster_mends_itself(tmp_path: Path, party: str, moment: str) -> None:
    after = await aftermath(tmp_path, party, moment, PATIENCE)
    assert after.seconds is not None
    assert after.generations == ((1,) * 3 if moment == "running" else (2,) * 3)
    assert after.untouched == (3 if moment == "running" else None)
    assert after.left == 0


@pytest.mark.parametrize(("party", "state"), [("shim of a peer", "lost"), ("task of a peer", "exited")])
async def test_a_death_is_reported_and_mended_by_a_restart(tmp_path: Path, party: str, state: str) -> None:
    after = await aftermath(tmp_path, party, "running", 1.0)
    assert after.states == f"running, {state}, running"
    assert after.mended
    assert after.left == 0
