"""The console as an operator's Mac or Windows terminal has it: without what only Unix, or only Linux, has."""

from __future__ import annotations

import subprocess
import sys

import pytest

_ELSEWHERE = """
import asyncio, importlib, os, pkgutil, signal, sys
# What others wrote asks for its own system while it is imported.
import grpc.aio, platformdirs, psutil, textual.app, textual.drivers.linux_driver, textual.pilot, xml.sax.saxutils
sys.platform = {system!r}
if sys.platform == "win32":
    sys.modules.update(dict.fromkeys(("fcntl", "resource", "pwd", "grp", "termios", "tty")))
    for name in ("SIGKILL", "SIGBUS", "SIGSTOP", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGQUIT", "SIGTSTP", "SIGCONT"):
        delattr(signal, name)
    for name in ("getuid", "geteuid", "killpg", "fork", "getpgid", "uname", "sched_getaffinity", "getloadavg"):
        delattr(os, name)
    asyncio.SelectorEventLoop.add_signal_handler = asyncio.AbstractEventLoop.add_signal_handler

import tfscale.console, tfscale.core
for part in (tfscale.core, tfscale.console):
    for module in pkgutil.walk_packages(part.__path__, part.__name__ + "."):
        importlib.import_module(module.name)

from tfscale.console.cli import main
for words in {commands!r}:
    sys.argv = ["tfscale-console", *words]
    try:
        main()
    except SystemExit as end:
        print("exit", end.code)
"""
_SIMULATED = ("--simulate", "4", "--headless", "--only", "events", "--seconds", "1")
_OWN_RUN = ("run", "--headless", "--", "python", "train.py")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_another_system_has_the_whole_console_and_no_agents_of_its_own(system: str) -> None:
    text = _ELSEWHERE.format(system=system, commands=[_SIMULATED, _OWN_RUN])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)

    *events, simulated, own = done.stdout.splitlines()
    assert done.returncode == 0 and any('"worker:3"' in line for line in events)
    assert (simulated, own) == ("exit 0", "exit 1")
    assert done.stderr.startswith("tfscale-console: agents run on Linux alone: ") and done.stderr.count("\n") == 1
