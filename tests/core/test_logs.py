"""Lines of the log in both formats."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextvars import copy_context

import pytest
from tfscale.core.logs import WATCHED, start_log

LOGGER = logging.getLogger("tfscale.test")


@pytest.fixture(autouse=True)
def _same_loggers_afterwards() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("tfscale")
    before = (root.handlers[:], root.level, own.level)
    root.handlers.clear()
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])
    logging.captureWarnings(False)


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


def test_a_text_line_has_time_level_task_and_message(written: io.StringIO) -> None:
    start_log(logging.StreamHandler(written), "info", "text", "worker:1")
    LOGGER.info("started %s", "python train.py")
    LOGGER.info("another task", extra={"task": "worker:2"})
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    first, second = written.getvalue().splitlines()
    assert re.fullmatch(f"{time} INFO worker:1 started python train.py", first)
    assert re.fullmatch(f"{time} INFO worker:2 another task", second)


def test_a_watched_run_stands_before_the_task_in_both_formats(written: io.StringIO) -> None:
    def log() -> None:
        WATCHED.set("demo")
        LOGGER.info("begins")
        LOGGER.info("is up", extra={"task": "worker:2"})

    for log_format in ("text", "json"):
        start_log(logging.StreamHandler(written), "info", log_format)
        copy_context().run(log)
    first, second, third, fourth = written.getvalue().splitlines()
    assert first.endswith(" INFO demo begins") and second.endswith(" INFO demo worker:2 is up")
    assert [(json.loads(line)["run"], json.loads(line)["task"]) for line in (third, fourth)] == [
        ("demo", None),
        ("demo", "worker:2"),
    ]


def test_a_message_cannot_forge_a_line_or_move_the_cursor(written: io.StringIO) -> None:
    start_log(logging.StreamHandler(written), "info", "text")
    LOGGER.info("one\ntwo \x1b[2J\x9b")
    assert written.getvalue().endswith(r" INFO - one\ntwo \x1b[2J\x9b" + "\n")


def test_a_json_line_is_an_object_of_five_fields(written: io.StringIO) -> None:
    start_log(logging.StreamHandler(written), "info", "json", "worker:1")
    LOGGER.warning("two\nlines")
    line = json.loads(written.getvalue())
    assert list(line) == ["time", "level", "task", "logger", "message"]
    assert [*line.values()][1:] == ["WARNING", "worker:1", "tfscale.test", "two\nlines"]


def test_an_exception_goes_along_in_both_formats(written: io.StringIO) -> None:
    for log_format in ("text", "json"):
        start_log(logging.StreamHandler(written), "info", log_format)
        try:
            raise ValueError("reason")
        except ValueError:
            LOGGER.exception("failed")
    *text, last = written.getvalue().splitlines()
    assert text[-1] == "ValueError: reason"
    assert json.loads(last)["exception"].endswith("ValueError: reason")


@pytest.mark.parametrize(
    ("level", "heard"),
    [("debug", "abcd"), ("info", "bcd"), ("warning", "cd"), ("error", "d")],
)
def test_the_level_counts_for_tfscale_alone(written: io.StringIO, level: str, heard: str) -> None:
    start_log(logging.StreamHandler(written), level, "text")
    for number, letter in zip((10, 20, 30, 40), "abcd", strict=True):
        LOGGER.log(number, letter)
    logging.getLogger("asyncio").info("Using selector")
    assert [line[-1] for line in written.getvalue().splitlines()] == list(heard)
