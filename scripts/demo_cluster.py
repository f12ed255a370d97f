"""Start agents with real TensorFlow tasks on loopback, open the console on them, and end them all with it."""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfscale.trainer.delay import Delay

BIN = Path(sys.executable).parent
ENDLESS = 1_000_000
"""Epochs: the demo ends before them."""

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # Several tasks on one machine: each keeps to the CPU, and to one thread for its kernels.
    "CUDA_VISIBLE_DEVICES": "",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
}


@dataclass(frozen=True, slots=True)
class Demo:
    """Choices of the command line."""

    workers: int
    slow: Mapping[str, str]
    """Delay, as `tfscale-train digits --slow` takes it, by task."""
    console: tuple[str, ...]
    """Arguments of the console."""


def parse(arguments: Sequence[str]) -> Demo:
    """Parse the command line; end the program with status 2 and one line where it is wrong."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__, allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument(
        "--slow",
        action="append",
        default=[],
        metavar="TASK=60ms|1.3x[,PHASE][@30s]",
        help="a real delay in each step of this task: in compute or the named phase, from the start or from then on",
    )
    parser.add_argument("--headless", action="store_true", help="one JSON object a line instead of the screen")
    parser.add_argument("--seconds", type=float, metavar="S", help="end S seconds after the first step of all tasks")
    parser.add_argument("--out", metavar="FILE", help="with --headless: write there instead of stdout")
    chosen = parser.parse_args(arguments)
    if not 1 <= chosen.workers <= 16:
        parser.error(f"--workers {chosen.workers}: from 1 to 16")
    if not chosen.headless and not (sys.stdout.isatty() and sys.stdin.isatty()):
        parser.error("no terminal to draw on: use --headless")
    if chosen.out and not chosen.headless:
        parser.error("--out needs --headless")
    console = ["--headless"] if chosen.headless else []
    console += ["--seconds", str(chosen.seconds)] if chosen.seconds is not None else []
    console += ["--out", chosen.out] if chosen.out else []
    try:
        slow = dict(_slow(text, chosen.workers) for text in chosen.slow)
    except ValueError as error:
        parser.error(f"--slow {error}")
    return Demo(chosen.workers, slow, tuple(console))


def _slow(text: str, workers: int) -> tuple[str, str]:
    task, equals, delay = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r}: write TASK=DELAY, for example worker:1=60ms")
    tasks = [f"worker:{index}" for index in range(workers)]
    if task not in tasks:
        raise ValueError(f"{text!r}: the tasks are {', '.join(tasks)}")
    Delay.parse(delay)
    return task, delay


def main() -> int:
    """Run the demo; return the console's exit status, or 1 where an agent could not start."""
    demo = parse(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="tfscale-demo-") as name:
        folder = Path(name)
        cluster = write_cluster(folder, demo.workers)
        agents: list[subprocess.Popen[bytes]] = []
        try:
            agents += (start_agent(folder, cluster, index, demo) for index in range(demo.workers))
            status = subprocess.call([BIN / "tfscale-console", "--cluster", cluster, *demo.console])
        except KeyboardInterrupt:
            status = 130
        finally:
            failed = [index for index, agent in enumerate(agents) if agent.poll() is not None]
            end(agents)
        for index in failed:
            print(f"demo: the agent of worker:{index} ended early:", file=sys.stderr)
            print((folder / f"agent-{index}.log").read_text()[-2000:], file=sys.stderr)
    return status or bool(failed)


def end(agents: Sequence[subprocess.Popen[bytes]]) -> None:
    """End all agents, and with them their tasks; ignore signals meanwhile."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for agent in agents:
        agent.terminate()
    for agent in agents:
        agent.wait()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def write_cluster(folder: Path, workers: int) -> Path:
    """Write a cluster file with free ports of this machine."""
    addresses = [f'"127.0.0.1:{port}"' for port in _free_ports(2 * workers)]
    variables = "\n".join(f'{name} = "{value}"' for name, value in ENVIRONMENT.items())
    agents = "\n".join(f'"worker:{index}" = {address}' for index, address in enumerate(addresses[workers:]))
    cluster = folder / "demo.toml"
    cluster.write_text(
        f"[cluster]\nworker = [{', '.join(addresses[:workers])}]\n\n[agents]\n{agents}\n\n"
        f"[program.environment]\n{variables}\n"
    )
    return cluster


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


def start_agent(folder: Path, cluster: Path, index: int, demo: Demo) -> subprocess.Popen[bytes]:
    """Start the agent of one worker, whose task trains without end."""
    delay = demo.slow.get(f"worker:{index}")
    program = [BIN / "tfscale-train", "digits", "--epochs", str(ENDLESS), *(["--slow", delay] if delay else [])]
    flags = ["--role", "worker", "--index", str(index), "--cluster", cluster, "--state-dir", folder / "state"]
    with (folder / f"agent-{index}.log").open("wb") as log:
        # Out of the terminal's process group: ctrl-C is the console's, which ends the agents in order.
        return subprocess.Popen(
            [BIN / "tfscale-agent", *flags, "--grace", "5", "--", *program],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


if __name__ == "__main__":
    sys.exit(main())
