import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.agent.supervision import shim
from tfscale.agent.supervision.shim_state import ShimState, read_state
from tfscale.agent.supervision.supervisor import Launch, Supervisor, TaskSpec
from tfscale.core.records import TaskState


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


async def run_to_end(spec: TaskSpec) -> ShimState:
    supervisor = Supervisor(spec, lambda _: None)
    await supervisor.start(Launch(1, 1, dict(os.environ), "test"))
    async with asyncio.timeout(20):
        await supervisor.ended()
    state = read_state(spec.state)
    assert state is not None
    return state


def test_a_log_is_rotated_at_line_ends_and_keeps_as_many_as_told(tmp_path: Path) -> None:
    log = shim.OutputLog(str(tmp_path / "log"), 100, 2)
    for number in range(40):
        log.write(f"line number {number}\n".encode())
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["log", "log.1", "log.2"]
    text = "".join((tmp_path / name).read_text() for name in ("log.2", "log.1", "log"))
    assert text.endswith("line number 39\n")
    assert all(line.startswith("line number ") for line in text.splitlines())
    assert log.lost == 0


def test_a_log_that_keeps_nothing_begins_anew(tmp_path: Path) -> None:
    log = shim.OutputLog(str(tmp_path / "log"), 50, 0)
    for number in range(10):
        log.write(f"line number {number}\n".encode())
    assert [path.name for path in tmp_path.iterdir() if path.name != "log"] == []


def test_a_line_of_its_own_is_apart_from_output_without_a_newline(tmp_path: Path) -> None:
    for _ in range(2):
        log = shim.OutputLog(str(tmp_path / "log"), 1 << 20, 1)
        log.line("started")
        log.write(b"loss: 0.5")
    log.line("ended")
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["started", "0.5", "started", "0.5", "ended"]


def test_a_full_disk_is_counted_and_marked_when_there_is_room_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    log = shim.OutputLog(str(path), 1 << 20, 1)
    log.write(b"lost\n" * 10)
    assert log.lost == 50
    path.unlink()
    log = _reopened(log, path)
    log.write(b"kept\n")
    assert path.read_text().splitlines() == ["", "--- tfscale: 50 bytes of output could not be written", "kept"]


def _reopened(log: shim.OutputLog, path: Path) -> shim.OutputLog:
    """Return the same log on a disk that has room again, as after a person has freed some."""
    assert log._fd is not None
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), log._fd)
    return log


@pytest.mark.parametrize(
    ("program", "content", "code", "words"),
    [
        ("no-such-program", None, 127, "'no-such-program': No such file or directory: give its path, or write its"),
        ("./plain", "print(1)", 126, "'./plain': Permission denied: make it executable with chmod +x, or write its"),
        ("./text", "echo 1", 126, "'./text': Exec format error: begin it with a line such as #!/bin/sh, or write its"),
        ("./lost", "#!/no/such\n", 127, "'./lost': No such file or directory: the interpreter in its first line is not"),
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


async def test_a_full_disk_does_not_stop_the_task(spec: TaskSpec) -> None:
    spec.log.symlink_to("/dev/full")
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
    await supervisor.start(Launch(1, 1, {**os.environ, "COLOUR": "green"}, "test"))
    assert (await supervisor.ended()).state is TaskState.EXITED
    assert f"{tmp_path} green True" in spec.log.read_text()


async def test_a_missing_folder_is_named(spec: TaskSpec) -> None:
    state = await run_to_end(replace(spec, directory="/no/such/folder"))
    assert state.code == 127
    assert "/no/such/folder" in state.message


def test_the_shim_needs_the_standard_library_alone() -> None:
    source = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='shim'); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", source, shim.__file__], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - set(sys.stdlib_module_names) <= {"__main__", "__mp_main__"}
