"""The console's own log, in the file that the settings name, or on stderr; and lines that are no part of it."""

from __future__ import annotations

import logging
import sys

from tfscale.console.settings.config import Settings
from tfscale.core.errors import UsageError
from tfscale.core.logs import start_log
from tfscale.core.text import printable


def start_console_log(settings: Settings, otherwise: logging.Handler) -> None:
    """Send the log to the file that the settings name, else to `otherwise`. Raises UsageError."""
    handler = otherwise
    if settings.log_file is not None:
        try:
            handler = logging.FileHandler(settings.log_file, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise UsageError(f"--log-file {settings.log_file}: {error.strerror}") from None
    start_log(handler, settings.log_level, settings.log_format)


def tell(line: str) -> None:
    """Write a line to stderr at every log level, and never to the log file: the line may hold a URL with a token."""
    show(f"tfscale-console: {printable(line)}")


def show(text: str) -> None:
    """Write a text for people to stderr: lines for scripts go to stdout."""
    print(text, file=sys.stderr, flush=True)
