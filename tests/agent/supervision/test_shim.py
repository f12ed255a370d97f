import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.agent.supervision import shim
from tfscale.agent.supervision.shim_process import _ROOT, Launch, TaskSpec
from tfscale.agent.supervision.shim_state import ShimState, read_state
from tfscale.agent.supervision.supervisor import Supervisor
from tfscale.core.records.task_status import Reason, TaskState


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


async def run_to_end(spec: TaskSpec) -> ShimState:
    supervisor = Supervisor(spec, lambda _: None)
    await supervisor.start(Launch(1, 1, dict(os.environ), Reason("test")))
    async with asyncio.timeout(60):
        await supervisor.ended()
    state = read_state(spec.state)
    assert state is not None
    return state


@pytest.mark.parametrize(
    ("program", "content", "code", "words"),
    [
        ("no-such-program", None, 127, "'no-such-program': No such file or directory: give its path, or write its"),
        ("./plain", "print(1)", 126, "'./plain': Permission denied: make it executable with chmod +x, or write its"),
        ("./text", "echo 1", 126, "'./text': Exec format error: begin it with a line such as #!/bin/sh, or write its"),
        (
            "./lost",
            "#!/no/such\n",
            127,
            "'./lost': No such file or directory: the interpreter in its first line is not",
        ),
        ("./", None, 126, "'./' is a folder"),
    ],
)
async def test_a_program_that_cannot_be_started_is_named_with_what_helps(
    program: str, content: str | None, code: int, words: str, spec: TaskSpec, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / program).write_text(content)
        (tmp_path / program).chmod(0o600 if program == "./plain" else 0o700)
    state = await run_to_end(replace(spec, command=(program,), directory=str(tmp_path)))
    assert state.code == code and state.message.startswith(f"cannot be started: {words}")
    assert f"Z cannot be started: {words}" in spec.log.read_text()


async def test_a_folder_that_is_not_there_is_told_from_a_program(spec: TaskSpec, tmp_path: Path) -> None:
    state = await run_to_end(replace(spec, directory=str(tmp_path / "gone")))
    assert state.message.endswith("gone': No such file or directory: give another [program] directory")


async def test_an_argument_need_not_be_utf_8(spec: TaskSpec) -> None:
    show = "import os, sys; os.write(1, os.fsencode(sys.argv[1]))"
    state = await run_to_end(replace(spec, command=(*python(show), os.fsdecode(b"caf\xe9"))))
    assert state.code == 0 and b"caf\xe9" in spec.log.read_bytes()


async def test_a_log_that_cannot_be_opened_does_not_stop_the_task(spec: TaskSpec) -> None:
    spec.log.mkdir()
    state = await run_to_end(replace(spec, command=python("print('y' * 5000000)")))
    assert state.code == 0
    assert state.lost_output > 5_000_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


async def test_the_exit_is_kept_on_a_disk_that_has_no_room_left(spec: TaskSpec, small_disk: Path) -> None:
    small = replace(spec, state=small_disk / "state.json", lock=small_disk / "lock", log=small_disk / "log")
    state = await run_to_end(replace(small, command=python("import sys; print('y' * 3000000); sys.exit(4)")))
    assert state.code == 4
    assert state.lost_output > 1_000_000


async def test_much_output_arrives_whole_and_in_order(spec: TaskSpec) -> None:
    program = "for i in range(200000): print(i)"
    await run_to_end(replace(spec, command=python(program), log_size=1 << 30))
    lines = [line for line in spec.log.read_text().splitlines() if not line.startswith("---")]
    assert lines == [str(number) for number in range(200000)]


async def test_the_task_gets_its_folder_and_environment(spec: TaskSpec, tmp_path: Path) -> None:
    program = "import os; print(os.getcwd(), os.environ['COLOUR'], os.getpgrp() == os.getpid())"
    supervisor = Supervisor(replace(spec, command=python(program), directory=str(tmp_path)), lambda _: None)
    await supervisor.start(Launch(1, 1, {**os.environ, "COLOUR": "green"}, Reason("test")))
    assert (await supervisor.ended()).state is TaskState.EXITED
    assert f"{tmp_path} green True" in spec.log.read_text()


async def test_a_missing_folder_is_named(spec: TaskSpec) -> None:
    state = await run_to_end(replace(spec, directory="/no/such/folder"))
    assert state.code == 127
    assert "/no/such/folder" in state.message


async def test_a_disk_that_hangs_stalls_no_task_and_its_loss_is_told_at_once(
    spec: TaskSpec, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(spec.log)  # opening it waits for a reader, as a disk that hangs does
    program = "import sys, time; print('y' * 30_000_000, flush=True); open('through', 'w').close(); time.sleep(60)"
    spec = replace(spec, directory=str(tmp_path))
    supervisor = Supervisor(replace(spec, command=python(program)), lambda _: None)
    await supervisor.start(Launch(1, 1, dict(os.environ), Reason("test")))
    async with asyncio.timeout(60):
        while not (tmp_path / "through").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert "bytes of its output could not be written to" in caplog.text
    assert "could not be written" in supervisor.troubles[0]
    async with asyncio.timeout(60):
        status = await supervisor.stop("because")
    assert status.exit is not None and status.exit.signal == signal.SIGTERM
    state = read_state(spec.state)
    assert state is not None and state.lost_output >= 30_000_000


async def test_output_that_waits_for_a_disk_is_written_when_it_answers(spec: TaskSpec) -> None:
    os.mkfifo(spec.log)
    spec = replace(spec, command=python("print('y' * 30_000_000)"), log_size=1 << 30)
    supervisor = Supervisor(spec, lambda _: None)
    await supervisor.start(Launch(1, 1, dict(os.environ), Reason("test")))
    await asyncio.sleep(3)
    text = await asyncio.to_thread(_read_all, spec.log)
    await supervisor.ended()
    state = read_state(spec.state)
    assert state is not None and 15_000_000 < state.lost_output < 30_000_000
    assert b"%d bytes of output could not be written" % state.lost_output in text and b"exit code 0" in text


def _read_all(fifo: Path) -> bytes:
    """Be the disk that answers again: take all that is written, up to the shim's last line or 20 s without a byte."""
    text = b""
    with fifo.open("r+b", buffering=0) as file:
        readable = select.poll()
        readable.register(file, select.POLLIN)
        while b": ended with " not in text[-100:] and readable.poll(20_000):
            text += file.read(1 << 16) or b""
    return text


async def test_a_command_may_be_longer_than_one_argument_may(spec: TaskSpec) -> None:
    words = ["x" * 100_000] * 5
    state = await run_to_end(replace(spec, command=(*python("import sys; print(len(sys.argv))"), *words)))
    assert state.code == 0 and spec.log.read_text().splitlines()[1] == "6"
    assert spec.state.stat().st_size < 8000


async def test_one_argument_that_the_kernel_does_not_take_is_one_line_with_what_helps(spec: TaskSpec) -> None:
    state = await run_to_end(replace(spec, command=(*python("pass"), "x" * (128 << 10))))
    assert state.code == 127 and "Argument list too long: no argument or variable may have 128 KiB" in state.message


def test_the_shim_needs_the_standard_library_alone() -> None:
    source = f"import sys; sys.path.insert(0, {_ROOT!r}); import {shim.__name__}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-IS", "-c", source], capture_output=True, text=True, check=True)
    others = {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name.rpartition(".")[0] for name in others - {"__main__"}} <= {
        "",
        "tfscale",
        "tfscale.agent",
        "tfscale.agent.process",
        "tfscale.agent.supervision",
    }
