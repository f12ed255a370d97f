import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from tfscale.agent.supervision.memory_kills import KILLED, MemoryKills
from tfscale.agent.supervision.supervisor import Launch, Supervisor, TaskSpec
from tfscale.core.log_clues import find_clue

DIES = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")


def write(vmstat: Path, kills: int) -> None:
    vmstat.write_text(f"pgfault 12345\noom_kill {kills}\nnuma_hit 7\n")


async def log_of_a_death(spec: TaskSpec, kills: MemoryKills) -> tuple[str, ...]:
    supervisor = Supervisor(replace(spec, command=DIES), lambda _: None, kills)
    await supervisor.start(Launch(1, 1, dict(os.environ), "test"))
    status = await supervisor.ended()
    assert status.exit is not None and status.exit.signal == signal.SIGKILL
    return status.exit.log


async def test_a_death_in_a_second_in_which_the_kernel_killed_for_memory_is_explained(
    spec: TaskSpec, tmp_path: Path
) -> None:
    write(tmp_path / "vmstat", 2)
    kills = MemoryKills(tmp_path / "vmstat")
    kills.note()
    write(tmp_path / "vmstat", 3)
    log = await log_of_a_death(spec, kills)
    clue = find_clue(log)
    assert clue is not None and (clue.kind, clue.line) == ("out_of_memory", KILLED)


async def test_a_death_long_after_a_kill_for_memory_is_not_explained_by_it(spec: TaskSpec, tmp_path: Path) -> None:
    write(tmp_path / "vmstat", 2)
    kills = MemoryKills(tmp_path / "vmstat")
    kills.note()
    write(tmp_path / "vmstat", 3)
    for _ in range(4):
        kills.note()
    assert KILLED not in await log_of_a_death(spec, kills)


def test_a_kernel_that_tells_no_count_explains_nothing(tmp_path: Path) -> None:
    kills = MemoryKills(tmp_path / "none")
    kills.note()
    assert not kills.are_recent()
