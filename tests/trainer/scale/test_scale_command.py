"""Command lines of `tfscale-train scale`: what is wrong in one line, plans in their folder, reports without runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tfscale.trainer import cli
from tfscale.trainer.compare.measured_run import MeasuredRun

SCRIPT = ("--", "python", "train.py")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print()")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a program, or write the command"),
        (("digits", *SCRIPT), "digits: give a program, or a command after --, not both"),
        (("no-such",), "there is no program 'no-such'"),
        (("--", "no-such-program"), "no-such-program: there is no such command"),
        (("--what", *SCRIPT), "unrecognized arguments: --what"),
        (("--sizes", "2", *SCRIPT), "'2': two different numbers at least"),
        (("--sizes", "1,x", *SCRIPT), "'1,x': write numbers from 1 to 64"),
        (("--sizes", "1,65", *SCRIPT), "'1,65': write numbers from 1 to 64"),
        (("--steps", "3", *SCRIPT), "--steps 3: at least 20"),
        (("--weak", "--strong", *SCRIPT), "--strong: not allowed with argument --weak"),
        (("digits", "--strong"), "--strong: say the batch of all workers together"),
        (("digits", "--strong", "--global-batch", "64", "--batch", "8"), "--batch: with --strong"),
        (("digits", "--strong", "--global-batch", "30"), "--global-batch 30: cannot be divided by 4 workers"),
        (("digits", "--global-batch", "64"), "--global-batch 64: a batch of all workers together needs --strong"),
        ((*SCRIPT, "{batch}"), "need each other"),
        (("--strong", "--global-batch", "64", *SCRIPT), "need each other"),
        (("digits", "--workers", "2"), "--workers: is what is varied; give --sizes"),
        (("digits", "--hosts", "1,2"), "--hosts: say how many workers they have together"),
        (("digits", "--hosts", "1,2", "--workers", "2"), "--hosts: this machine is one host; with --link"),
        (("digits", "--hosts", "1,3", "--workers", "4", "--link", "1mbit"), "4: cannot be divided by 3 hosts"),
        (("digits", "--hosts", "1,2", "--sizes", "1,2"), "--sizes: not allowed with argument --hosts"),
        (("digits", "--strategy", "mirrored"), "--workers: mirrored does not take it"),
        (("plan", "--budget", "1m", *SCRIPT), "scale plan: does not take --budget"),
        (("run", "2", "--sizes", "1,2"), "scale run: does not take --sizes"),
        (("run", "2", "--plot", "-"), "scale run: does not take --plot"),
        (("--proposal", "a.pdf", *SCRIPT), "'a.pdf': a proposal is a file.md or a file.html"),
        (("--link", "fast", *SCRIPT), "'fast' is no link: write for example 200mbit"),
        (("run", "2", "--link", "1mbit"), "scale run: does not take --link"),
        (("--cluster", "c.toml", *SCRIPT), "--cluster: say how its hosts are reached, for example --launcher"),
        (("--launcher", "no-such {workers}", *SCRIPT), "--launcher no-such: there is no such command"),
        (("--launcher", "'", *SCRIPT), "No closing quotation"),
        (("--launcher", "env", "--link", "1mbit", *SCRIPT), "--link: is of this machine, and --launcher starts"),
        (("--launcher", "env", "--cluster", "c.toml", *SCRIPT), "c.toml: no such cluster file"),
        (("run", "2", "--launcher", "env"), "scale run: does not take --launcher"),
        (("--plot", "a.gif", *SCRIPT), "'a.gif': a plot is a file.png, a file.svg, or -"),
        (("run", "2", *SCRIPT), "scale run: does not take python train.py"),
        (("report", "digits"), "scale report: does not take digits"),
        (("run", "2"), "scaling/plan.json: No such file or directory; make the plan"),
        (("report",), "scaling/plan.json: No such file or directory; make the plan"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    words: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["scale", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line
    assert [path.name for path in folder.iterdir()] == ["train.py"]


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_a_link_that_the_kernel_cannot_make_leaves_no_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delay = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "5ms"]
    if not subprocess.run(delay, check=False, capture_output=True).returncode:
        pytest.skip("this kernel makes packets late")
    assert cli.main(["scale", "--link", "50mbit,5ms", *SCRIPT]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--link: packets cannot be made 5.0 ms late here: leave that out, or load the module sch_netem" in line
    assert [path.name for path in folder.iterdir()] == ["train.py"]


def test_a_plan_has_a_job_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scale", "plan", "--sizes", "4,1,2", "--cores", "1", *SCRIPT]) == 0
    first, *jobs = capsys.readouterr().out.splitlines()
    assert first == "scaling/plan.json: weak scaling, 3 runs a size, on this machine, 1 core a worker"
    verbs = ["run 1", "run 2", "run 4", "report"]
    assert jobs == [f"tfscale-train scale {verb}" for verb in verbs]
    assert cli.main(["scale", "report", "--json", "out.json"]) == 5
    told = capsys.readouterr().out
    assert "not all runs are made yet of: 1, 2, 4" in told and "two sizes at least are needed" in told
    assert json.loads(Path("out.json").read_text())["forecast"] is None
    assert cli.main(["scale", "report", "--plot", "a.svg"]) == 5
    assert "no size is measured: there is nothing to show" in capsys.readouterr().err and not Path("a.svg").exists()


@pytest.mark.parametrize(
    ("word", "said"),
    [("3", "scale run 3: scaling/plan.json has the sizes 1, 2"), ("x", "scale run x: scaling/plan.json has")],
)
def test_a_job_runs_a_size_of_the_plan(word: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scale", "plan", "--sizes", "1,2", *SCRIPT]) == 0
    assert cli.main(["scale", "run", word]) == 2
    assert said in capsys.readouterr().err


def test_another_program_is_another_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scale", "plan", *SCRIPT]) == 0
    assert cli.main(["scale", "plan", *SCRIPT]) == 0  # the same one
    Path("train.py").write_text("print(1)")
    assert cli.main(["scale", "run", "1"]) == 2
    assert "train.py: has changed since the plan was made" in capsys.readouterr().err
    assert cli.main(["scale", "plan", *SCRIPT]) == 2
    assert "scaling: holds another plan" in capsys.readouterr().err
    Path("scaling/plan.json").write_text("{}")
    assert cli.main(["scale", "report"]) == 2
    assert "scaling/plan.json: is no plan; make it anew" in capsys.readouterr().err


def test_a_plan_takes_further_sizes_and_runs_and_no_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scale", "plan", "--sizes", "1,2", "--runs", "2", "--cores", "1", *SCRIPT]) == 0
    assert cli.main(["scale", "plan", "--sizes", "1,2,4", "--runs", "3", "--cores", "1", *SCRIPT]) == 0
    capsys.readouterr()
    assert cli.main(["scale", "report"]) == 5
    assert "not all runs are made yet of: 1, 2, 4" in capsys.readouterr().out
    for fewer in (("--sizes", "1,2"), ("--sizes", "1,2,4", "--runs", "2"), ("--sizes", "1,2,4", "--strong")):
        assert cli.main(["scale", "plan", *fewer, "--cores", "1", *SCRIPT]) == 2
        assert "scaling: holds another plan" in capsys.readouterr().err


def test_a_launcher_that_fails_is_the_reason_of_its_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "launch").write_text("#!/bin/sh\necho no host $1 is there\nexit 7\n")
    (folder / "launch").chmod(0o755)
    words = ("--launcher", "./launch {workers}", "--sizes", "1,2", "--runs", "1", *SCRIPT)
    assert cli.main(["scale", *words]) == 1
    told = capsys.readouterr().out
    assert "1 worker: exit status 7" in told and "2 workers: exit status 7" in told
    assert sorted(path.name for path in (folder / "scaling").iterdir()) == ["plan.json", "size-1.jsonl", "size-2.jsonl"]


def keep_runs(sizes: Mapping[int, float], **facts: Any) -> None:
    """Keep three runs of each size, with steps of so many seconds beside 3 % of noise."""
    for size, step in sizes.items():
        runs = [
            MeasuredRun(
                str(size),
                number,
                steps=60,
                step=step * noise,
                phases={"compute": 0.01, "reduce": step - 0.01},
                examples=64 * size,
                reduced=940_584,
                has_own_cores=True,
                is_joined=True,
                **facts,
            )
            for number, noise in enumerate((1.0, 0.97, 1.03))
        ]
        Path(f"scaling/size-{size}.jsonl").write_text("".join(json.dumps(asdict(run)) + "\n" for run in runs))


def test_a_proposal_says_what_was_measured_on_what_and_what_was_not(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--sizes", "1,2,4,8", "--link", "50mbit", "--", "python", "train.py", "--name", "<b>|x*")
    assert cli.main(["scale", "plan", *words]) == 0
    known = {"began": 1.79e9, "load": 2.5, "machine": "2 cores, Zen 4, Linux 6.1", "software": {"tensorflow": "2.21.0"}}
    keep_runs({1: 0.01, 2: 0.011, 4: 0.012}, **known)
    assert cli.main(["scale", "report", "--proposal", "a.md"]) == 5
    told = capsys.readouterr().out
    assert cli.main(["scale", "report", "--proposal", "a.html", "--plot-theme", "dark"]) == 5
    page, html = Path("a.md").read_text(), Path("a.html").read_text()
    for words_of in (page, html):
        for fact in ("2 cores, Zen 4, Linux 6.1", "2.21.0", "2.5 to 2.5 processes", "tfscale 0", "940,584 B"):
            assert fact in words_of
        missing = words_of[words_of.rindex("Not measured") :]
        for fact in (
            "8 workers: not all runs are made",
            "more than 4 workers",
            "GPUs",
            "a real network",
            "what is learned",
        ):
            assert fact in missing
    assert r"python train.py --name '\<b\>\|x\*'" in page and "--name &#39;&lt;b&gt;|x*&#39;" in html
    assert "![Weak scaling: python train.py" in page and "(a.svg)" in page and "<svg" in Path("a.svg").read_text()
    assert html.count("<svg") == 1 and "#14181d" in html
    forecast = next(line for line in told.splitlines() if line.startswith("      8  forecast"))
    assert f"| {forecast.split()[3]} |" in page
    assert sorted(path.name for path in Path().iterdir()) == ["a.html", "a.md", "a.svg", "scaling", "train.py"]


def test_a_proposal_of_no_measured_size_is_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["scale", "plan", *SCRIPT]) == 0
    assert cli.main(["scale", "report", "--proposal", "a.md"]) == 5
    assert "there is nothing to show" in capsys.readouterr().err and not Path("a.md").exists()
