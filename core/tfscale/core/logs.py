"""Log of a program: one handler for the standard library's `logging`, with time, level and task in each line.

    2026-11-26T00:30:12.345Z INFO worker:1 started python train.py as process 123 (generation 3, attempt 1)
    {"time": "2026-11-26T00:30:12.345Z", "level": "INFO", "task": "worker:1", "logger": "tfscale...", "message": "..."}

The task is `SERVED`, which the running code serves, else the task for which the program was started; a record about
another task carries `extra={"task": "worker:2"}`.
"""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime

SERVED: ContextVar[str | None] = ContextVar("served", default=None)
"""Task that the running code serves, in a process that serves several. What this code starts serves the same task."""
WATCHED: ContextVar[str | None] = ContextVar("watched", default=None)
"""Run that the running code watches, in a process that watches several: it stands before the task."""
LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def start_log(handler: logging.Handler, level: str, log_format: str, task: str | None = None) -> None:
    """Send the records of every logger to `handler`.

    `level` is one of LEVELS and counts for tfscale's own loggers; other libraries are heard from WARNING on, because
    their lower levels describe their inside. `task` is None where the program serves no single task.
    """
    handler.setFormatter(_JsonFormatter(task) if log_format == "json" else _TextFormatter(task))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("tfscale").setLevel(level.upper())
    logging.captureWarnings(True)


class _TaskFormatter(logging.Formatter):
    def __init__(self, task: str | None) -> None:
        super().__init__()
        self._task = task

    def task_of(self, record: logging.LogRecord) -> str | None:
        task: str | None = getattr(record, "task", None) or SERVED.get() or self._task
        return task


class _TextFormatter(_TaskFormatter):
    def format(self, record: logging.LogRecord) -> str:
        # A message may quote another process: its control characters must not forge a line or move the cursor.
        message = _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), record.getMessage())
        who = " ".join(filter(None, [WATCHED.get(), self.task_of(record)])) or "-"
        line = f"{_time(record)} {record.levelname} {who} {message}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(_TaskFormatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": _time(record),
            "level": record.levelname,
            "task": self.task_of(record),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (run := WATCHED.get()) is not None:
            entry["run"] = run
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
