"""The log of a real agent process, in both formats and at several levels."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from loopback import free_addresses
from running_agents import W0, agents_process, runs
from tfscale.agent.own_log import OwnLog
from tfscale.agent.settings import AgentSettings
from tfscale.core.cluster.cluster_spec import ClusterSpec

pytestmark = pytest.mark.usefixtures("source_roots")
LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (DEBUG|INFO|WARNING|ERROR) (\S+) (.+)")


def log_of(folder: Path, program: str, *flags: str, **variables: str) -> list[str]:
    """Return the lines on the stderr of an agent that ends with its task."""
    addresses = free_addresses(2)
    cluster = folder / "digits.toml"
    cluster.write_text(f'[cluster]\nworker = ["{next(addresses)}"]\n[agents]\n"worker:0" = "{next(addresses)}"\n')
    command = [sys.executable, "-m", "tfscale.agent.cli", "--cluster", str(cluster), "--role=worker", "--index=0"]
    command += ["--state-dir", str(folder), "--exit-with-task", *flags, "--", sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | variables)
    return ended.stderr.splitlines()


def test_each_step_of_a_task_is_a_line_of_text(tmp_path: Path) -> None:
    found = [LINE.fullmatch(line) for line in log_of(tmp_path, "raise SystemExit(3)")]
    assert all(found)
    lines = [(match[2], match[3], match[4]) for match in found if match]
    assert {task for _, task, _ in lines} == {"worker:0"}
    said = [f"{level} {text}" for level, _, text in lines]
    started = r"INFO started \S+ -c 'raise SystemExit\(3\)' as process \d+ \(generation 1, attempt 1\)"
    (start,) = [row for row, line in enumerate(said) if re.fullmatch(started, line)]
    (end,) = [row for row, line in enumerate(said) if re.fullmatch(r"ERROR process \d+ .* exited 3", line)]
    assert "INFO start to generation 1: running worker:0" in said
    assert not any(": done " in line for line in said)
    assert start < end < said.index("INFO ended")


def test_json_is_one_object_a_line(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in log_of(tmp_path, "pass", "--log-format", "json")]
    assert {tuple(line) for line in lines} == {("time", "level", "task", "logger", "message")}
    assert {line["task"] for line in lines} == {"worker:0"}
    assert any(line["message"].startswith("started ") and line["level"] == "INFO" for line in lines)


@pytest.mark.parametrize(
    ("level", "levels"),
    [("debug", {"DEBUG", "INFO", "ERROR"}), ("info", {"INFO", "ERROR"}), ("error", {"ERROR"})],
)
def test_the_level_is_a_flag_or_a_variable(tmp_path: Path, level: str, levels: set[str]) -> None:
    lines = log_of(tmp_path, "raise SystemExit(1)", TFSCALE_LOG_LEVEL=level)
    assert {line.split()[1] for line in lines} == levels


def test_an_unknown_level_is_one_clear_line(tmp_path: Path) -> None:
    (line,) = log_of(tmp_path, "pass", TFSCALE_LOG_LEVEL="loud")
    assert line == "tfscale-agent: TFSCALE_LOG_LEVEL: 'loud' is none of debug, info, warning, error"


async def test_an_agent_whose_stderr_nobody_reads_begins_its_task_and_ends(
    make_cluster: Callable[[int], ClusterSpec], make_settings: Callable[..., AgentSettings]
) -> None:
    settings = make_settings(make_cluster(1), W0)
    read, write = os.pipe()
    padding = os.write(write, b"." * fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096))
    with agents_process([settings], stderr=write) as process:
        os.close(write)
        await runs(settings)
        assert len(os.read(read, padding)) == padding
        process.terminate()
        assert process.wait(60) == 0
        with os.fdopen(read) as pipe:
            lines = pipe.read().splitlines()
    assert all(map(LINE.fullmatch, lines))
    assert " started " in "".join(lines) and lines[-1].endswith(" ended")


def test_lines_for_which_there_is_no_room_are_counted() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as pipe, os.fdopen(write, "w") as stream:
        log = OwnLog(stream)
        for _ in range(12):
            log.say("." * (1 << 20))
        assert len(pipe.read(7 << 20)) == 7 << 20
        log.say("later")
        log.close()
        stream.close()
        *_, lost, later = pipe.read().splitlines()
    assert (lost, later) == ("... 5 lines of the log were lost, because nobody read stderr", "later")
