"""Flags outrank variables, and variables the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tfscale.core.settings.precedence import CommandLine, Option, add_flags, choose, outranks
from tfscale.core.settings.value_parsers import any_text, count, switch

OPTIONS = {
    "name": Option(any_text, "NAME", ""),
    "log_keep": Option(count, "N", ""),
    "quiet": Option(switch, "", ""),
    "fault": Option(any_text, "FAULT", "", is_list=True),
    "serve": Option(any_text, "HOST", "", otherwise="here"),
}


def flags(*arguments: str) -> dict[str, Any]:
    parser = CommandLine()
    add_flags(parser, OPTIONS)
    return vars(parser.parse_args(arguments))


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
