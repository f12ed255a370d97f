"""`tfscale-console` as a script runs it, against fake agents over real gRPC, recordings and simulations."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import shlex
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fake_agent import RUNNING, STARTING, FakeCluster
from simulated_runs import record, simulated
from tfscale.console.engine.events import FrameArrived
from tfscale.console.recording.recording_reader import Recording, RecordingError
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.cluster.task import Task
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.version import version_line
from waiting import until

CONSOLE = [sys.executable, "-m", "tfscale.console.cli"]


async def run(*arguments: object, patience: float = 40, **variables: str) -> tuple[int | None, str, str]:
    """Run the console, and return its exit status, stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *CONSOLE,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"XDG_CONFIG_HOME": "/nonexistent"} | variables,
    )
    out, err = await asyncio.wait_for(process.communicate(), patience)
    return process.returncode, out.decode(), err.decode()


def frames_in(recording: Path) -> int:
    """Return the number of frames, which all have steps; 0 while it is no recording."""
    with suppress(RecordingError):
        return sum(isinstance(event, FrameArrived) for event in Recording(recording).events())
    return 0


def lines(text: str, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, text.splitlines()) if line["type"] == kind]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(3, interval=0.2) as fake:
        playing = asyncio.create_task(fake.play())
        yield fake
        playing.cancel()


@pytest.fixture
def cluster_file(cluster: FakeCluster, tmp_path: Path) -> Path:
    path = tmp_path / "fake.toml"
    path.write_text(cluster.cluster_file())
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    events = simulated(30, 3, "worker:1=1.8x@6s")
    return record(tmp_path_factory.mktemp("cli") / "a.tfrec", events, simulated_spec(3), every=50)


async def test_a_live_run_and_its_recording_tell_the_same(
    cluster: FakeCluster, cluster_file: Path, tmp_path: Path
) -> None:
    cluster.tasks[Task.parse("worker:1")].slow["compute"] = 0.06
    path = tmp_path / "a.tfrec"
    status, live, err = await run(
        "--cluster", cluster_file, "--headless", "--until", "straggler", "--seconds", 30, "--record", path
    )
    assert (status, err) == (0, "")
    status, replayed, err = await run("export", path)
    assert (status, err) == (0, "")
    assert live.splitlines()[1:] == replayed.splitlines()[1:]
    assert [line["subject"] for line in lines(replayed, "diagnosis")][:1] == ["worker:1"]


async def test_any_one_agent_names_the_others(cluster: FakeCluster) -> None:
    address = cluster.spec.agents[Task.parse("worker:2")]
    status, out, err = await run("--agent", address, "--once")
    assert (status, err) == (0, "")
    (snapshot,) = lines(out, "snapshot")
    assert [task["task"] for task in snapshot["tasks"]] == ["worker:0", "worker:1", "worker:2"]
    assert {task["link"]["state"] for task in snapshot["tasks"]} == {"up"}


async def test_an_agent_that_is_not_there_is_one_line() -> None:
    begin = time.monotonic()
    status, out, err = await run("--agent", "127.0.0.1:1", "--once", "--wait", 3)
    assert (status, out) == (1, "") and time.monotonic() - begin > 3
    assert err.startswith("tfscale-console: --agent 127.0.0.1:1: connection refused") and err.count("\n") == 1


async def test_once_tells_by_its_exit_status(cluster: FakeCluster, cluster_file: Path, tmp_path: Path) -> None:
    status, out, _ = await run("--cluster", cluster_file, "--once")
    assert status == 0 and lines(out, "snapshot")[0]["healthy"]
    cluster.kill(Task.parse("worker:1"))
    cluster.tick()
    status, _, _ = await run("--cluster", cluster_file, "--once", "--out", tmp_path / "once.json")
    assert status == 3
    assert json.loads((tmp_path / "once.json").read_text())["tasks"][1]["status"]["exit"]["signal"] == 9
    for agent in cluster.agents.values():
        await agent.stop()
    status, out, err = await run("--cluster", cluster_file, "--once")
    assert status == 1 and "nothing collected" in err
    assert not lines(out, "snapshot")[0]["healthy"]


def test_the_docs_have_each_exit_status_of_the_console() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/use-in-scripts.md").read_text()
    # SHARED is a measurement's: no console makes one.
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == [str(s.value) for s in ExitStatus if s is not s.SHARED]


async def test_once_says_that_it_knows_nothing_yet_or_waits(cluster: FakeCluster, cluster_file: Path) -> None:
    for task in cluster.tasks.values():
        task.state = STARTING
    cluster.tick()
    status, out, _ = await run("--cluster", cluster_file, "--once")
    assert (status, lines(out, "snapshot")[0]["healthy"]) == (5, None)
    waiting = asyncio.create_task(run("--cluster", cluster_file, "--once", "--wait", 30))
    await until(lambda: all(agent.is_watched for agent in cluster.agents.values()))
    await asyncio.sleep(2)
    for task in cluster.tasks.values():
        task.state = RUNNING
    status, out, _ = await waiting
    assert (status, lines(out, "snapshot")[0]["healthy"]) == (0, True)


async def test_the_end_of_a_log_is_printed(cluster_file: Path) -> None:
    status, out, err = await run("log", "worker:1", "--tail", 2, "--cluster", cluster_file)
    assert (status, err) == (0, "") and [line.split()[3] for line in out.splitlines()] == ["198", "199"]
    status, out, err = await run("log", "worker:9", "--cluster", cluster_file)
    assert (status, out) == (2, "") and "there is no worker:9 in the cluster: it has worker:0, 1 and 2" in err


async def test_what_agents_remember_is_printed_as_events(cluster: FakeCluster, cluster_file: Path) -> None:
    cluster.kill(Task.parse("worker:1"))
    cluster.tick()
    status, out, _ = await run("events", "--cluster", cluster_file)
    (told,) = [line for line in out.splitlines() if "exited 1" in line]
    assert status == 0 and "critical worker:1 was killed by SIGKILL" in told
    status, out, _ = await run("events", "--json", "--cluster", cluster_file)
    (crash,) = [line for line in lines(out, "event") if line["kind"] == "crash"]
    assert (crash["subject"], crash["severity"]) == ("worker:1", "critical") and "dmesg" in crash["advice"]


async def test_orders_are_printed_with_who_gave_them_and_who_does_not_answer(
    cluster: FakeCluster, cluster_file: Path
) -> None:
    first, second, third = (cluster.agents[Task.parse(f"worker:{index}")] for index in range(3))
    asked = {"at": 9.0, "order": 1, "who": "ann (operator)", "from": "ipv4:10.0.0.9:1", "what": "Restart"}
    asked |= {"tasks": ["worker:0"], "reason": "too slow", "result": "asked"}
    step = {"at": 9.5, "order": 1, "who": "vm (agent)", "what": "Apply RUNNING 2", "tasks": ["worker:1"]}
    first.orders = [asked, asked | {"at": 12.0, "result": "done"}, asked | {"at": 13.0}]
    second.orders = [step | {"result": "done"}]
    await third.stop()
    status, out, err = await run("audit", "--cluster", cluster_file, TZ="UTC")
    assert status == 0 and "worker:2" in err and err.count("\n") == 1
    assert out.splitlines() == [
        "1970-01-01 00:00:09 worker:0: ann (operator): Restart worker:0 (too slow): done",
        "1970-01-01 00:00:13 worker:0: ann (operator): Restart worker:0 (too slow): under way, or its agent ended",
    ]
    _, out, _ = await run("audit", "--json", "--cluster", cluster_file)
    assert [(line["time"], line["task"]) for line in lines(out, "order")][1] == (9.5, "worker:1")
    second.orders = [{"no": "time"}]
    await first.stop()
    status, out, err = await run("audit", "--cluster", cluster_file)
    assert (status, out) == (1, "") and "tfscale-console: no orders" in err


async def test_until_it_has_failed(cluster: FakeCluster, cluster_file: Path) -> None:
    waiting = asyncio.create_task(run("--cluster", cluster_file, "--headless", "--only", "events", "--until", "failed"))
    await until(lambda: all(agent.is_watched for agent in cluster.agents.values()))
    cluster.kill(Task.parse("worker:1"))
    status, out, _ = await waiting
    assert status == 0 and not lines(out, "frame")


async def test_what_can_no_longer_come_is_not_waited_for(cluster: FakeCluster, cluster_file: Path) -> None:
    cluster.kill(Task.parse("worker:1"))
    status, _, _ = await run("--cluster", cluster_file, "--headless", "--until", "finished")
    assert status == 1


async def test_an_export_can_be_any_part_in_any_format(recording: Path, tmp_path: Path) -> None:
    status, out, err = await run("export", recording, "--only", "steps", "--format", "csv")
    assert (status, err) == (0, "") and out.startswith("generation,attempt,part,reporter,subject,sequence,")
    steps = out.count("\n") - 1
    path = tmp_path / "steps.parquet"
    status, out, err = await run("export", recording, "--only", "steps", "--format", "parquet", "--out", path)
    assert (status, out, err) == (0, "", "")
    read = pytest.importorskip("pyarrow.parquet").read_table(path)
    assert read.num_rows == steps > 500
    _, out, _ = await run("export", recording, "--only", "frames")
    assert lines(out, "frame") and "steps" not in lines(out, "frame")[0]
    _, out, _ = await run("export", recording, "--only", "steps")
    assert len(lines(out, "step")) == steps


async def test_an_error_about_a_file_of_a_strange_name_is_one_line_without_colour(tmp_path: Path) -> None:
    status, _, err = await run("--once", "--cluster", tmp_path / "a\x1b[31m\nb.toml")
    assert (status, err) == (2, f"tfscale-console: {tmp_path}/a b.toml: no such cluster file\n")


async def test_the_version_needs_no_imports_of_a_command() -> None:
    code = (
        "import sys; from tfscale.console.cli import main; sys.argv[1:] = ['--version']; main();"
        "sys.exit(len({'numpy', 'grpc', 'argparse'} & set(sys.modules)))"
    )
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=pipe)
    out, _ = await process.communicate()
    assert (process.returncode, out.decode()) == (0, f"{version_line()}\n")


async def test_a_terminal_without_a_screen_is_told_what_draws_none() -> None:
    terminal, program_end = pty.openpty()
    variables = os.environ | {"XDG_CONFIG_HOME": "/nonexistent", "TERM": "dumb"}
    process = await asyncio.create_subprocess_exec(
        *CONSOLE, "--simulate", "2", stdin=program_end, stdout=program_end, stderr=program_end, env=variables
    )
    os.close(program_end)
    said = await asyncio.to_thread(read_all, terminal)
    assert (await process.wait(), said.count(b"\n")) == (2, 1) and b"(TERM=dumb)" in said and b"--headless" in said


async def test_too_few_open_files_are_one_line(cluster_file: Path) -> None:
    command = f"ulimit -n 24; exec {shlex.join(CONSOLE)} --once --cluster {cluster_file}"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_shell(command, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), 40)
    line = b"tfscale-console: the limit of open files is 24 (ulimit -Hn), and 35 are needed: raise that limit\n"
    assert (process.returncode, out, err) == (2, b"", line)


def cut_in_half(path: Path, to: Path) -> None:
    data = path.read_bytes()
    to.write_bytes(data[: len(data) // 2])


async def test_a_damaged_recording_is_exported_as_far_as_it_is_whole(recording: Path, tmp_path: Path) -> None:
    cut_in_half(recording, tmp_path / "cut")
    status, out, err = await run("export", tmp_path / "cut")
    assert status == 0 and len(lines(out, "frame")) > 10
    assert "damaged at byte" in err and err.count("\n") == 1


async def test_a_console_that_is_refused_its_port_leaves_no_recording(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        page = f":{taken.getsockname()[1]}"
        status, _, said = await run("--simulate", 2, "--plain", "--record", tmp_path / "a.tfrec", "--metrics", page)
    assert status == ExitStatus.USAGE and "cannot listen there" in said and said.count("\n") == 1
    assert not await asyncio.to_thread((tmp_path / "a.tfrec").exists), "the next try with this name would be refused"


async def test_a_pipe_that_closes_ends_it_quietly(recording: Path) -> None:
    command = " ".join([*CONSOLE, "export", str(recording), "| head -n 1"])
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_shell(command, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert json.loads(out)["type"] == "header" and err == b""


async def test_ctrl_c_ends_an_export_of_a_live_run_with_what_it_has(tmp_path: Path) -> None:
    out, recorded = tmp_path / "steps.parquet", tmp_path / "a.tfrec"
    pytest.importorskip("pyarrow")
    command = [*CONSOLE, "--simulate", "2", "--headless", "--only", "steps", "--format", "parquet", "--out", str(out)]
    process = await asyncio.create_subprocess_exec(*command, "--record", str(recorded))
    await until(lambda: recorded.exists() and frames_in(recorded) > 4)
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 60) == 0
    assert pytest.importorskip("pyarrow.parquet").read_table(out).num_rows > 10


async def test_config_prints_what_holds_and_why(tmp_path: Path) -> None:
    (tmp_path / "tfscale").mkdir()
    (tmp_path / "tfscale/config.toml").write_text("[console]\nseconds = 7\n")
    status, out, err = await run("config", "--ascii", XDG_CONFIG_HOME=str(tmp_path), TFSCALE_KEEP="3")
    assert (status, err) == (0, "")
    said = {line.split()[0]: line for line in out.splitlines()}
    assert said["seconds"].split() == ["seconds", "=", "7.0", "#", f"{tmp_path}/tfscale/config.toml:", "seconds"]
    assert "TFSCALE_KEEP" in said["keep"] and "--ascii" in said["ascii"] and "built in" in said["format"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "missing.tfrec"], "missing.tfrec: cannot be read: No such file"),
        (["--simulate", "2"], "no terminal to draw on: use --headless"),
        (["--simulate", "2", "--out", "x"], "--out needs --headless, --once or export"),
        (["--cluster", "missing.toml", "stack", "worker:1"], "no such cluster file"),
    ],
)
async def test_a_mistake_is_one_line(arguments: list[str], said: str) -> None:
    status, out, err = await run(*arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


@pytest.mark.parametrize("name", ["BADNAME", "", "KILL"])
async def test_a_signal_that_is_none_is_refused_before_an_agent_is_asked(name: str) -> None:
    status, out, err = await run("signal", "worker:0", name, "--agent", "127.0.0.1:1", "--insecure")
    assert (status, out) == (2, "")
    assert ("KILL is not sent" if name == "KILL" else f"no signal {name!r}") in err and err.count("\n") == 1


async def test_a_simulations_tasks_cannot_be_asked() -> None:
    status, _, err = await run("stack", "worker:1", TFSCALE_SIMULATE="2")
    assert (status, err) == (1, "tfscale-console: no stack: this is a simulation: its tasks are not there\n")


async def test_a_profile_needs_a_yes_and_a_fresh_checkpoint(cluster: FakeCluster, cluster_file: Path) -> None:
    words = ("profile", "worker:1", "--cluster", cluster_file)
    status, out, err = await run(*words)
    assert (status, out, err.count("\n")) == (2, "", 1) and "--yes" in err
    status, out, err = await run(*words, "--yes")
    assert (status, out) == (1, "") and "no checkpoint is known" in err
    cluster.saved = time.time() - 3600
    status, out, err = await run(*words, "--yes")
    assert (status, out) == (1, "") and "the last checkpoint is 1 h" in err and "ask within 10 min" in err


async def test_a_profile_prints_its_file_and_says_how_far_it_is(cluster: FakeCluster, cluster_file: Path) -> None:
    cluster.saved = time.time() - 60
    status, out, err = await run("profile", "worker:1", "--seconds", 2, "--yes", "--cluster", cluster_file)
    assert (status, out) == (0, "/profiles/a.xplane.pb\n")
    assert [line.partition(" ")[2] for line in err.splitlines()] == [
        "INFO worker:1 capturing for 2 s",
        "INFO worker:1 writing",
        "INFO worker:1 written",
        "INFO worker:1 1.2 MB; on its host: tensorboard --logdir /profiles",
    ]


async def test_profiles_of_several_tasks_are_taken_at_once_and_fetched(
    cluster: FakeCluster, cluster_file: Path, tmp_path: Path
) -> None:
    cluster.saved = time.time() - 60
    words = (
        "profile",
        "worker:1",
        "worker:2",
        "--seconds",
        2,
        "--yes",
        "--cluster",
        cluster_file,
        "--out",
        tmp_path / "p",
    )
    status, out, err = await run(*words)
    files = sorted((tmp_path / "p").glob("plugins/profile/*/*"))
    assert status == 0 and [file.name for file in files] == ["worker-1.xplane.pb", "worker-2.xplane.pb"]
    assert sorted(out.splitlines()) == [str(file) for file in files]
    assert {file.stat().st_size for file in files} == {1_200_000}
    assert err.splitlines()[-1].endswith(f"tensorboard --logdir {tmp_path / 'p'}")


async def test_one_profile_that_fails_leaves_the_others(
    cluster: FakeCluster, cluster_file: Path, tmp_path: Path
) -> None:
    cluster.saved = time.time() - 60
    cluster.agents[Task.parse("worker:2")].sends_profiles = False  # as one of an older version
    words = ("profile", "worker:1", "worker:2", "--yes", "--cluster", cluster_file, "--out", tmp_path / "p")
    status, out, err = await run(*words)
    (file,) = (tmp_path / "p").glob("plugins/profile/*/*")
    assert status == 1 and out == f"{file}\n" and file.name == "worker-1.xplane.pb"
    assert "ERROR worker:2 0 of 1200000 bytes came" in err


async def test_a_profile_is_of_named_tasks(cluster_file: Path) -> None:
    status, out, err = await run("profile", "--yes", "--cluster", cluster_file)
    assert (status, out, err) == (
        2,
        "",
        "tfscale-console: profile which tasks? Name one or several, such as worker:0 worker:1\n",
    )


async def test_a_restart_needs_a_yes_and_tells_each_stage(cluster: FakeCluster, cluster_file: Path) -> None:
    status, out, err = await run("restart", "worker:1", "--cluster", cluster_file)
    assert (status, out, err.count("\n")) == (2, "", 1) and "--yes" in err
    assert cluster.generation == 1
    status, out, err = await run("restart", "worker:1", "--yes", "--cluster", cluster_file)
    assert (status, out, cluster.generation) == (0, "", 2)
    first, *_, last = [line.partition(" ")[2] for line in err.splitlines()]
    assert first == "INFO worker:1 worker:0, worker:1, worker:2: restart planned, generation 2"
    assert last == "INFO worker:1 worker:0, worker:1, worker:2: restart done, generation 2"


@pytest.mark.parametrize("command", ["stack", "profile", "restart", "stop", "start"])
async def test_read_only_refuses_what_reaches_into_a_task(cluster_file: Path, command: str) -> None:
    status, out, err = await run(command, "worker:1", "--cluster", cluster_file, TFSCALE_READ_ONLY="1")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"TFSCALE_READ_ONLY: {command} reaches into a task" in err


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_the_log_of_a_headless_console_tells_of_lost_agents(
    cluster: FakeCluster, cluster_file: Path, log_format: str
) -> None:
    flags = ["--headless", "--only", "events", "--log-format", log_format, "--until", "failed"]
    waiting = asyncio.create_task(run("--cluster", cluster_file, *flags))
    await until(lambda: all(agent.is_watched for agent in cluster.agents.values()))
    await cluster.agents[Task.parse("worker:2")].stop()
    await asyncio.sleep(1)
    cluster.kill(Task.parse("worker:1"))
    _, _, err = await waiting
    if log_format == "json":
        logged = [(line["level"], line["task"], line["message"]) for line in map(json.loads, err.splitlines())]
    else:
        logged = [(level, task, text) for _, level, task, text in (line.split(" ", 3) for line in err.splitlines())]
    lost = [text for level, task, text in logged if (level, task) == ("WARNING", "worker:2")]
    assert lost and lost[0].startswith("the link to its agent is down: ")


async def test_the_log_can_go_to_a_file_and_tell_more(cluster_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    status, _, err = await run("--cluster", cluster_file, "--once", "--log-file", log, "--log-level", "debug")
    assert (status, err) == (0, "")
    assert sum(" DEBUG worker:" in line and line.endswith(" is up") for line in log.read_text().splitlines()) == 3
    status, _, err = await run("--cluster", cluster_file, "--once", "--log-file", tmp_path)
    assert (status, err) == (2, f"tfscale-console: --log-file {tmp_path}: Is a directory\n")


@pytest.mark.parametrize("has_file", [True, False])
async def test_the_log_leaves_the_screen_alone(cluster_file: Path, tmp_path: Path, has_file: bool) -> None:
    log = tmp_path / "console.log"
    flags = ["--cluster", str(cluster_file), "--log-level", "debug"]
    flags += ["--log-file", str(log)] if has_file else []
    terminal, program_end = pty.openpty()
    variables = os.environ | {"XDG_CONFIG_HOME": "/nonexistent", "TERM": "xterm"}
    process = await asyncio.create_subprocess_exec(
        *CONSOLE, *flags, stdin=program_end, stdout=program_end, stderr=program_end, env=variables
    )
    os.close(program_end)
    drawn = await asyncio.wait_for(asyncio.to_thread(read_all, terminal, b"worker:1", b"q"), 60)
    assert await process.wait() == 0
    assert b"worker:1" in drawn and b"the link to its agent" not in drawn
    assert log.exists() is has_file
    if has_file:
        assert log.read_text().count("the link to its agent is up") == 3


def read_all(terminal: int, awaited: bytes | None = None, key: bytes = b"") -> bytes:
    """Return all that a program draws on a terminal until it ends, by this key once it drew what is awaited."""
    drawn, is_told = b"", False
    with suppress(OSError):  # a terminal without a program at its other end cannot be read
        while data := os.read(terminal, 1 << 16):
            drawn += data
            if awaited is not None and awaited in drawn and not is_told:
                is_told = os.write(terminal, key) > 0
    os.close(terminal)
    return drawn
