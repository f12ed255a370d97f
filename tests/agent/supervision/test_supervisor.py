import asyncio
import json
import os
import re
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
from running_agents import until
from tfscale.agent.supervision.shim_process import Launch, TaskSpec
from tfscale.agent.supervision.shim_state import read_state
from tfscale.agent.supervision.supervisor import SupervisionError, Supervisor
from tfscale.core.records.task_status import Reason, TaskState, TaskStatus


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def launch(generation: int = 1, **environment: str) -> Launch:
    return Launch(generation, 1, {**os.environ, **environment}, Reason("test"))


class History(list[TaskStatus]):
    def __call__(self, status: TaskStatus) -> None:
        self.append(status)

    @property
    def states(self) -> list[TaskState]:
        return [status.state for status in self]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def shim_pid(spec: TaskSpec) -> int:
    state = read_state(spec.state)
    assert state is not None
    return state.shim_pid


async def test_a_task_runs_and_its_exit_code_and_output_are_kept(spec: TaskSpec) -> None:
    history = History()
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    supervisor = Supervisor(replace(spec, command=python(program)), history)
    await supervisor.start(launch())
    status = await supervisor.ended()
    assert status.exit is not None
    assert (status.state, status.exit.code, status.exit.signal, status.exit.requested) == (
        TaskState.EXITED,
        3,
        None,
        False,
    )
    assert history.states == [TaskState.STARTING, TaskState.RUNNING, TaskState.EXITED]
    start, *output, end = spec.log.read_text().splitlines()
    assert {"out", "err"} == set(output)
    time = r"--- tfscale: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ generation 1, attempt 1: "
    assert re.match(time + re.escape(sys.executable), start)
    assert re.fullmatch(f"{time}ended with exit code 3", end)


async def test_the_exit_of_a_task_that_failed_has_the_end_of_its_own_log(spec: TaskSpec) -> None:
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    spec.log.write_text("--- tfscale: generation 0, attempt 1: python old.py\nKeyError: of the start before\n")
    program = "print('MemoryError: 64 GiB'); print('\\n'.join('cleaning' for _ in range(30))); raise SystemExit(1)"
    supervisor = Supervisor(replace(spec, command=python(program)), History())
    await supervisor.start(launch())
    status = await supervisor.ended()
    assert status.exit is not None
    assert status.exit.log == ("MemoryError: 64 GiB", *("cleaning",) * 7)


async def test_stop_ends_the_task_with_sigterm_and_says_it_was_asked(spec: TaskSpec) -> None:
    history = History()
    supervisor = Supervisor(spec, history)
    await supervisor.start(launch())
    status = await supervisor.stop("because")
    assert status.exit is not None
    assert (status.exit.signal, status.exit.requested, status.reason) == (signal.SIGTERM, True, "because")
    assert history.states[-2:] == [TaskState.STOPPING, TaskState.EXITED]


async def test_a_task_that_ignores_sigterm_is_killed_after_the_grace_period(spec: TaskSpec) -> None:
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    supervisor = Supervisor(replace(spec, command=python(program), grace=0.2), History())
    await supervisor.start(launch())
    await until(lambda: "deaf\n" in spec.log.read_text())
    status = await supervisor.stop("because")
    assert status.exit is not None
    assert status.exit.signal == signal.SIGKILL


async def test_a_stopped_task_can_be_ended(spec: TaskSpec) -> None:
    supervisor = Supervisor(spec, History())
    status = await supervisor.start(launch())
    assert status.pid is not None
    os.kill(status.pid, signal.SIGSTOP)
    status = await supervisor.stop("because")
    assert status.exit is not None
    assert status.exit.signal == signal.SIGTERM


async def test_stop_during_the_start_waits_for_the_shim_to_be_ready(spec: TaskSpec) -> None:
    supervisor = Supervisor(spec, History())
    starting = asyncio.create_task(supervisor.start(launch()))
    while not supervisor.alive:  # noqa: ASYNC110
        await asyncio.sleep(0)
    status = await supervisor.stop("at once")
    await starting
    assert (status.state, status.exit and status.exit.requested) == (TaskState.EXITED, True)


async def test_processes_that_the_task_leaves_are_killed_in_whatever_group(spec: TaskSpec, tmp_path: Path) -> None:
    program = f"sleep 61 & set -m; sleep 62 & echo $! > {tmp_path}/child; exit 0"
    supervisor = Supervisor(replace(spec, command=("bash", "-c", program)), History())
    await supervisor.start(launch())
    await supervisor.ended()
    assert gone(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize(("handler", "code"), [("sys.exit(3)", 3), ("None", None)])
async def test_a_main_process_in_another_group_is_asked_to_end_and_killed(
    spec: TaskSpec, handler: str, code: int | None
) -> None:
    program = (
        "import os, signal, subprocess, sys, time\n"
        "os.setpgid(0, subprocess.Popen(['sleep', '61'], process_group=0).pid)\n"
        f"signal.signal(signal.SIGTERM, lambda *_: {handler})\n"
        "print('up', flush=True); time.sleep(60); time.sleep(60)"
    )
    supervisor = Supervisor(replace(spec, command=(sys.executable, "-c", program), grace=0.5), History())
    await supervisor.start(launch())
    while not spec.log.exists() or "\nup\n" not in spec.log.read_text():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    async with asyncio.timeout(60):
        status = await supervisor.stop("asked")
    assert status.state is TaskState.EXITED and status.exit is not None and status.exit.code == code
    assert status.exit.signal == (None if code else signal.SIGKILL)


async def test_a_second_task_at_one_address_of_a_host_is_refused(spec: TaskSpec, tmp_path: Path) -> None:
    """A renamed cluster file leads there, or another `--state-dir`, after the first agent was killed."""
    spec = replace(spec, address="192.0.2.1:2222")
    first = Supervisor(spec, History())
    other = Supervisor(replace(spec, state=tmp_path / "other.json", lock=tmp_path / "other"), History())
    await first.start(launch())
    with pytest.raises(SupervisionError, match=f"192.0.2.1:2222 runs on this host .*: kill {shim_pid(spec)}$"):
        await other.start(launch())
    await first.stop("asked")
    assert (await other.start(launch())).state is TaskState.RUNNING
    await other.stop("asked")


async def test_a_task_whose_hosts_name_is_longer_than_a_sockets_may_be_starts(spec: TaskSpec) -> None:
    supervisor = Supervisor(replace(spec, address=f"{'worker.' * 30}example:2222"), History())
    assert (await supervisor.start(launch())).state is TaskState.RUNNING
    await supervisor.stop("asked")


async def test_a_process_that_has_left_the_session_is_not_followed(spec: TaskSpec, tmp_path: Path) -> None:
    program = f"setsid sleep 61 & echo $! > {tmp_path}/child; sleep 0.3"
    supervisor = Supervisor(replace(spec, command=("sh", "-c", program)), History())
    await supervisor.start(launch())
    await supervisor.ended()
    child = int((tmp_path / "child").read_text())
    assert not gone(child)
    os.kill(child, signal.SIGKILL)


async def test_a_command_that_does_not_exist_is_exit_127(spec: TaskSpec) -> None:
    supervisor = Supervisor(replace(spec, command=("no-such-program",)), History())
    status = await supervisor.start(launch())
    assert status.exit is not None
    assert (status.state, status.exit.code) == (TaskState.EXITED, 127)
    assert "no-such-program" in status.reason


async def leave_behind(spec: TaskSpec) -> int:
    """Start the task under an agent in a process of its own, kill that, and return the task's pid."""
    agent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AGENT, str(spec.state.parent), stdout=asyncio.subprocess.PIPE
    )
    assert agent.stdout is not None
    pid = int(await agent.stdout.readline())
    agent.kill()
    await agent.wait()
    return pid


AGENT = """
import asyncio, os, pathlib, sys
from tfscale.agent.supervision.shim_process import Launch, TaskSpec
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.core.records.task_status import Reason
folder = pathlib.Path(sys.argv[1])
command = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
spec = TaskSpec(command, None, folder / "state.json", folder / "lock", folder / "task.log", 2.0, 1 << 20, 2)
async def main():
    status = await Supervisor(spec, lambda _: None).start(Launch(7, 1, dict(os.environ), Reason("test", "worker:1")))
    print(status.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.usefixtures("source_roots")
async def test_a_shim_outlives_its_agent_and_is_adopted(spec: TaskSpec) -> None:
    pid = await leave_behind(spec)
    supervisor = Supervisor(spec, History())
    await supervisor.adopt(7, 1)
    adopted = await supervisor.started()
    assert (adopted.state, adopted.pid, adopted.generation) == (TaskState.RUNNING, pid, 7)
    assert adopted.restarted_for == "worker:1"
    status = await supervisor.stop("because")
    assert status.restarted_for == "worker:1"
    assert status.exit is not None
    assert (status.exit.signal, status.exit.requested) == (signal.SIGTERM, True)


SLOW_DISK = """
import sys, time
sys.path.insert(0, {root!r})
from tfscale.agent.supervision import shim, state_file
write = state_file.StateFile.write
def write_late(file, text, *, is_last):
    time.sleep(0.5 * (b"task_pid" in text))
    write(file, text, is_last=is_last)
state_file.StateFile.write = write_late
shim.main()
"""
"""A shim whose disk takes half a second for each state from that of the started task on."""


@pytest.fixture
async def early(spec: TaskSpec, monkeypatch: pytest.MonkeyPatch) -> tuple[TaskStatus, Supervisor]:
    """Return a task that runs, and a supervisor that adopted it before its state on disk said so."""
    monkeypatch.setattr("tfscale.agent.supervision.shim_process._PROGRAM", SLOW_DISK)
    started = await Supervisor(spec, History()).start(launch())
    next_one = Supervisor(spec, History())
    assert (await next_one.adopt(1, 1)).state is TaskState.STARTING
    return started, next_one


async def test_an_adopted_start_becomes_the_task_once_the_disk_tells_it(early: tuple[TaskStatus, Supervisor]) -> None:
    """After a hand-over at once after the start, the next agent showed no task, and did not end in 20 s."""
    started, supervisor = early
    async with asyncio.timeout(60):
        adopted = await supervisor.started()
        assert (adopted.state, adopted.pid) == (TaskState.RUNNING, started.pid)
        await supervisor.stop("because")


async def test_an_adopted_start_is_stopped_once_it_is_over(early: tuple[TaskStatus, Supervisor]) -> None:
    _, supervisor = early
    async with asyncio.timeout(60):
        status = await supervisor.stop("at once")
    assert (status.exit and status.exit.signal, status.reason) == (signal.SIGTERM, "at once")


async def test_a_shim_that_ends_while_its_state_is_awaited_is_nothing_to_adopt(spec: TaskSpec) -> None:
    first = Supervisor(spec, History())
    await first.start(launch())
    shim = shim_pid(spec)
    await until(lambda: '"task_pid"' in spec.state.read_text())  # it writes no state after that
    spec.state.unlink()
    adopting = asyncio.create_task(Supervisor(spec, History()).adopt(1, 1))
    await asyncio.sleep(0.1)
    os.kill(shim, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert (await adopting).state is TaskState.PENDING
    assert (await first.ended()).state is TaskState.LOST


@pytest.mark.usefixtures("source_roots")
async def test_what_a_dead_shim_left_is_killed_by_the_next_agent(spec: TaskSpec) -> None:
    pid = await leave_behind(spec)
    os.kill(shim_pid(spec), signal.SIGKILL)
    await until(lambda: gone(shim_pid(spec)))
    supervisor = Supervisor(spec, History())
    await supervisor.adopt(7, 1)
    # The kernel may still be about to end the shim's threads, which hold its lock.
    assert (await supervisor.ended()).state is TaskState.LOST
    assert gone(pid)


async def test_an_end_that_nobody_saw_is_reported(spec: TaskSpec) -> None:
    spec = replace(spec, command=python("import sys; sys.exit(5)"))
    first = Supervisor(spec, History())
    await first.start(launch())
    await first.ended()
    status = await Supervisor(spec, History()).adopt(1, 1)
    assert (status.state, status.exit and status.exit.code) == (TaskState.EXITED, 5)


async def test_another_attempts_end_is_nothing_to_adopt(spec: TaskSpec) -> None:
    first = Supervisor(replace(spec, command=python("pass")), History())
    await first.start(launch())
    await first.ended()
    assert (await Supervisor(spec, History()).adopt(2, 1)).state is TaskState.PENDING


async def test_without_its_shim_the_task_is_lost_and_killed(spec: TaskSpec) -> None:
    supervisor = Supervisor(spec, History())
    started = await supervisor.start(launch())
    os.kill(shim_pid(spec), signal.SIGKILL)
    status = await supervisor.ended()
    assert started.pid is not None
    assert (status.state, status.exit) == (TaskState.LOST, None)
    assert gone(started.pid)


async def test_a_shim_that_cannot_begin_says_why_in_the_agents_log(
    spec: TaskSpec, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor(spec, History())
    await supervisor.start(launch())
    await supervisor.stop("because")
    broken = "raise ImportError('no module named selectors')"
    monkeypatch.setattr("tfscale.agent.supervision.shim_process._PROGRAM", broken)
    status = await supervisor.start(launch(2))
    assert (status.state, status.generation) == (TaskState.LOST, 2)
    assert "its shim died at its start: ImportError: no module named selectors" in caplog.messages[-1]


async def test_a_process_with_a_reused_pid_is_left_alone(spec: TaskSpec) -> None:
    first = Supervisor(spec, History())
    await first.start(launch())
    await first.stop("because")
    bystander = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    state = read_state(spec.state)
    assert state is not None
    earlier = replace(state, shim_pid=bystander.pid, task_pid=bystander.pid, ended=None)
    spec.state.write_text(json.dumps(asdict(earlier)))
    status = await Supervisor(spec, History()).adopt(1, 1)
    assert status.state is TaskState.LOST
    assert bystander.returncode is None
    bystander.kill()
    await bystander.wait()


async def test_a_lock_that_somebody_else_holds_is_one_clear_error(spec: TaskSpec) -> None:
    first = Supervisor(spec, History())
    await first.start(launch())
    with pytest.raises(SupervisionError, match="holds"):
        await Supervisor(spec, History()).start(launch())
    await first.stop("because")


async def test_a_stopped_shim_is_told_and_continued_for_a_stop(
    spec: TaskSpec, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor(spec, History())
    await supervisor.start(launch())
    os.kill(shim_pid(spec), signal.SIGSTOP)
    await until(lambda: psutil.Process(shim_pid(spec)).status() == psutil.STATUS_STOPPED)
    supervisor.look()
    assert f"continue it with kill -CONT {shim_pid(spec)}" in caplog.messages[-1]
    assert supervisor.troubles == (caplog.messages[-1],)
    async with asyncio.timeout(60):
        status = await supervisor.stop("because")
    assert status.exit is not None and status.exit.signal == signal.SIGTERM
    assert supervisor.troubles == ()


async def test_a_shim_that_does_not_end_its_task_is_killed_and_so_is_the_task(
    spec: TaskSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfscale.agent.supervision.supervisor._SHIM_PATIENCE", 0.5)
    supervisor = Supervisor(replace(spec, grace=0.5), History())
    started = await supervisor.start(launch())
    stopping = asyncio.create_task(supervisor.stop("because"))
    await asyncio.sleep(0)
    os.kill(shim_pid(spec), signal.SIGSTOP)  # after the agent has looked
    if not stopping.done():
        status = await stopping
    assert started.pid is not None and gone(started.pid)
    assert status.state in (TaskState.LOST, TaskState.EXITED)


async def test_an_end_that_nobody_asked_for_quotes_no_reason_of_the_start(spec: TaskSpec) -> None:
    supervisor = Supervisor(replace(spec, command=python("raise SystemExit(1)")), History())
    await supervisor.start(launch())
    assert (await supervisor.ended()).reason == ""


async def test_an_end_that_another_program_asked_for_is_told_so(spec: TaskSpec) -> None:
    supervisor = Supervisor(spec, History())
    await supervisor.start(launch())
    os.kill(shim_pid(spec), signal.SIGTERM)
    status = await supervisor.ended()
    assert status.exit is not None and status.exit.requested
    assert status.reason == "SIGTERM was sent to its shim"
