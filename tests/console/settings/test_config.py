"""Flags beat variables beat the file; every mistake is one line that says where it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_words import invocation
from tfscale.console.alerts.receiver import Receiver
from tfscale.console.command_table import COMMANDS, WATCH
from tfscale.console.settings.config import Configuration, configure
from tfscale.console.settings.options import OPTIONS
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.errors import UsageError


def configured(*arguments: str, file: str | None = None, home: Path | None = None, **variables: str) -> Configuration:
    environment = {f"TFSCALE_{name}": value for name, value in variables.items()}
    if home is not None:
        environment["XDG_CONFIG_HOME"] = str(home)
        if file is not None:
            (home / "tfscale").mkdir()
            (home / "tfscale/config.toml").write_text(file)
    return configure(invocation(*arguments, **environment))


def test_flags_beat_variables_beat_the_file(tmp_path: Path) -> None:
    file = '[console]\nseconds = 3\nformat = "csv"\nonly = "steps"\ninsecure = true\n[agent]\nother = 1\n'
    known = configured("--seconds", "1", file=file, home=tmp_path, SECONDS="2", FORMAT="parquet", OUT="/tmp/x")
    settings = known.settings
    assert (settings.seconds, settings.format, settings.only, settings.insecure) == (1.0, "parquet", "steps", True)
    assert known.origins["seconds"] == "--seconds"
    assert known.origins["format"] == "TFSCALE_FORMAT"
    assert known.origins["only"] == f"{tmp_path}/tfscale/config.toml: only"
    assert "keep" not in known.origins


def test_a_flag_can_take_back_what_the_file_says(tmp_path: Path) -> None:
    known = configured("--no-insecure", file="[console]\ninsecure = true\n", home=tmp_path)
    assert known.settings.insecure is False


def test_what_holds_is_shown_as_the_file_that_would_say_it(tmp_path: Path) -> None:
    known = configured("--simulate", "3", "--fault", "worker:1=60ms", "--until", "failed,finished", RATE="5")
    shown = known.describe()
    assert "simulate = 3" in shown and "# --simulate" in shown
    assert 'until = ["failed", "finished"]' in shown
    assert "# TFSCALE_RATE" in shown and "# built in" in shown
    again = configured(file=shown, home=tmp_path)
    assert again.settings == known.settings


@pytest.mark.parametrize(
    ("words", "value"),
    [("100", 100), ("100kB", 100_000), ("1.5 MB", 1_500_000), ("2GB", 2_000_000_000)],
)
def test_sizes(words: str, value: int) -> None:
    assert configured("--rotate", words, "--out", "x").settings.rotate == value


def test_values_are_parsed() -> None:
    settings = configured("--agent", "h:1", "--webhook", "https://x/y", "--until", "straggler").settings
    assert settings.agent == Address("h", 1)
    assert (settings.webhook, settings.until) == (Receiver("https://x/y", "--webhook"), ("straggler",))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "soon"], "--seconds: 'soon' is not a number above 0"),
        (["--simulate", "0"], "--simulate: '0' is not a whole number"),
        (["--simulate", "99999999"], "--simulate: '99999999' is above 5000, the most that is allowed"),
        (["--agent", "host"], "--agent: 'host' is not host:port"),
        (["--rotate", "big", "--out", "x"], "--rotate: 'big' is not a size"),
        (["--rotate", "1MB"], "--rotate needs --out"),
        (["--format", "xml"], "--format: 'xml' is none of jsonl, csv, parquet"),
        (["--format", "csv"], "--format csv holds one table: add --only"),
        (["--format", "parquet", "--only", "steps"], "needs --out"),
        (["--until", "done"], "--until: 'done' is none of"),
        (["--webhook", "example.com"], "is no web address"),
        (["--fault", "worker:1=60ms"], "--fault needs --simulate"),
        (["--spares", "1"], "--spares needs --simulate"),
        (["--simulate", "2", "--ps", "1", "--stages", "2"], "--ps and --stages are two trainings: give one"),
        (["--simulate", "2", "--fault", "worker:1=tired"], "'tired' is no fault"),
        (["--simulate", "2", "--fault", "worker:1"], "write TASK=WHAT"),
        (["--simulate", "2", "--fault", "worker:1=foo"], "--fault: 'worker:1=foo': 'foo' is no fault"),
        (["--simulate", "2", "--fault", "worker:1=kill@50s-10s"], "it ends before it begins"),
        (["--simulate", "2", "--fault", "worker:1=0x"], "0x is no slowdown: write a number above 0"),
        (["--simulate", "2", "--fault", "worker:1=0.0ms"], "0.0ms is no slowdown"),
        (["--simulate", "2", "--fault", "worker:1=1.2.3x"], "write TASK=WHAT"),
        (["--simulate", "2", "--fault", "worker:1=2x,lunch"], "phase 'lunch' is none of"),
        (["--simulate", "2", "--agent", "h:1"], "are two clusters: give one"),
        (["--ca", "x"], "go together"),
        (["--nonsense"], "watching takes no --nonsense; tfscale-console --help shows how"),
        (["dance"], "there is no command 'dance'; tfscale-console --help lists them"),
        (["repla", "x"], "there is no command 'repla'; did you mean replay?"),
        (["a.tfrec"], "there is no command 'a.tfrec'; did you mean tfscale-console replay a.tfrec?"),
        (["--wait", "3"], "--wait needs --once"),
        (["--plain", "--only", "events"], "--plain is lines of text, and --only is for JSON or tables"),
        (["--headless", "--history", "x"], "--history: is for the screen of a real cluster"),
        (["--simulate", "2", "--history", "x"], "--history: is for the screen of a real cluster"),
        (["--vesion"], "watching takes no --vesion; did you mean --version?"),
        (["export", "x", "--formt=csv"], "export takes no --formt=csv; did you mean --format?"),
        (["stack"], "required: TASK; tfscale-console stack --help shows how"),
        (["config", "x"], "config takes no x; tfscale-console config --help shows how"),
        (["stack", "worker:1", "--out", "x"], "stack takes no --out; tfscale-console stack --help shows how"),
        (["--headless", "stack", "worker:1"], "stack takes no --headless;"),
        (["--workers", "2"], "watching takes no --workers;"),
        (["run", "--cluster", "x", "--", "train"], "run takes no --cluster;"),
        (["run"], "write the program after --"),
        (["doctor", "--", "train"], "doctor takes no -- train;"),
        (["signal", "worker:1"], "required: NAME; tfscale-console signal --help shows how"),
        (["restart"], "one of the arguments TASK --without is required;"),
        (["restart", "worker:1", "--without", "host-b"], "--without: not allowed with argument TASK;"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        configured(*arguments)
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("[console\n", "not TOML"),
        ("console = 3\n", "console must be a table"),
        ("[console]\nsecond = 3\n", "[console] has no key 'second'"),
        ("[console]\nseconds = -3\n", "seconds: '-3' is not a number above 0"),
        ("[console]\ninsecure = 7\n", "insecure: '7' is neither true nor false"),
    ],
)
def test_a_mistake_in_the_file_says_where(file: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        configured(file=file, home=tmp_path)
    assert said in str(raised.value) and "config.toml" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        ('format = "html"', ["--headless"]),
        ('format = "html"', ["export", "x.tfrec"]),
        ('format = "csv"', ["--theme", "dark"]),
        ('format = "csv"\nrotate = "1MB"', ["stack", "worker:1"]),
        ('serve = "0.0.0.0:1"', ["export", "x.tfrec"]),
        ("once = true", ["run", "--", "train"]),
    ],
)
def test_a_setting_of_the_file_that_is_for_another_command_is_not_refused(
    lines: str, command: list[str], tmp_path: Path
) -> None:
    assert configured(*command, file=f"[console]\n{lines}\n", home=tmp_path).settings.format in ("jsonl", "csv")


@pytest.mark.parametrize(("form", "begin"), [("html", "<!doctype html>"), ("csv", "a.csv\n")])
def test_a_report_has_the_format_of_the_file_if_it_is_one_of_reports(
    form: str, begin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{step},{worker},0.01,0.1,0.01,0.01\n" for step in range(50) for worker in range(2))
    (tmp_path / "a.csv").write_text(f"step,worker,input_s,compute_s,reduce_s,update_s\n{rows}")
    (tmp_path / "tfscale").mkdir()
    (tmp_path / "tfscale/config.toml").write_text(f'[console]\nformat = "{form}"\n')
    typed = invocation("report", "--csv", tmp_path / "a.csv", XDG_CONFIG_HOME=str(tmp_path))
    assert typed.command.run(typed) == 0
    assert capsys.readouterr().out.lower().startswith(begin)


def test_a_restart_without_a_host_names_no_task() -> None:
    found = configured("restart", "--without", "host-b", "--yes")
    assert (found.command, found.arguments, found.settings.without, found.settings.yes) == (
        "restart",
        (),
        "host-b",
        True,
    )


def test_a_flag_may_stand_before_its_command_or_behind_it() -> None:
    for words in (["--agent", "h:1", "stack", "worker:1"], ["stack", "worker:1", "--agent", "h:1"]):
        found = configured(*words)
        assert (found.command, found.arguments, found.settings.agent) == ("stack", ("worker:1",), Address("h", 1))


def test_a_program_keeps_its_own_flags() -> None:
    found = configured("run", "--workers", "2", "--", "train", "--out", "x", "--", "y")
    assert (found.program, found.settings.workers) == (("train", "--out", "x", "--", "y"), 2)


def test_each_setting_is_a_flag_of_a_command_or_of_watching() -> None:
    for name, option in OPTIONS.items():
        with_flag = [command.name for command in (WATCH, *COMMANDS) if command.options.get(name) == option]
        assert set(with_flag) - {"config"}, f"{name} is a flag of no command"


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_help_of_a_command_has_its_flags_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        invocation("--help")
    assert f"\n    {name} " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        invocation(name, "--help")
    shown = set(re.findall(r"^  --([a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    (command,) = [command for command in COMMANDS if command.name == name]
    assert {flag.replace("-", "_") for flag in shown} == set(command.options)
