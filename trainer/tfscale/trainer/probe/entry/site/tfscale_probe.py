"""Second way of the probe into an unmodified script, for launchers that lose the first way (PYTHONPATH).

`tfscale-agent install-probe` copies this module into a Python environment, with a `.pth` file that imports it: so it
runs at the start of every Python process there. In a process without an agent it does nothing. It takes the agent's
variables from this process or, where its environment was cleaned, from the nearest process above that has them.
"""

from __future__ import annotations

import os
import sys

_NEEDED = ("TFSCALE_REPORT", "TFSCALE_PROBE_PATH")


def _agents_variables() -> dict[str, str]:
    """Return the agent's variables, empty where no agent started this process."""
    if all(os.environ.get(name) for name in _NEEDED):
        return {}
    pid = os.getppid()
    try:
        while pid > 1:
            variables = _variables_of(pid)
            if all(variables.get(name) for name in _NEEDED):
                return {name: value for name, value in variables.items() if name.startswith("TFSCALE_")}
            pid = _parent_of(pid)
    except (OSError, ValueError):  # it has ended, or belongs to another user
        pass
    return {}


def _variables_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started."""
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up cost
        pairs = os.fsdecode(file.read()).split("\0")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def _parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib would double the start-up cost
        return int(file.read().rpartition(b")")[2].split()[1])


def _site() -> str | None:
    """Return the agent's folder with the entry of its probe."""
    portions = os.environ["TFSCALE_PROBE_PATH"].split(os.pathsep)
    sites = [os.path.join(portion, "trainer", "probe", "entry", "site") for portion in portions]  # noqa: PTH118
    return next((site for site in sites if os.path.isdir(site)), None)  # noqa: PTH112


def _mark() -> object:
    """Map this file into memory: the list of the process's maps tells the agent that the probe is in."""
    import mmap

    with open(__file__, "rb") as file:  # noqa: PTH123 - pathlib would double the start-up cost
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _enter() -> object:
    os.environ.update(_agents_variables())
    if not all(os.environ.get(name) for name in _NEEDED) or (site := _site()) is None:
        return None
    sys.path.insert(0, site)
    try:
        import tfscale_way_in  # noqa: F401 (it enters)
    finally:
        sys.path.remove(site)
    return _mark()


_entered = _enter()
