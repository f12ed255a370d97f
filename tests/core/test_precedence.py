"""Flags beat variables beat the file, and a size is the same for both programs."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from tfscale.agent import settings as agent_settings
from tfscale.console.settings import options as console_options
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import CommandLine, Option, add_flags, choose, outranks
from tfscale.core.settings.value_parsers import any_text, count, size, switch

OPTIONS = {
    "name": Option(any_text, "NAME", ""),
    "log_keep": Option(count, "N", ""),
    "quiet": Option(switch, "", ""),
    "fault": Option(any_text, "FAULT", "", is_list=True),
    "serve": Option(any_text, "HOST", "", otherwise="here"),
}
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


def flags(*arguments: str) -> argparse.Namespace:
    parser = CommandLine()
    add_flags(parser, OPTIONS)
    return parser.parse_args(arguments)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tfscale").mkdir()
    text = "[program]\nname = 'file'\nlog-keep = 3\nfault = ['a', 'b']\nquiet = true\n"
    (tmp_path / "tfscale/config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_first_place_that_gives_a_value_counts(environment: dict[str, str], tmp_path: Path) -> None:
    variables = {"TFSCALE_NAME": "variable", "TFSCALE_SERVE": "there", "TFSCALE_FAULT": "c d"}
    chosen = choose(OPTIONS, "program", flags("--serve", "--no-quiet"), environment | variables)
    assert chosen.values == {"name": "variable", "log_keep": 3, "quiet": False, "fault": ("c", "d"), "serve": "here"}
    file = tmp_path / "tfscale/config.toml"
    assert chosen.file == file
    assert chosen.origins["log_keep"] == f"{file}: log-keep"
    assert (chosen.origins["name"], chosen.origins["quiet"]) == ("TFSCALE_NAME", "--quiet")
    assert outranks(chosen.origins, "serve", "name") and outranks(chosen.origins, "name", "log_keep")
    assert not outranks(chosen.origins, "log_keep", "name") and outranks(chosen.origins, "log_keep", "absent")


def test_without_a_file_nothing_is_chosen(tmp_path: Path) -> None:
    chosen = choose(OPTIONS, "program", flags(), {"XDG_CONFIG_HOME": str(tmp_path)})
    assert (chosen.values, chosen.origins, chosen.file) == ({}, {}, None)


@pytest.mark.parametrize(("text", "expected"), SIZES)
def test_a_size_is_the_same_for_agent_and_console(text: str, expected: int) -> None:
    assert agent_settings.OPTIONS["log_size"].parse(text, "--log-size") == expected
    assert console_options.OPTIONS["rotate"].parse(text, "--rotate") == expected


@pytest.mark.parametrize("text", ["", "M", "64X", "-1", "1MBit", "0"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--size: {text!r} is "):
        size()(text, "--size")
