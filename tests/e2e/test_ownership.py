"""The rows of scripts/spike_ownership that must stay true: real agents, shims and tasks, killed with SIGKILL."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
import tfscale

SCRIPT = Path(__file__).parents[2] / "scripts" / "spike_ownership"


@pytest.fixture(scope="module")
def spike() -> ModuleType:
    loader = SourceFileLoader("spike_ownership", str(SCRIPT))
    specification = importlib.util.spec_from_loader(loader.name, loader)
    assert specification is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


@pytest.fixture
def program(tmp_path: Path, spike: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:

    monkeypatch.setenv("PYTHONPATH", ":".join(str(Path(portion).parent) for portion in tfscale.__path__))
    path = tmp_path / "task.py"
    path.write_text(spike.PROGRAM)
    return path


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
async def test_the_cluster_mends_itself(spike: ModuleType, program: Path, party: str, moment: str) -> None:
    row = await spike.try_row(party, moment, program, 10.0, "")
    assert row.seconds is not None
    assert row.generations == ((1,) * 3 if moment == "running" else (2,) * 3)
    assert row.untouched == (3 if moment == "running" else None)
    assert row.left == 0


@pytest.mark.parametrize(("party", "state"), [("shim of a peer", "lost"), ("task of a peer", "exited")])
async def test_a_death_is_reported_and_mended_by_a_restart(
    spike: ModuleType, program: Path, party: str, state: str
) -> None:
    row = await spike.try_row(party, "running", program, 1.0, "")
    assert row.states == f"running, {state}, running"
    assert row.mended
    assert row.left == 0
