"""Text of a setting as its value: the same for both programs."""

from __future__ import annotations

import pytest
from tfscale.agent import settings as agent_settings
from tfscale.console.settings import options as console_options
from tfscale.core.errors import UsageError
from tfscale.core.settings.value_parsers import (
    Parse,
    count,
    count_from_0,
    number_from_0,
    one_of,
    placed,
    positive_number,
    size,
    switch,
)

SIZES = [
    ("8192", 8192),
    ("8192B", 8192),
    ("64M", 1 << 26),
    ("64MiB", 1 << 26),
    ("64 mib", 1 << 26),
    ("64MB", 64_000_000),
    ("1.5 MB", 1_500_000),
    ("8k", 8192),
    ("100kB", 100_000),
    ("2G", 1 << 31),
    ("1TiB", 1 << 40),
]


@pytest.mark.parametrize(("text", "expected"), SIZES)
def test_a_size_is_the_same_for_agent_and_console(text: str, expected: int) -> None:
    assert agent_settings.OPTIONS["log_size"].parse(text, "--log-size") == expected
    assert console_options.OPTIONS["rotate"].parse(text, "--rotate") == expected


@pytest.mark.parametrize("text", ["", "M", "64X", "-1", "1MBit", "0"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--size: {text!r} is "):
        size()(text, "--size")


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (switch, "On", True),
        (switch, "no", False),
        (positive_number, "0.5", 0.5),
        (number_from_0, "0", 0.0),
        (count, "4", 4),
        (count_from_0, "0", 0),
        (one_of("text", "json"), "json", "json"),
    ],
)
def test_text_becomes_a_value(parse: Parse, text: str, value: object) -> None:
    assert parse(text, "--flag") == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (switch, "maybe"),
        (positive_number, "0"),
        (positive_number, "inf"),
        (number_from_0, "-1"),
        (number_from_0, "nan"),
        (count, "0"),
        (count_from_0, "-1"),
        (one_of("text", "json"), "xml"),
        (size(4096), "4095"),
    ],
)
def test_a_mistake_begins_with_its_place_and_the_text(parse: Parse, text: str) -> None:
    with pytest.raises(UsageError, match=f"^--flag: {text!r} is "):
        parse(text, "--flag")


def test_a_function_of_the_text_alone_gets_the_place_before_its_message() -> None:
    def refuse(text: str) -> None:
        raise UsageError(f"no {text}")

    with pytest.raises(UsageError, match=r"^--flag: no luck$"):
        placed(refuse)("luck", "--flag")
