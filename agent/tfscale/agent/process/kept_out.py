"""Reasons that keep the probe out of a process, or its reports from the agent, with what to do about each."""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Sequence
from pathlib import Path

from tfscale.agent.process.started_process import StartedProcess

_OLDEST_PYTHON = (3, 10)
_NEEDED = ("TFSCALE_REPORT", "TFSCALE_PROBE_PATH")
_READS_ALL = 1 << 1 | 1 << 2
"""Capabilities that read every file: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


def reason(process: StartedProcess, site: str | None) -> str:
    """Return why the probe is not in this process, or cannot report, and what to do; empty where nothing keeps it out.

    `site` is the folder that must be on the process's PYTHONPATH, None where the probe is not installed.
    """
    if (version := process.python_version) is not None and version < _OLDEST_PYTHON:
        found, oldest = (".".join(map(str, each)) for each in (version, _OLDEST_PYTHON))
        return f"its process {process.pid} runs Python {found}, and the probe needs {oldest} or newer: install that"
    if process.is_entered:
        return _out_of_reach(process)
    if site is None:
        return "the trainer part of tfscale is not installed beside its agent: install all of tfscale there"
    flags = _flags(process.command)
    if "S" in flags:
        return f"Python of its process {process.pid} was started with -S, which reads no packages: leave that out"
    if (why := _lost_path(process, flags, site)) is None:
        return _out_of_reach(process)
    return f"{why}, or run 'tfscale-agent install-probe --python {shlex.quote(process.python)}' once; then restart it"


def user_name(user: int) -> str:
    """Return the name of a user, `user 1234` for one without a name on this host."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _lost_path(process: StartedProcess, flags: str, site: str) -> str | None:
    number = f"its process {process.pid}"
    if ignoring := [flag for flag in flags if flag in "IE"]:
        return f"Python of {number} was started with -{ignoring[0]}, which ignores PYTHONPATH: leave that out"
    if missing := [name for name in _NEEDED if not process.environment.get(name)]:
        return f"the environment of {number} was cleaned, and lacks {missing[0]}: keep all TFSCALE_ variables in it"
    path = process.environment.get("PYTHONPATH", "")
    folders = path.split(os.pathsep)
    if site not in folders:
        how = f"was set to {path!r} anew" if path else "was removed"
        return f"PYTHONPATH of {number} {how}: write PYTHONPATH={path or 'FOLDER'}:$PYTHONPATH in its launcher"
    for folder in folders[: folders.index(site)]:
        if (Path(folder) / "sitecustomize.py").is_file():
            return f"PYTHONPATH of {number} has {folder}/sitecustomize.py before the probe's: put that folder last"
    return None


def _out_of_reach(process: StartedProcess) -> str:
    """Return why the process cannot load the probe or report to this agent, and what to do.

    Empty where it can, or where unknown.
    """
    socket, portions = process.environment.get(_NEEDED[0], ""), process.environment.get(_NEEDED[1], "")
    for path in filter(None, portions.split(os.pathsep)):
        if not _is_seen(process.pid, path):
            return _unseen(process, path)
        if not _may_read(process, path):
            return (
                f"its process {process.pid} runs as {user_name(process.user)}, who may not read {path}: install "
                "tfscale where that user may read it, or start the agent as that user"
            )
    if process.user not in (0, os.getuid()):
        return _without_name(process)
    return _unseen(process, socket) if socket and not _is_seen(process.pid, socket) and _without_name(process) else ""


def _unseen(process: StartedProcess, path: str) -> str:
    return (
        f"its process {process.pid} does not see {path}, which the probe needs: mount that path in its "
        "container, or start agent and task anew where it was removed"
    )


def _without_name(process: StartedProcess) -> str:
    """Return why the process cannot use the socket's name, which leads to the agent past folders; empty where it can.

    Names of sockets are those of a network namespace.
    """
    if _network(process.pid) in (None, _network(os.getpid())):
        return ""
    return (
        f"its process {process.pid} runs as {user_name(process.user)} in a network of its own, and may not open the "
        "agent's socket: start the agent as that user"
    )


def _network(pid: int) -> str | None:
    """Return the identity of a process's network namespace, None where the agent may not look."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - it names no path
    except OSError:
        return None


def _is_seen(pid: int, path: str) -> bool:
    """Decide whether a path exists for a process; True where unknown."""
    root = Path(f"/proc/{pid}/root")
    try:
        (root / path.lstrip("/")).stat()
    except FileNotFoundError:
        return not root.exists()  # the process has ended
    except OSError:  # the agent may not look into it
        return True
    return True


def _may_read(process: StartedProcess, path: str) -> bool:
    """Decide by owners and modes whether a process may read a folder of another user's; True where unknown."""
    if process.user in (0, os.getuid()):
        return True
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        words = {line.partition(":")[0]: line.split()[1:] for line in status.splitlines()}
        groups = {int(words["Gid"][1]), *map(int, words["Groups"])}
        reads_all = bool(int(words["CapEff"][0], 16) & _READS_ALL)
        folders = [Path(path), *Path(path).parents]
        return reads_all or all(_lets_in(folder.stat(), process.user, groups) for folder in folders)
    except (OSError, KeyError):
        return True


def _lets_in(folder: os.stat_result, user: int, groups: set[int]) -> bool:
    shift = 6 if folder.st_uid == user else 3 if folder.st_gid in groups else 0
    return bool(folder.st_mode >> shift & os.X_OK)


def _flags(command: Sequence[str]) -> str:
    """Return the letters of the options of Python itself in its command line."""
    letters = ""
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            break
        for place, letter in enumerate(word[1:], 2):
            if letter in "cm":
                return letters
            if letter in "WX":
                _ = word[place:] or next(words, "")
                break
            letters += letter
    return letters
