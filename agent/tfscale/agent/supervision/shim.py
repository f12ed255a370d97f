"""Process between an agent and its task: it survives the agent, so the training goes on without one.

Each task has one shim, run as `python -IS shim.py OPTIONS` (a JSON object) in a session of its own. The shim is the
task's parent, merges the task's output into a log that it rotates, holds the lock file that its agent locked for it,
and keeps a state file with the task's end. It does not end with the agent. It imports the standard library alone, and
only the modules that load fast, because a restart waits for the shims of all its tasks.

    SIGTERM   end the task's process group; kill what is left after the grace period
    SIGINT    kill the task's process group now

The state is one JSON object, replaced as a whole. Every change is also sent to the agent over a pipe, so a living agent
learns it when the disk is full, too. The lines that the shim adds to the task's log begin with `--- tfscale: `.
"""

# Importing pathlib would take a sixth of the time until the task starts.
# ruff: noqa: PTH105, PTH108, PTH110, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TypedDict

    class ShimOptions(TypedDict):
        """Argument of a shim; docs/how-it-works/ownership.md explains each field."""

        state: str
        log: str
        log_size: int
        log_keep: int
        grace: float
        generation: int
        attempt: int
        directory: str | None
        agent: int
        command: list[str]


NOT_FOUND = 127
NOT_EXECUTABLE = 126
_BY_INTERPRETER = "or write its interpreter before it, as in python train.py"
_REMEDIES = {
    errno.ENOENT: f"give its path, {_BY_INTERPRETER}",
    errno.EACCES: f"make it executable with chmod +x, {_BY_INTERPRETER}",
    errno.ENOEXEC: f"begin it with a line such as #!/bin/sh, {_BY_INTERPRETER}",
}
"""What helps where a program cannot be started, by the error's number."""
_CHUNK = 1 << 16
"""Bytes of one read of the task's output."""
_PIPE = 1 << 20
"""Bytes that the task can write before it waits for the shim."""
_SPARE = 1 << 14
"""Bytes set aside for the last state, which must be written on a full disk, too."""


def boot_id() -> str:
    """Return the identity of this boot: process ids and start times of another boot mean nothing."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since boot; None if there is no such process."""
    fields = _stat(pid)
    return None if fields is None else int(fields[19])


def session_members(shim_pid: int, shim_started: int) -> Iterator[int]:
    """List the living processes of the session that a shim leads or led, without the shim itself."""
    leader = start_time(shim_pid)
    if leader is not None and leader != shim_started:
        return
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == shim_pid:
            continue
        fields = _stat(int(entry))
        if fields and int(fields[3]) == shim_pid and int(fields[19]) >= shim_started and fields[0] != "Z":
            yield int(entry)


def kill_session(shim_pid: int, shim_started: int, patience: float = 5.0) -> int:
    """Kill what is left of a shim's session, wait until it is gone, and return how many processes were killed."""
    killed: set[int] = set()
    deadline = time.monotonic() + patience
    while (members := set(session_members(shim_pid, shim_started))) and time.monotonic() < deadline:
        for pid in members - killed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= members
        time.sleep(0.01)
    return len(killed)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third on; the second may contain spaces and parentheses."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _ends_with_line(path: str) -> bool:
    """Decide whether the next byte of a file begins a line."""
    try:
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:  # it is not there, or empty
        return True


def _why_not_started(error: OSError | ValueError, options: ShimOptions) -> str:
    """Return what is wrong with the program or its folder, and what helps."""
    if not isinstance(error, OSError):
        return f"cannot be started: {error}"
    program = options["command"][0]
    why = f"cannot be started: {error.filename or program!r}: {error.strerror}"
    if error.filename == options["directory"] != program:
        return f"{why}: give another [program] directory"
    place = os.path.join(options["directory"] or "", program)
    if os.path.isdir(place):
        return f"cannot be started: {program!r} is a folder"
    if error.errno == errno.ENOENT and os.sep in program and os.path.exists(place):
        return f"{why}: the interpreter in its first line is not there"
    return f"{why}: {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else why


class OutputLog:
    """Append-only file that is rotated at line ends. Writing never fails: bytes that do not fit are counted."""

    def __init__(self, path: str, limit: int, keep: int) -> None:
        self._path, self._limit, self._keep = path, limit, keep
        self._fd: int | None = None
        self._size = 0
        self._gap = 0
        self._ends_with_line = _ends_with_line(path)
        self.lost = 0

    def write(self, data: bytes) -> None:
        if self._size and self._size + len(data) > self._limit:
            cut = 0 if self._ends_with_line else data.find(b"\n") + 1
            if cut or self._ends_with_line:
                self._append(data[:cut])
                self._rotate()
                data = data[cut:]
        if data:
            self._append(data)
            self._ends_with_line = data.endswith(b"\n")

    def line(self, text: str) -> None:
        """Write a line of the shim's own, with the time (UTC); a line of the task that has no end gets one."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        before = "" if self._ends_with_line else "\n"
        # Arguments and paths need not be UTF-8.
        self.write(f"{before}--- tfscale: {now} {text}\n".encode(errors="backslashreplace"))

    def _append(self, data: bytes) -> None:
        try:
            if self._gap:
                self._put(f"\n--- tfscale: {self._gap} bytes of output could not be written\n".encode())
                self._gap = 0
            while data:
                data = data[self._put(data) :]
        except OSError:
            self._gap += len(data)
            self.lost += len(data)

    def _put(self, data: bytes) -> int:
        if self._fd is None:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            self._size = os.fstat(self._fd).st_size
        written = os.write(self._fd, data)
        self._size += written
        return written

    def _rotate(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        with contextlib.suppress(OSError):
            for number in range(self._keep, 0, -1):
                newer = f"{self._path}.{number - 1}" if number > 1 else self._path
                if os.path.exists(newer):
                    os.replace(newer, f"{self._path}.{number}")
            if self._keep == 0:
                os.unlink(self._path)


class StateFile:
    """File that is replaced as a whole. A spare file is set aside for the last state, in case the disk is full."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._spare = path + ".spare"
        with contextlib.suppress(OSError), open(self._spare, "wb") as spare:
            os.posix_fallocate(spare.fileno(), 0, _SPARE)

    def write(self, text: bytes) -> None:
        try:
            with open(self._path + ".new", "wb") as file:
                file.write(text)
            os.replace(self._path + ".new", self._path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._write_spare(text)

    def _write_spare(self, text: bytes) -> None:
        with contextlib.suppress(OSError):
            with open(self._spare, "r+b") as spare:
                spare.write(text.ljust(_SPARE))
            os.replace(self._spare, self._path)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._spare)


class Shim:
    """Runner of one task, from its start to its last byte of output."""

    def __init__(self, options: ShimOptions) -> None:
        pid = os.getpid()
        self._options = options
        self._log = OutputLog(options["log"], options["log_size"], options["log_keep"])
        self._file = StateFile(options["state"])
        self._state: dict[str, Any] = {
            "boot": boot_id(),
            "shim_pid": pid,
            "shim_started": start_time(pid),
            "generation": options["generation"],
            "attempt": options["attempt"],
            "argv": options["command"],
        }
        self._name = f"generation {options['generation']}, attempt {options['attempt']}"
        self._selector = selectors.DefaultSelector()
        self._task_pid = 0
        self._kill_at: float | None = None

    def run(self) -> int:
        """Run the task to its end and return its exit status as a shell does: 128 + n for signal n."""
        signals = self._catch_signals()
        self._publish()
        task = self._launch()
        if task is None:
            return NOT_FOUND
        assert task.stdout is not None
        os.set_blocking(task.stdout.fileno(), False)
        self._selector.register(task.stdout, selectors.EVENT_READ, self._drain)
        self._selector.register(signals, selectors.EVENT_READ, self._on_signal)
        ended = os.pidfd_open(task.pid)
        self._selector.register(ended, selectors.EVENT_READ)
        while ended not in self._wait():
            pass
        # The zombie keeps its process group's number from being used again until the rest of the group is gone.
        self._kill(signal.SIGKILL)
        kill_session(self._state["shim_pid"], self._state["shim_started"])
        self._drain(task.stdout.fileno())
        return self._finish(task.wait())

    def _catch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer)
        return reader

    def _launch(self) -> subprocess.Popen[bytes] | None:
        command = self._options["command"]
        self._log.line(f"{self._name}: " + " ".join(command).replace("\n", "\\n"))
        try:
            task = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._options["directory"],
                process_group=0,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._fail(error)
            return None
        assert task.stdout is not None
        with contextlib.suppress(OSError):
            fcntl.fcntl(task.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        self._task_pid = task.pid
        self._change(task_pid=task.pid, task_started=start_time(task.pid), started=time.time())
        return task

    def _fail(self, error: OSError | ValueError) -> None:
        is_there = isinstance(error, OSError) and error.errno in (errno.EACCES, errno.ENOEXEC)
        why = _why_not_started(error, self._options)
        self._log.line(why)
        self._change(code=NOT_EXECUTABLE if is_there else NOT_FOUND, ended=time.time(), message=why)
        self._file.close()

    def _wait(self) -> set[object]:
        timeout = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
        ready = self._selector.select(timeout)
        for key, _ in ready:
            if key.data is not None:
                key.data(key.fd)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill(signal.SIGKILL)
            self._kill_at = None
        return {key.fileobj for key, _ in ready}

    def _drain(self, fd: int) -> None:
        for _ in range(_PIPE // _CHUNK):
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(fd)
                return
            self._log.write(data)

    def _on_signal(self, fd: int) -> None:
        for number in os.read(fd, 16):
            self._change(requested=True)
            if number == signal.SIGINT:
                self._kill(signal.SIGKILL)
            elif self._kill_at is None:
                self._kill(signal.SIGTERM)
                self._kill(signal.SIGCONT)  # a stopped process gets SIGTERM only once it continues
                self._kill_at = time.monotonic() + self._options["grace"]

    def _kill(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._task_pid, number)

    def _finish(self, status: int) -> int:
        code, number = (status, None) if status >= 0 else (None, -status)
        end = f"exit code {code}" if number is None else f"signal {number}"
        self._log.line(f"{self._name}: ended with {end}")
        self._change(code=code, signal=number, ended=time.time(), lost_output=self._log.lost)
        self._file.close()
        return status if status >= 0 else 128 - status

    def _change(self, **changes: object) -> None:
        self._state |= changes
        self._publish()

    def _publish(self) -> None:
        text = json.dumps(self._state).encode()
        self._file.write(text)
        with contextlib.suppress(OSError):  # the agent is gone, or does not read: the file has the same
            os.write(self._options["agent"], text + b"\n")


if __name__ == "__main__":
    given: ShimOptions = json.loads(sys.argv[1])
    os.set_blocking(given["agent"], False)
    os._exit(Shim(given).run())
