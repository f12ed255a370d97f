"""Start of a shim as a process. Standard library alone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tfscale.core.cluster.local.open_files import GIVEN
from tfscale.core.records.task_status import Reason

_IMPORT = "import sys; sys.path.insert(0, {root!r}); from tfscale.agent.supervision import shim"
_PROGRAM = f"{_IMPORT}; shim.main()"
_ROOT = str(Path(__file__).parents[3])
"""Folder from which a shim imports its modules: `-I` leaves only the standard library's folder."""
_MOST_SHOWN = 4096
"""Bytes of a command in the state file, of which a full disk has little room."""

_MOST_NAMED = 200
"""Characters of a command in a message."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Properties of a task that are the same at each of its starts."""

    command: tuple[str, ...]
    directory: str | None
    """Folder in which the task runs, None for the working folder; a relative path begins there."""
    state: Path
    lock: Path
    log: Path
    grace: float
    """Seconds between SIGTERM and SIGKILL."""
    log_size: int
    """Bytes at which the log is rotated."""
    log_keep: int
    shown: Path | None = None
    """Second log, of stdout alone where `shown_errors` is given; None where no agent shows the output."""
    shown_errors: Path | None = None
    """Second log of stderr; None where it goes where stdout goes, and in their common order."""
    ends_with_agent: bool = False
    """True where the shim kills the task when its agent is killed."""
    reads_stdin: bool = False
    """True where the task's stdin is the agent's."""
    working_folder: Path = field(default_factory=Path.cwd)
    """Path of the folder in which the agent was started."""
    address: str = ""
    """Address of the task in its cluster, at which only one task of this host may run; empty where it has none."""

    @property
    def folder(self) -> str:
        """Absolute path of the folder in which the task runs."""
        return str(self.working_folder / (self.directory or ""))


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of the task."""

    generation: int
    attempt: int
    environment: Mapping[str, str]
    reason: Reason


class ShimProcess:
    """Shim that this agent has started."""

    def __init__(self, spec: TaskSpec, launch: Launch, writer: int, locks: Sequence[int]) -> None:
        """Start the shim; `writer` is the pipe for its states, `locks` it has open until its end. Raises OSError."""
        # Neither is a file on a disk: one that hangs delays no start, and options may be as long as a command is.
        options, self._errors = os.memfd_create("options"), os.memfd_create("errors")
        stdin = os.dup(0) if spec.reads_stdin else None
        given = [writer, *locks] + ([] if stdin is None else [stdin])
        try:
            with os.fdopen(options, "w", closefd=False) as file:
                json.dump(_options(spec, launch, writer) | {"stdin": stdin}, file, default=str)
            os.lseek(options, 0, os.SEEK_SET)
            self._process = subprocess.Popen(
                [sys.executable, "-IS", "-c", _PROGRAM.format(root=_ROOT)],
                env=dict(launch.environment),
                stdin=options,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
                pass_fds=given,
            )
        except OSError:
            os.close(self._errors)
            raise
        finally:
            os.close(options)
            if stdin is not None:
                os.close(stdin)
        self.pid = self._process.pid

    def reap(self) -> str:
        """Wait for the shim's end, and return the last line of its stderr: empty unless the shim has failed."""
        self._process.wait()
        os.lseek(self._errors, 0, os.SEEK_SET)
        with os.fdopen(self._errors, errors="replace") as file:
            return "".join(file.read().splitlines()[-1:])


def why_no_shim(environment: Mapping[str, str]) -> str | None:
    """Start a shim that ends at once; return why it could not be started, None where it could.

    It takes 50 ms, and finds a Python or modules that are gone, and a host without room for another process.
    """
    command = [sys.executable, "-IS", "-c", _IMPORT.format(root=_ROOT)]
    try:
        tried = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            errors="replace",
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        return f"cannot be started: its shim: {error}"
    said = "".join(tried.stderr.splitlines()[-1:]) or f"it ended with {tried.returncode}"
    return f"cannot be started: its shim: {said}" if tried.returncode else None


def other_command(spec: TaskSpec, argv: Sequence[str], folder: str) -> str | None:
    """Return a state's command and folder as a message names them; None if both are the spec's."""
    if tuple(argv) == tuple(shown_command(spec.command)) and folder in ("", spec.folder):
        return None
    words = shlex.join(argv)
    shown = words if len(words) <= _MOST_NAMED else f"{words[:_MOST_NAMED]}..."
    return f"{shown} in {folder}" if folder else shown


def shown_command(command: Sequence[str]) -> list[str]:
    """Return a command as state file, announcement and console name it: cut where it is very long."""
    shown, room = [], _MOST_SHOWN
    for word in command:
        shown.append(word[:room])
        room -= len(word) + 1
        if room <= 0:
            break
    return shown


def _options(spec: TaskSpec, launch: Launch, writer: int) -> dict[str, Any]:
    """Return the options of the shim: each field of the spec by its name, and the fields of this start alone."""
    return {each.name: getattr(spec, each.name) for each in fields(spec)} | {
        "generation": launch.generation,
        "attempt": launch.attempt,
        "restarted_for": launch.reason.restarted_for,
        "folder": spec.folder,
        "agent": writer,
        "open_files": GIVEN[0],
        "named": shown_command(spec.command),
    }
