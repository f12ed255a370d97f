"""The probe's second way in, installed into a real virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tfscale.agent import cli
from tfscale.agent.probe_install import site_packages
from tfscale.agent.supervision.task_environment import probe_portions, probe_site

SAY = "import os, sys; print('tfscale_way_in' in sys.modules, os.environ.get('TFSCALE_TASK'), sys.path[0])"


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Return the Python of a new virtual environment."""
    venv.create(tmp_path / "venv")
    return str(tmp_path / "venv" / "bin" / "python")


@pytest.fixture
def installed(python: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["install-probe", "--python", python]) == 0
    assert capsys.readouterr().out.startswith(f"installed {site_packages(python)}/tfscale_probe.pth; to remove it: ")
    return python


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **(variables or {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def agent() -> dict[str, str]:
    """Return variables of an agent."""
    return {
        "TFSCALE_REPORT": "/nowhere",
        "TFSCALE_PROBE_PATH": os.pathsep.join(probe_portions()),
        "TFSCALE_TASK": "worker:3",
        "PYTHONPATH": str(probe_site()),
    }


@pytest.mark.parametrize("flags", [[], ["-I"], ["-E"], ["-s"]], ids=str)
def test_it_enters_a_python_of_an_agent_whatever_its_flags(installed: str, flags: list[str]) -> None:
    done = run([installed, *flags, "-c", SAY], agent())
    assert done.stdout.startswith("True worker:3 ") and done.stderr == ""


def test_it_enters_where_the_environment_was_cleaned(installed: str) -> None:
    done = run(["sh", "-c", f'env -i {installed} -c "$0"; true', SAY], agent())
    assert done.stdout.startswith("True worker:3 ") and done.stderr == ""


def test_it_leaves_a_python_that_no_agent_started_as_it_was(python: str) -> None:
    say = "import sys; print(sorted(sys.modules), sys.path, sys.meta_path, sys.excepthook)"
    before = run([python, "-c", say]).stdout.replace("0x", "")
    cli.main(["install-probe", "--python", python])
    after = run([python, "-c", say]).stdout
    assert "tfscale_way_in" not in after
    assert after.count("'tfscale_probe'") == 1 and after.count("[") == before.count("[")
    assert "'mmap'" not in after


def test_the_path_of_the_script_is_its_own(installed: str) -> None:
    done = run(
        [installed, "-E", "-c", "import sys; print([folder for folder in sys.path if 'entry' in folder])"], agent()
    )
    assert done.stdout == "[]\n"


def test_both_ways_in_enter_once(installed: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    variables = agent() | {"PYTHONPATH": f"{probe_site()}:{tmp_path}"}
    say = "import sys; print(sum('Portions' in str(finder) for finder in sys.meta_path))"
    assert run([installed, "-c", say], variables).stdout == "mine\n1\n"


def test_it_is_removed_again(installed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install-probe", "--python", installed, "--remove"]) == 0
    assert capsys.readouterr().out == f"removed {site_packages(installed)}/tfscale_probe.pth\n"
    assert list(site_packages(installed).glob("tfscale*")) == []
    assert run([installed, "-E", "-c", SAY], agent()).stdout.startswith("False ")
    assert cli.main(["install-probe", "--python", installed, "--remove"]) == 0
    assert capsys.readouterr().out.startswith("nothing to remove in ")


@pytest.mark.parametrize(
    ("python", "why"),
    [("/no/python", "/no/python: there is no such Python"), ("/bin/false", "/bin/false: is no Python that runs here")],
)
def test_what_is_no_python_is_refused_in_one_line(python: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install-probe", "--python", python]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tfscale-agent: {why}") and said.count("\n") == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_packages_that_cannot_be_written_are_told(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    site_packages(python).chmod(0o500)
    assert cli.main(["install-probe", "--python", python]) == 2
    assert "name a Python with --python whose packages are yours" in capsys.readouterr().err


def test_the_program_of_the_installed_agent_has_it() -> None:
    done = run([sys.executable, "-m", "tfscale.agent.cli", "install-probe", "--help"], dict(os.environ))
    assert done.stdout.startswith("usage: tfscale-agent install-probe ")
