"""Pictures of the docs: screens of the console on simulated clusters, exported by Textual as SVG.

    .venv/bin/python scripts/docs/pictures.py [--out docs/pictures] [--only steps]

The clusters are simulated from a fixed seed: only a change of the console changes a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("core", "console", "protos")]

from tfscale.console.analysis.diagnostician import Diagnostician  # noqa: E402
from tfscale.console.engine.engine import Engine  # noqa: E402
from tfscale.console.engine.events import SecondPassed  # noqa: E402
from tfscale.console.engine.inbox import Inbox  # noqa: E402
from tfscale.console.engine.state import ClusterState  # noqa: E402
from tfscale.console.sources.simulation.simulated import simulated_spec  # noqa: E402
from tfscale.console.sources.simulation.simulated_cluster import SimulatedCluster  # noqa: E402
from tfscale.console.sources.simulation.simulated_faults import Fault  # noqa: E402
from tfscale.console.transport.commands import NoCommands  # noqa: E402
from tfscale.console.tui.app import ConsoleApp  # noqa: E402
from tfscale.core.cluster.cluster_spec import ClusterSpec  # noqa: E402

BEGIN = 1_800_000_000.0
LINES, WIDTH = 32, 120


@dataclass(frozen=True)
class Picture:
    """A simulated cluster, and the keys that are pressed after some seconds of it."""

    keys: Sequence[str]
    workers: int
    seconds: int
    faults: Sequence[str]
    lines: int = LINES


PICTURES = {
    "cluster": Picture((), 12, 75, ("worker:3=40ms,input@30s",), 28),
    "heat": Picture(("h",), 256, 40, ("worker:77=1.5x@10s",)),
    "task": Picture(("enter",), 12, 75, ("worker:3=thermal@30s",), 40),
    "steps": Picture(("v",), 12, 75, ("worker:3=1.4x@30s",), 22),
    "events": Picture(("e", "enter"), 4, 75, ("worker:1=1.4x@10s-25s", "worker:2=kill@45s-52s"), 30),
    "advice": Picture(("A",), 12, 75, ("worker:3=40ms,input@30s",), 46),
    "restart": Picture(("r",), 4, 100, ("worker:2=hang@30s",), 28),
}


class Still:
    """A source of events that stands still at one moment."""

    is_live = False

    def __init__(self, spec: ClusterSpec, at: float) -> None:
        self.spec = spec
        self._at = at

    def now(self) -> float:
        return self._at

    async def run(self, inbox: Inbox) -> None:
        inbox.put(SecondPassed(self._at))
        await asyncio.Event().wait()


def folded(picture: Picture) -> ClusterState:
    """Return the state of the console at the end of the simulated seconds."""
    spec = simulated_spec(picture.workers)
    state = ClusterState(spec, Diagnostician(spec))
    faults = [Fault.parse(words) for words in picture.faults]
    second = 1
    for event in SimulatedCluster(spec, faults, rate=10.0, seed=1).arrivals(BEGIN):
        if isinstance(event, SecondPassed):
            continue
        while event.at >= BEGIN + second:
            state.snapshot(BEGIN + second)
            second += 1
        if second > picture.seconds:
            return state
        state.fold(event)
    return state


async def drawn(picture: Picture) -> str:
    """Return the picture as SVG."""
    source = Still(simulated_spec(picture.workers), BEGIN + picture.seconds)
    state = folded(picture)
    app = ConsoleApp(Engine(source, lambda: state), NoCommands("no log: this is a simulation"))
    async with app.run_test(size=(WIDTH, picture.lines)) as pilot:
        while app.cluster.snapshot is None:
            await pilot.pause(0.02)
        await pilot.press(*picture.keys)
        await pilot.pause(0.5)
        return screenshot(app)


def screenshot(app: ConsoleApp) -> str:
    """Return what the console shows as SVG, with the fonts that the reader has: none is loaded from another site."""
    return re.sub(r"@font-face \{.*?\}\s*", "", app.export_screenshot(), flags=re.DOTALL)


def set_environment() -> None:
    """Set the clock and the colours of all pictures, and leave the operator's own view alone."""
    os.environ |= {
        "TZ": "UTC",
        "COLORTERM": "truecolor",
        "XDG_STATE_HOME": tempfile.mkdtemp(prefix="tfscale-pictures-"),
    }
    time.tzset()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=ROOT / "docs" / "pictures")
    parser.add_argument("--only", choices=PICTURES, help="one of them")
    flags = parser.parse_args()
    set_environment()
    flags.out.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        if flags.only in (None, name):
            (flags.out / f"{name}.svg").write_text(asyncio.run(drawn(picture)))


if __name__ == "__main__":
    main()
