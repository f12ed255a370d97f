"""Process between an agent and its task: it survives the agent, so the training goes on without an agent.

Each task has one shim, `python -IS -c PROGRAM` in a session of its own, with its options (a JSON object) on stdin. The
shim is the task's parent, merges the task's output into a log that it rotates, and where an agent shows the output,
keeps it a second time without lines of its own, stdout and stderr apart if they are to be. It holds the lock file that
its agent locked for it, and keeps a state file with the task's end. It does not end with the agent; where its options
say so, it then kills the task. It imports the standard library alone, and only modules that load fast, because a
restart waits for the shims of all its tasks.

    SIGTERM      end the task's process group, and its process in any group; kill them after the grace period
    SIGRTMAX-2   kill both now

No other signal does anything to it: whoever sends one to all processes of a cgroup, sends it to the task, too.

The state is one JSON object, replaced as a whole. Every change is also sent to the agent over a pipe, so a living agent
learns the change when the disk is full or hangs, too. Threads write both files: the shim itself never waits for a disk.
The lines that the shim adds to the task's log begin with `--- tfscale: `.
"""

# Importing pathlib would take a sixth of the time until the task starts.
# ruff: noqa: PTH109, PTH110, PTH112, PTH116, PTH117, PTH118

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import selectors
import signal
import subprocess
import time
from functools import partial

from tfscale.agent.checked_json import with_checksum
from tfscale.agent.process.passed_signals import OF_FAULTS, UNCATCHABLE, give_group
from tfscale.agent.process.sessions import boot_id, is_stopped, kill_session, start_time
from tfscale.agent.supervision.output_log import BackgroundLog, OutputLog
from tfscale.agent.supervision.state_file import StateFile
from tfscale.agent.supervision.writer_thread import WriterThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NotRequired, TypedDict

    class ShimOptions(TypedDict):
        """Argument of a shim; docs/how-it-works/ownership.md explains each field."""

        state: str
        log: str
        log_size: int
        log_keep: int
        grace: float
        generation: int
        attempt: int
        restarted_for: NotRequired[str]
        directory: str | None
        working_folder: str
        agent: int
        ends_with_agent: NotRequired[bool]
        open_files: NotRequired[int]
        folder: str
        command: list[str]
        named: list[str]
        shown: str | None
        shown_errors: str | None
        stdin: int | None


KILL_NOW = signal.SIGRTMAX - 2
NOT_FOUND = 127
NOT_EXECUTABLE = 126
_BY_INTERPRETER = "or write its interpreter before it, as in python train.py"
_REMEDIES = {
    errno.ENOENT: f"give its path, {_BY_INTERPRETER}",
    errno.EACCES: f"make it executable with chmod +x, {_BY_INTERPRETER}",
    errno.E2BIG: "no argument or variable may have 128 KiB, nor all together 2 MiB: put some in a file",
    errno.ENOEXEC: f"begin it with a line such as #!/bin/sh, {_BY_INTERPRETER}",
}
"""Remedies where a program cannot be started, by the error's number."""
_CHUNK = 1 << 16
"""Bytes of one read of the task's output."""
_PIPE = 1 << 20
"""Bytes that the task can write before it waits for the shim."""
_PATIENCE = 5.0
"""Seconds at the end of the task for a hanging disk, to take each file's last words."""
_FIRST_STATE = 0.5
"""Seconds for a disk to take the first state, by which the next agent finds the task."""
STATE_VERSION = 1
"""Version of the state file. Fields that a reader does not know are ignored."""


def why_not_started(error: OSError | ValueError, command: list[str], folder: str | None) -> str:
    """Return the fault of the program or its folder, and a remedy."""
    if not isinstance(error, OSError):
        return f"cannot be started: {error}"
    program = command[0]
    why = f"cannot be started: {error.filename or program!r}: {error.strerror}"
    if error.filename == folder != program:
        return f"{why}: give another [program] directory"
    place = os.path.join(folder or "", program)
    if os.path.isdir(place):
        return f"cannot be started: {program!r} is a folder"
    if error.errno == errno.ENOENT and os.sep in program and os.path.exists(place):
        return f"{why}: the interpreter in its first line is not there"
    return f"{why}: {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else why


def folder_now(working_folder: str, directory: str | None) -> str | None:
    """Return the folder in which a task starts now, None for the working folder of this process.

    Where another folder lies at the path of the working folder, as after `rm -rf` and `git clone`, the task starts
    there. Raises OSError where the working folder was removed, and none was made anew.
    """
    if directory is not None and os.path.isabs(directory):
        return directory
    with contextlib.suppress(OSError):
        there = os.stat(working_folder)
        is_same = os.path.samestat(there, os.stat("."))
        return directory if is_same else os.path.join(working_folder, directory or "")
    try:
        os.getcwd()  # a folder that was renamed is as good as before
    except FileNotFoundError:
        why = "the working folder was removed: make it anew there, or start the agent in another one"
        raise OSError(errno.ESTALE, why, working_folder) from None
    return directory


class Shim:
    """Runner of one task, from its start to its last byte of output."""

    def __init__(self, options: ShimOptions) -> None:
        pid = os.getpid()
        self._options = options
        size, keep = options["log_size"], options["log_keep"]
        self._log = BackgroundLog(OutputLog(options["log"], size, keep))
        shown = (options["shown"], options["shown_errors"])
        self._shown = [BackgroundLog(OutputLog(path, size, keep)) for path in shown if path]
        self._file = StateFile(options["state"])
        self._writer = WriterThread("state")
        self._writer.insist(self._file.set_aside)
        self._state: dict[str, Any] = {
            "version": STATE_VERSION,
            "boot": boot_id(),
            "shim_pid": pid,
            "shim_started": start_time(pid),
            "generation": options["generation"],
            "attempt": options["attempt"],
            "restarted_for": options.get("restarted_for", ""),
            "argv": options["named"],
            "directory": options["folder"],
        }
        self._name = f"generation {options['generation']}, attempt {options['attempt']}"
        self._selector = selectors.DefaultSelector()
        self._task_pid = 0
        self._kill_at: float | None = None

    def run(self) -> int:
        """Run the task to its end and return its exit status as a shell does: 128 + n for signal n."""
        signals = self._catch_signals()
        self._publish()
        self._writer.wait(_FIRST_STATE)
        task = self._launch()
        if task is None:
            return NOT_FOUND
        streams = [each.fileno() for each in (task.stdout, task.stderr) if each is not None]
        logs = {fd: [self._log, *self._shown[place : place + 1]] for place, fd in enumerate(streams)}
        for fd in streams:
            os.set_blocking(fd, False)
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)
            self._selector.register(fd, selectors.EVENT_READ, partial(self._drain, logs[fd]))
        self._selector.register(signals, selectors.EVENT_READ, self._on_signal)
        if self._options.get("ends_with_agent"):
            # Nothing is to be read from this end of the pipe: only an error, once the agent's end is closed.
            self._selector.register(self._options["agent"], selectors.EVENT_READ, self._on_agents_death)
        ended = os.pidfd_open(task.pid)
        self._selector.register(ended, selectors.EVENT_READ)
        while ended not in self._wait():
            pass
        # The zombie keeps its process group's number from being used again until the rest of the group is gone.
        give_group(self._task_pid, signal.SIGKILL)
        kill_session(self._state["shim_pid"], self._state["shim_started"])
        for fd in streams:
            self._drain(logs[fd], fd)
        return self._finish(task.wait())

    def _catch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in signal.valid_signals() - UNCATCHABLE - OF_FAULTS - {signal.SIGCHLD}:
            # A handled signal has its usual meaning in the task; one that the agent was given as ignored stays so.
            if number in (signal.SIGTERM, signal.SIGTTOU) or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer)
        return reader

    def _launch(self) -> subprocess.Popen[bytes] | None:
        command = self._options["command"]
        self._log.line(f"{self._name}: " + " ".join(command).replace("\n", "\\n"))
        try:
            task = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if (stdin := self._options["stdin"]) is None else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if self._options["shown_errors"] else subprocess.STDOUT,
                cwd=folder_now(self._options["working_folder"], self._options["directory"]),
                process_group=0,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._fail(error)
            return None
        self._task_pid = task.pid
        self._change(task_pid=task.pid, task_started=start_time(task.pid), started=time.time())
        return task

    def _fail(self, error: OSError | ValueError) -> None:
        number = error.errno if isinstance(error, OSError) else None
        why = why_not_started(error, self._options["command"], self._options["directory"])
        self._log.line(why)
        code = NOT_EXECUTABLE if number in (errno.EACCES, errno.ENOEXEC) else NOT_FOUND
        if number and self._options.get("ends_with_agent"):
            code = number  # as Slurm's own daemon, in whose place the agent starts the program
        self._close(code=code, ended=time.time(), message=why)

    def _wait(self) -> set[object]:
        timeout = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if key.data is not None:
                key.data(key.fd)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            give_group(self._task_pid, signal.SIGKILL)
            self._kill_at = None
        return {key.fileobj for key, _ in ready}

    def _drain(self, logs: Sequence[BackgroundLog], fd: int) -> None:
        for _ in range(_PIPE // _CHUNK):
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(fd)
                return
            for log in logs:
                log.write(data)
            self._tell_loss()

    def _tell_loss(self) -> None:
        """Publish the number of lost bytes each time it has doubled: the agent reports it at once."""
        lost = self._log.lost
        if lost > 2 * self._state.get("lost_output", 0):
            self._change(lost_output=lost)

    def _on_signal(self, fd: int) -> None:
        for number in {signal.SIGTERM, KILL_NOW}.intersection(os.read(fd, 256)):
            self._change(requested=True)
            if number == KILL_NOW:
                give_group(self._task_pid, signal.SIGKILL)
            elif self._kill_at is None:
                give_group(self._task_pid, signal.SIGTERM)
                if is_stopped(self._task_pid):  # it gets SIGTERM only once it continues
                    give_group(self._task_pid, signal.SIGCONT)
                self._kill_at = time.monotonic() + self._options["grace"]

    def _on_agents_death(self, pipe: int) -> None:
        self._selector.unregister(pipe)
        self._log.line(f"{self._name}: killed, since its agent has died")
        self._change(requested=True)
        give_group(self._task_pid, signal.SIGKILL)

    def _finish(self, status: int) -> int:
        code, number = (status, None) if status >= 0 else (None, -status)
        end = f"exit code {code}" if number is None else f"signal {number}"
        ended = time.time()
        self._log.line(f"{self._name}: ended with {end}")
        self._close(code=code, signal=number, ended=ended)
        return status if status >= 0 else 128 - status

    def _change(self, **changes: object) -> None:
        self._state |= changes
        self._publish()

    def _publish(self) -> None:
        text = with_checksum(self._state).encode()
        self._writer.insist(partial(self._file.write, text, is_last="ended" in self._state))
        with contextlib.suppress(OSError):  # the agent is gone, or does not read: the file has the same
            os.write(self._options["agent"], text + b"\n")

    def _close(self, **end: object) -> None:
        """Write down the end, after all output."""
        for log in (self._log, *self._shown):
            log.close(_PATIENCE)
        self._change(**end, lost_output=self._log.lost)
        self._writer.insist(self._file.close)
        self._writer.close(_PATIENCE)


def main() -> None:
    """Run the shim whose options are on stdin; its threads end with it, also hanging ones."""
    with open(0, closefd=False) as options:
        given: ShimOptions = json.load(options)
    os.set_blocking(given["agent"], False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # An agent goes on while its files are replaced by those of a later version, and starts that one's shims.
    resource.setrlimit(resource.RLIMIT_NOFILE, (given.get("open_files", soft), hard))
    os._exit(Shim(given).run())
