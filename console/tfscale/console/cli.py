"""`tfscale-console`: reads the command line, builds the source, hands it to the screens or to the headless export."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO

from tfscale.console.channels import Channels
from tfscale.console.commands import Commands
from tfscale.console.headless import Headless, installed_version
from tfscale.console.model import ClusterState
from tfscale.console.sources.live import LiveSource
from tfscale.core.analysis.diagnose import Diagnostician
from tfscale.core.cluster import ClusterSpec, cluster_from_environment, load_cluster
from tfscale.core.errors import TfscaleError, UsageError
from tfscale.core.task import Task


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line and the environment ask for."""

    cluster: Path | None
    """None: `TF_CONFIG` names the cluster."""
    insecure: bool
    headless: bool
    out: Path | None
    seconds: float | None
    ascii: bool
    stack: Task | None = None
    """Print this task's Python stacks, and nothing else."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; --help shows how")


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings: flags, else `TFSCALE_*` variables. Raises UsageError."""
    parser = _Parser(
        prog="tfscale-console",
        description="Watch a TensorFlow cluster live, see who makes it slow and why, and restart tasks.",
        epilog="Each flag can be a variable too: TFSCALE_CLUSTER, TFSCALE_INSECURE=1, TFSCALE_OUT, TFSCALE_SECONDS.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--cluster", metavar="FILE", help="the cluster file, TOML or JSON; left out: TF_CONFIG in the environment")
    add("--insecure", action="store_true", help="reach agents beyond this host without TLS")
    add("--headless", action="store_true", help="no screen: one JSON object a line, to stdout")
    add("--out", metavar="FILE", help="with --headless: write there instead")
    add("--seconds", metavar="S", help="end by itself S seconds after the first step of all training tasks")
    add("--ascii", action="store_true", help="draw with ASCII only; by itself where the locale is not UTF-8")
    add(
        "command",
        nargs="*",
        metavar="stack TASK",
        help="only print the Python stacks of a task's threads; `report --help` says what report does",
    )
    add("--version", action="version", version=f"tfscale {installed_version() or '(not installed)'}")
    flags = parser.parse_args(arguments)
    cluster = flags.cluster or environment.get("TFSCALE_CLUSTER")
    out = flags.out or environment.get("TFSCALE_OUT")
    settings = Settings(
        cluster=Path(cluster) if cluster else None,
        insecure=flags.insecure or _is_set(environment, "TFSCALE_INSECURE"),
        headless=flags.headless or _is_set(environment, "TFSCALE_HEADLESS"),
        out=Path(out) if out else None,
        seconds=_seconds(flags.seconds or environment.get("TFSCALE_SECONDS")),
        ascii=flags.ascii or _is_set(environment, "TFSCALE_ASCII"),
        stack=_stack(flags.command),
    )
    if settings.out and not settings.headless:
        raise UsageError("--out needs --headless")
    return settings


def _stack(command: list[str]) -> Task | None:
    match command:
        case []:
            return None
        case ["stack", task]:
            return Task.parse(task)
    raise UsageError(f"{' '.join(command)!r} is no command: write stack TASK, for example stack worker:1")


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() not in ("", "0", "false", "no")


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise UsageError(f"--seconds: {text!r} is not a number of seconds above 0")
    return seconds


def main() -> None:
    """Run, and exit: 0 well, 1 nothing collected, 2 usage or bad configuration."""
    try:
        if sys.argv[1:2] == ["report"]:
            from tfscale.console.report import command as report

            sys.exit(report.run(sys.argv[2:]))
        settings = parse(sys.argv[1:], os.environ)
        spec = load_cluster(settings.cluster) if settings.cluster else cluster_from_environment()[0]
        channels = Channels(spec, insecure=settings.insecure)
        if settings.stack:
            status = print_stack(settings.stack, spec, channels)
        elif settings.headless:
            status = run_headless(settings, spec, channels)
        else:
            status = run_screens(settings, spec, channels)
    except TfscaleError as error:
        print(f"tfscale-console: {error}", file=sys.stderr)
        status = error.exit_status
    sys.exit(status)


def print_stack(task: Task, spec: ClusterSpec, channels: Channels) -> int:
    """Print the Python stacks of a task; the exit status. Raises UsageError and CommandError."""
    if task not in spec.agents:
        raise UsageError(f"there is no {task} in the cluster: it has {', '.join(map(str, spec.agents))}")

    async def fetch() -> str:
        try:
            return (await Commands(channels).stack(task)).text
        finally:
            await channels.close()

    print(asyncio.run(fetch()))
    return 0


def run_headless(settings: Settings, spec: ClusterSpec, channels: Channels) -> int:
    """Export until the end, and say on stderr if there was nothing; the exit status."""
    if settings.out is None:
        is_read, collected = _export(settings, spec, channels, sys.stdout)
    else:
        try:
            with closing(_open(settings.out)) as out:
                is_read, collected = _export(settings, spec, channels, out)
        except OSError as error:
            raise TfscaleError(f"--out {settings.out}: {error.strerror}: what came after that is lost") from None
    if not collected and is_read:
        agents = ", ".join(map(str, spec.agents.values()))
        print(
            f"tfscale-console: nothing collected: no agent sent a frame; are they running ({agents})?", file=sys.stderr
        )
    return 0 if collected else 1


def _export(settings: Settings, spec: ClusterSpec, channels: Channels, out: TextIO) -> tuple[bool, int]:
    """Whether the output was still read at the end, and how many frames were written."""

    async def export() -> tuple[bool, int]:
        headless = Headless(spec, LiveSource(channels), ClusterState(spec, Diagnostician(spec)), out)
        try:
            await headless.run(settings.seconds)
        except BrokenPipeError:
            # Python would complain once more when it flushes stdout at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return False, headless.collected
        finally:
            await channels.close()
        return True, headless.collected

    return asyncio.run(export())


def _open(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from None


def run_screens(settings: Settings, spec: ClusterSpec, channels: Channels) -> int:
    """Show the cluster until the operator leaves; the exit status."""
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        raise UsageError("no terminal to draw on: use --headless")
    from tfscale.console.app import ConsoleApp

    state = ClusterState(spec, Diagnostician(spec))
    app = ConsoleApp(
        spec,
        LiveSource(channels),
        state,
        Commands(channels),
        ascii=settings.ascii or not speaks_utf8(os.environ),
        seconds=settings.seconds,
    )
    app.run()
    return app.return_code or 0


def speaks_utf8(environment: Mapping[str, str]) -> bool:
    """Whether the terminal's locale is UTF-8; one that is not set at all is taken to be."""
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "UTF-8")
    return "utf8" in locale.lower().replace("-", "")


if __name__ == "__main__":
    main()
