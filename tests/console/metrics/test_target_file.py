"""`tfscale-console targets`: the file that Prometheus reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_words import run_command
from tfscale.core.errors import UsageError

CLUSTER = """
[cluster]
worker = ["h1:2222", "h2:2222", "h2:2223"]
[spares]
agents = ["h3:7070"]
tasks = ["h3:2222"]
"""
TLS = '[tls]\nca = "ca.pem"\ncertificate = "own.pem"\nkey = "own.key"\n'


def written(tmp_path: Path, text: str, *flags: str) -> object:
    (tmp_path / "digits.toml").write_text(text)
    out = tmp_path / "targets.json"
    assert run_command("targets", "--cluster", tmp_path / "digits.toml", "--out", out, *flags) == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    return json.loads(out.read_text())


def test_each_host_is_one_target_spares_too(tmp_path: Path) -> None:
    labels = {"run": "digits", "__scheme__": "http"}
    assert written(tmp_path, CLUSTER) == [{"targets": ["h1:9471", "h2:9471", "h3:9471"], "labels": labels}]


def test_with_certificates_the_scheme_is_https(tmp_path: Path) -> None:
    (groups,) = written(tmp_path, CLUSTER + TLS, "--page-port", "9999")  # type: ignore[misc]
    assert groups["targets"][0] == "h1:9999" and groups["labels"]["__scheme__"] == "https"


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--page-port", ":9471"], "':9471' is not a whole number above 0"),
        (["--out", "/dev/null/x"], "/dev/null/x: Not a"),
    ],
)
def test_wrong_words_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], line: str
) -> None:
    (tmp_path / "digits.toml").write_text(CLUSTER)
    with pytest.raises(UsageError, match=line):
        run_command("targets", "--cluster", tmp_path / "digits.toml", *flags)
    assert not capsys.readouterr().out
