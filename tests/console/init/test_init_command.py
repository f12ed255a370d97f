"""A cluster file from a few words, as the program writes it: read again, looked at, and never written half or twice."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tfscale.console.cli import main
from tfscale.console.init.commented_file import commented_file
from tfscale.console.init.host_ranges import hosts
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.file.cluster_file import load_cluster, parse_cluster
from tfscale.core.cluster.task import Role

Capture = pytest.CaptureFixture[str]
Init = Callable[..., int]


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Return a function that runs the command in this process, and returns its exit status."""

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["tfscale-console", "init", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("host[1-3]", ["host1", "host2", "host3"]),
        ("n[08-10,20]-ib.example.org", ["n08-ib.example.org", "n09-ib.example.org", "n10-ib.example.org",
                                        "n20-ib.example.org"]),
        ("r[1-2]n[1-2],login", ["r1n1", "r1n2", "r2n1", "r2n2", "login"]),
        ("10.0.0.[2-3]:2300", ["10.0.0.2 2300", "10.0.0.3 2300"]),
        ("[::1]:2222, b", ["::1 2222", "b"]),
    ],
)  # fmt: skip
def test_ranges_name_hosts(text: str, names: Sequence[str]) -> None:
    assert [host if port is None else f"{host} {port}" for host, port in hosts(text, "--workers")] == names


def test_what_is_commented_out_holds_once_it_is_not() -> None:
    tasks = {Role.WORKER: [Address(f"host{index}", 2222) for index in range(6)], Role.PS: [Address("::1", 2222)]}
    text = commented_file(tasks, None, has_tls=False)
    assert tomllib.loads(text) == {
        "cluster": {"worker": [f"host{index}:2222" for index in range(6)], "ps": ["[::1]:2222"]}
    }
    whole = re.sub(r"^# (?=\S+ = |\"|\[)", "", text, flags=re.MULTILINE)
    spec = parse_cluster(tomllib.loads(whole), name="x", where="x", base=Path())
    assert spec.tls and spec.recovery and spec.spares and spec.gpu_price and spec.program.command and spec.link_speeds
    assert spec.device_peak == 989e12
    assert commented_file(tasks, "digits", has_tls=True).count("\n[") == 2


def test_a_file_is_written_once_and_says_what_is_missing(folder: Path, init: Init, capsys: Capture) -> None:
    words = ["--workers", "127.0.0.[1-2],127.0.0.1", "--ps", "127.0.0.3", "--port", "2300"]
    assert init(*words) == 3
    first, fault, last = capsys.readouterr().out.splitlines()
    assert first == "wrote cluster.toml: 4 tasks, of which worker:0 leads"
    assert fault.startswith("! ") and "chief" in fault, "ps without a chief"
    assert last.startswith("no agent answers yet: start tfscale-agent --cluster cluster.toml")
    spec = load_cluster(folder / "cluster.toml")
    assert [str(address) for address in spec.tasks.values()] == [
        "127.0.0.1:2300", "127.0.0.2:2300", "127.0.0.1:2301", "127.0.0.3:2300"
    ]  # fmt: skip
    before = (folder / "cluster.toml").read_bytes()
    assert init(*words) == 2
    again = capsys.readouterr()
    assert again.out == "" and "cluster.toml is there: give --force" in again.err
    assert (folder / "cluster.toml").read_bytes() == before
    assert init("--workers", "host[1-2]", "--force") == 0
    assert "not looked at by the doctor: host1:7070 is not a loopback" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "name the hosts"),
        (["--workers", "host[4-1]"], "[4-1] is no range"),
        (["--workers", "host["], "is no host"),
        (["--workers", "h[1-99999]"], "more than 10,000 hosts"),
        (["--workers", "a:2222,a:2222"], "a:2222 is used 2 times"),
        (["--chief", "a,b"], "there can be only one"),
        (["--workers", "a", "--name", "../up"], "name must be"),
        (["--workers", "a", "--out", "no/such/folder.toml"], "No such file"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    folder: Path, init: Init, capsys: Capture, words: Sequence[str], why: str
) -> None:
    assert init(*words) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1) and why in said.err
    assert not [*folder.iterdir()]


def test_the_schema_is_printed(init: Init, capsys: Capture) -> None:
    assert init("--schema") == 0
    assert "cluster" in json.loads(capsys.readouterr().out)["properties"]


@pytest.mark.parametrize(("out", "why"), [(".", "Is a directory"), ("device", "Is no regular file")])
def test_only_a_file_is_replaced(
    out: str, why: str, init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("device").symlink_to("/dev/null")
    assert init("--workers", "a", "--out", out, "--force") == 2
    assert capsys.readouterr().err == f"tfscale-console: --out {out}: {why}\n"
    assert Path("device").is_symlink() and len([*tmp_path.iterdir()]) == 1
