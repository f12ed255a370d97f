"""A tour of the console's pages in a Chromium without a window, by keys and by clicks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from chromium.page_visit import visit
from loopback import free_addresses
from watching.tour.console_tour import CONSOLE, VARIABLES

STEPS = (
    ("▲ 1.", "v"),
    ("entered last", "@4 events"),
    ("1 event", "enter"),
    ("kind straggler", "@5 advice"),
    ("What would help", "@6 hosts"),
    ("4 hosts", "@3 heat"),
    ("m measure", "@1 cluster"),
    ("! culprit", "!"),
    ("▲ 1.", "enter"),
    ("log of worker:3", "b"),
    ("Main thread", "escape"),
    ("log of worker:3", "escape"),
    ("! culprit", "@worker:2"),
    ("▌ worker:2", "r"),
    ("Restart all 4 workers?", "n"),
    ("! culprit", "@help"),
    ("On this page", "escape"),
)
"""Words of each page, and the key or the click that leads on."""


def browse(folder: Path, pictures: Path) -> None:
    """Make all steps; draw each page into `pictures`."""
    where = next(free_addresses(1))
    words = ("--simulate", "4", "--fault", "worker:3=1.6x@2s", "--serve", where)
    environment = os.environ | VARIABLES | {"XDG_STATE_HOME": str(folder)}
    server = subprocess.Popen([*CONSOLE, *words], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        url = re.search(r"http://[^\s,]+", server.stderr.readline())
        assert url is not None, "the server printed no address"
        visit(url[0], pictures, STEPS)
    finally:
        server.terminate()
        server.wait(20)
