"""A program that runs alone under an agent: the agent stands in front of its command, as a process of its own."""

from __future__ import annotations

import os
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopback import free_addresses

pytestmark = pytest.mark.usefixtures("source_roots")
_AGENT = (sys.executable, "-m", "tfscale.agent.cli")
_WAITS = "import time; print('up', flush=True); time.sleep(60)"

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts an agent, and with it a program of Python, in an empty folder."""
    agents: list[subprocess.Popen[bytes]] = []

    def start(program: str, *flags: str, **options: object) -> subprocess.Popen[bytes]:
        words = [*_AGENT, "--grace", "1", *flags, "--", sys.executable, "-c", program]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path}
        agents.append(subprocess.Popen(words, **{**pipes, **options}))  # type: ignore[call-overload]
        return agents[-1]

    yield start
    for agent in agents:
        agent.terminate()
        agent.communicate(timeout=120)


def _is_up(agent: subprocess.Popen[bytes]) -> bool:
    assert agent.stdout is not None
    return agent.stdout.readline() == b"up\n"


def _said(agent: subprocess.Popen[bytes]) -> list[str]:
    """Return what an agent that has ended says on stderr, without the time of its log."""
    lines = agent.communicate(timeout=120)[1].decode().splitlines()
    return [line.partition(" worker:0 ")[2] or line for line in lines]


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_agents_that_start_in_one_moment_have_a_port_each(tmp_path: Path) -> None:
    words = [*_AGENT, "--log-level", "info", "--state-dir", str(tmp_path)]
    script = 'ip link set lo up; for n in 1 2 3 4 5 6; do "$@" --run r$n -- sleep 4 & done; wait'
    ran = subprocess.run(["unshare", "--net", "sh", "-c", script, "sh", *words], capture_output=True, timeout=120)
    said = ran.stderr.decode()
    ports = re.findall(r"serving 127\.0\.0\.1:(\d+); run r\d", said)
    assert len(set(ports)) == len(ports) == 6 and "7070" in ports, said


def test_the_output_is_that_of_the_program_to_the_last_byte(start: Start) -> None:
    output, errors = start("import os; os.write(1, bytes(range(256)) * 1000); os.write(2, b'\\r 50 %')").communicate()
    assert output == bytes(range(256)) * 1000
    assert errors.endswith(b"shows it\n\r 50 %")


def test_stdout_and_stderr_keep_their_order_where_they_go_to_the_same_place(start: Start) -> None:
    program = "import os\nfor n in range(2000): os.write(1 + n % 2, b'%d\\n' % n)"
    output, _ = start(program, stderr=subprocess.STDOUT).communicate()
    assert output.partition(b"shows it\n")[2].split() == [b"%d" % n for n in range(2000)]


@pytest.mark.parametrize("cluster", ["", '[recovery]\npolicy = "Never"\nmin_workers = 1\n'], ids=["alone", "seat"])
@pytest.mark.parametrize(("then", "status"), [("time.sleep(60)", -signal.SIGTERM), ("pass", 0)], ids=["runs", "ended"])
def test_an_agent_whose_stdout_nobody_reads_ends_when_asked_and_counts_what_was_lost(
    cluster: str, then: str, status: int, start: Start, tmp_path: Path
) -> None:
    flags = ["--state-dir", str(tmp_path)]
    if cluster:
        task, seat = free_addresses(2)
        (tmp_path / "c.toml").write_text(f'{cluster}[cluster]\nworker = ["{task}"]\n[agents]\n"worker:0" = "{seat}"\n')
        flags += ["--cluster", str(tmp_path / "c.toml"), "--show-output", "--exit-with-task"]
    agent = start(f"import time; print('x' * 999_999, flush=True); {then}", *flags)
    assert agent.stdout is not None
    select.select([agent.stdout], [], [], 20)
    while status == 0 and not any('"ended": 1' in path.read_text() for path in tmp_path.glob("*/**/*.state.json")):
        time.sleep(0.1)
    time.sleep(0.5)
    agent.terminate()
    assert agent.wait(60) == status
    output, errors = agent.communicate()
    lost = 1_000_000 - len(output)
    assert lost and f"nobody reads stdout: the task's last {lost} bytes there are in ".encode() in errors


def test_a_line_like_those_that_the_shim_adds_to_its_log_is_the_programs(start: Start) -> None:
    line = "--- tfscale: 2026-11-26T00:00:00Z of mine"
    output, _ = start(f"print({line!r}); print('no end', end='')").communicate()
    assert output == f"{line}\nno end".encode()


@pytest.mark.parametrize("given", [b"", b"first\nsecond\n"])
def test_a_program_reads_what_a_pipe_gives_the_agent(given: bytes, start: Start) -> None:
    output, _ = start("import sys; print(sys.stdin.read(), end='')", stdin=subprocess.PIPE).communicate(given)
    assert output == given


def test_a_program_reads_a_file_that_the_agent_was_given(start: Start, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("yes\n")
    with (tmp_path / "lines").open() as lines:
        output, _ = start("print(input())", stdin=lines).communicate()
    assert output == b"yes\n"


def test_arguments_that_are_not_utf_8_or_very_long_reach_the_program_as_they_are(tmp_path: Path) -> None:
    words = [b"\xff\xfe", b"\n", b"x" * 120_000, b"y" * 120_000]
    program = "import os, sys; os.write(1, os.fsencode('|'.join(sys.argv[1:])))"
    done = subprocess.run(
        [*_AGENT, "--", sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"|".join(words))


@pytest.mark.parametrize(
    "redirection", [">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "| head -1"]
)
def test_a_stream_that_takes_nothing_harms_neither_program_nor_status(redirection: str, tmp_path: Path) -> None:
    program = "import time, sys\nfor n in range(3): print(n, flush=True); time.sleep(0.3)\nsys.exit(3)"
    words = shlex.join([*_AGENT, "--", sys.executable, "-c", program])
    shell = f"{words} {redirection}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "tfscale" not in done.stdout
    told = {">/dev/full": "stdout: No space left", "| head -1": "nobody reads stdout any more"}.get(redirection)
    assert told is None or told in done.stderr
    assert ("the task goes on, and its output is in" in done.stderr) is (told is not None)


def test_a_terminal_that_is_closed_ends_the_program_as_without_an_agent(start: Start) -> None:
    agent = start(_WAITS)
    assert _is_up(agent)
    agent.send_signal(signal.SIGHUP)
    assert agent.wait(60) == -signal.SIGHUP


def test_nohup_keeps_the_program(start: Start) -> None:
    agent = start(
        "import time; print('up', flush=True); time.sleep(1)",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert _is_up(agent)
    agent.send_signal(signal.SIGHUP)
    assert agent.wait(60) == 0


def test_an_agent_that_joins_says_where_the_earlier_output_is(start: Start, tmp_path: Path) -> None:
    waits = "while not os.path.exists('joined'): time.sleep(0.05)"
    program = f"import os, time; print('up', flush=True)\n{waits}\nprint('later')"
    first = start(program)
    assert _is_up(first)
    first.kill()
    first.wait()
    again = start(program)
    assert again.stderr is not None
    told = b"joined the task, which an earlier agent had started; its earlier output is in"
    assert any(told in line for line in again.stderr)
    (tmp_path / "joined").touch()
    assert again.communicate(timeout=120)[0] == b"later\n" and again.returncode == 0


def test_a_program_that_ended_without_an_agent_is_told_and_not_repeated(start: Start) -> None:
    program = "import time; print('up', flush=True); time.sleep(0.5); raise SystemExit(3)"
    first = start(program)
    assert _is_up(first)
    first.kill()
    time.sleep(1)
    again = start(program)
    said = _said(again)
    assert again.returncode == 3
    assert said[-1].startswith("the task exited 3 while no agent was there; give --restart to run it again")


def test_the_same_command_twice_is_one_line(start: Start) -> None:
    first = start(_WAITS)
    assert _is_up(first)
    (line,) = _said(again := start(_WAITS))
    assert again.returncode == 1 and line.endswith("stop that first, or name this run otherwise: --run NAME")
    assert f"pid {first.pid} already" in line


def test_a_working_folder_that_was_removed_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    shell = f"rmdir $PWD; exec {shlex.join(_AGENT)} -- true"
    words = ["bash", "-c", shell]
    done = subprocess.run(words, cwd=tmp_path / "gone", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "tfscale-agent: the working folder was removed: change to one that is there\n",
    )


def test_too_few_open_files_are_one_line(start: Start) -> None:
    agent = start("print('hi')", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
    (line,) = _said(agent)
    assert line == ("tfscale-agent: the limit of open files is 24 (ulimit -Hn), and 64 are needed: raise that limit")
    assert agent.returncode == 2


def test_a_state_that_cannot_be_written_is_one_line(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "mine"
    folder.mkdir(parents=True)
    (folder / "worker-0.agent.lock").symlink_to("/dev/full")
    (line,) = _said(agent := start("", "--state-dir", str(folder.parent), "--run", "mine"))
    assert agent.returncode == 1 and "mine: cannot keep state there (" in line and line.endswith("give --state-dir")


def test_where_nobody_would_adopt_it_a_program_is_killed_with_its_agent_and_has_its_time_before(start: Start) -> None:
    """A launcher such as Slurm asks twice to end, and takes its child's end for that of the program."""
    own_pid = "import os; print(os.getpid(), flush=True); "
    agent = start(f"{own_pid}{_WAITS}", "--ends-with-agent")
    assert agent.stdout is not None
    program = os.pidfd_open(int(agent.stdout.readline()))
    agent.kill()
    assert select.select([program], [], [], 5)[0], "the program has outlived its agent"
    os.close(program)
    saves = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), print('saved'), sys.exit(3)))"
    )
    agent = start(f"import time; {saves}; {_WAITS}", "--ends-with-agent")
    assert _is_up(agent)
    agent.terminate()
    time.sleep(0.2)
    agent.terminate()
    assert agent.communicate(timeout=120)[0] == b"saved\n"
    assert agent.returncode == 3


@pytest.mark.parametrize("is_restored", [False, True])
def test_ctrl_c_is_silent_while_a_program_is_imported(is_restored: bool) -> None:
    restore = "early_interrupt.restore()" if is_restored else "pass"
    code = f"import os; from tfscale.core import early_interrupt; {restore}; os.kill(os.getpid(), {signal.SIGINT:d})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == -signal.SIGINT and ("KeyboardInterrupt" in done.stderr) is is_restored
