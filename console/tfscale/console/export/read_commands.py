"""Commands that read: a task's log, the events that agents remember, the orders that they were given."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence

from tfscale.console.engine.engine import Engine
from tfscale.console.engine.state_factory import states
from tfscale.console.export.plain import story_line
from tfscale.console.export.rows import timeline_line
from tfscale.console.export.snapshot_once import SnapshotOnce
from tfscale.console.export.task_commands import known_task, locate
from tfscale.console.settings.config import Settings
from tfscale.console.sources.source_factory import ClusterConnection
from tfscale.console.transport.channels import CommandError
from tfscale.core.cluster.task import Task
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.settings.exit_status import ExitStatus
from tfscale.core.text import listing, moment, printable
from tfscale.core.wire.json_records import Json

_logger = logging.getLogger(__name__)
TAIL = 100
"""Lines of a log unless other numbers are asked for."""
_MOST_ORDERS = 1_000
"""Newest lines of each agent's audit log that are read: they are one message."""
_AT_ONCE = 64
"""Agents that are asked at once."""
_STEPS_OF_ORDERS = ("Apply", "Place")
"""Calls by which agents carry out an order that somebody gave to one of them."""


async def print_log(word: str, settings: Settings, connection: ClusterConnection) -> int:
    """Print the end of a task's log, and what follows if that is asked for. Raises UsageError and CommandError."""
    task = known_task(word, connection)
    await locate(connection)
    tail = TAIL if settings.tail is None else settings.tail
    if not settings.follow:
        _print(await connection.commands.log_end(task, tail))
        return ExitStatus.WELL
    async for lines in connection.commands.follow_log(task, tail):
        _print(lines)
    return ExitStatus.WELL


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(printable(line))
    sys.stdout.flush()


async def print_events(settings: Settings, connection: ClusterConnection) -> int:
    """Print the events of a cluster that its agents remember, oldest first."""
    once = SnapshotOnce(Engine(connection.source, states(connection.source.spec, connection.baselines)))
    snapshot = await once.run()
    if snapshot is None or not once.frames:
        raise CommandError("no events: no agent of this cluster has sent a frame; are they running?")
    for entry in snapshot.timeline:
        print(json.dumps(timeline_line(entry), ensure_ascii=False) if settings.json else story_line(entry))
    return ExitStatus.OUTDATED if snapshot.is_outdated else ExitStatus.WELL


async def print_orders(settings: Settings, connection: ClusterConnection) -> int:
    """Print the orders that the agents were given, and by whom, oldest first; as JSON each line of their audit logs.

    Raises CommandError where no agent answers. One that does not is told in the log.
    """
    await locate(connection)
    lines: list[Json] = []
    silent: dict[Task, CommandError] = {}
    tasks = list(connection.source.spec.agents)
    for begin in range(0, len(tasks), _AT_ONCE):
        wave = tasks[begin : begin + _AT_ONCE]
        for task, answer in zip(wave, await asyncio.gather(*(_orders(each, connection) for each in wave)), strict=True):
            if isinstance(answer, CommandError):
                silent[task] = answer
            else:
                lines += answer
    if len(silent) == len(tasks):
        raise next(iter(silent.values()))
    for task, why in silent.items():
        _logger.warning("%s", why, extra={"task": str(task)})
    lines.sort(key=lambda line: float(line["time"]))
    for text in map(json.dumps, lines) if settings.json else _order_lines(lines):
        print(text)
    return ExitStatus.WELL


async def _orders(task: Task, connection: ClusterConnection) -> list[Json] | CommandError:
    """Return the lines of the audit log of a task's agent, or why there are none."""
    try:
        return [_parsed(task, line) for line in await connection.commands.log_end(task, _MOST_ORDERS, of_orders=True)]
    except CommandError as error:
        return error


def _parsed(task: Task, line: str) -> Json:
    try:
        document = json.loads(line)
        at = float(document.pop("at"))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CommandError(f"the agent of {task} keeps no orders: it is older than this console") from None
    return {"type": "order", "schema": SCHEMA_VERSION, "time": at, "task": str(task), **document}


def _order_lines(lines: Sequence[Json]) -> Iterator[str]:
    """Yield one line for each order, with its last result; not the steps in which agents carried it out."""
    last: dict[tuple[object, ...], Json] = {}
    for line in lines:
        if str(line.get("what", "")).partition(" ")[0] not in _STEPS_OF_ORDERS:
            # The number begins anew with the agent, and an order asks before it has a result.
            key = (line["task"], line.get("order"), line.get("what"), line.get("who"))
            known = last.get(key)
            if known is not None and known.get("result") == "asked":
                known["result"] = line.get("result")
            else:
                last[(*key, line["time"]) if known is not None else key] = dict(line)
    for line in sorted(last.values(), key=lambda line: float(line["time"])):
        tasks = listing([str(task) for task in line.get("tasks") or ()])
        reason = f" ({line['reason']})" if line.get("reason") else ""
        result = "under way, or its agent ended" if line.get("result") == "asked" else line.get("result")
        text = f"{line['task']}: {line.get('who')}: {line.get('what')} {tasks}".rstrip()
        yield printable(f"{moment(float(line['time']))} {text}{reason}: {result}")
