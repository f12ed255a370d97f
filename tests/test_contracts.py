"""The import contracts hold, and each fails when it is broken."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("core", "agent", "console", "trainer", "protos")
INSTALLED = [str(ROOT / source) for source in SOURCES]
"""Path of the finder by which an editable installation finds the same namespace packages: only the copy may count."""
LINT = (
    f"import sys; sys.path = [path for path in sys.path if path not in {INSTALLED}]; "
    "from importlinter.cli import lint_imports_command as lint; sys.exit(lint())"
)


def python(*arguments: str, tree: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(tree / source) for source in SOURCES)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a copy of the sources and their contracts."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for source in SOURCES:
        shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.fixture
def add(tree: Path) -> Callable[[str, str], None]:
    """Add an import to a module of the copy."""

    def append(module: str, line: str) -> None:
        path = tree / f"{module}.py"
        assert path.exists(), f"{module} has moved: name it anew"
        with path.open("a") as file:
            file.write(f"\n{line}\n")

    return append


def test_the_contracts_hold(tree: Path) -> None:
    result = python("-c", LINT, tree=tree)
    assert result.returncode == 0, result.stdout
    assert " 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/tfscale/core/cluster/task", "import tfscale.agent.supervision.shim", "The programs stand on core"),
        ("agent/tfscale/agent/wire", "import tfscale.console.cli", "The programs stand on core"),
        (
            "console/tfscale/console/wire/frames",
            "import tfscale.trainer.probe.entry.attach",
            "The programs stand on core",
        ),
        ("console/tfscale/console/wire/frames", "import tensorflow", "Only the trainer imports TensorFlow"),
        ("console/tfscale/console/wire/frames", "import textual.app", "Only the console's tui imports Textual"),
        ("core/tfscale/core/records/frame", "import google.protobuf.message", "Only the wire modules"),
        ("agent/tfscale/agent/telemetry/probe_reports", "import tfscale.v1.report_pb2", "Only the wire modules"),
        (
            "console/tfscale/console/recording/recording_reader",
            "import google.protobuf.message",
            "Only the wire modules",
        ),
        ("trainer/tfscale/trainer/probe/report/reporter", "import tfscale.v1.report_pb2", "Only the wire modules"),
        ("console/tfscale/console/transport/commands", "import tfscale.v1.agent_pb2", "Only the wire modules"),
        ("agent/tfscale/agent/serving/agent_server", "import tfscale.v1.agent_pb2_grpc", "Only the wire modules"),
        ("agent/tfscale/agent/supervision/shim", "import psutil", "need the standard library alone"),
        (
            "agent/tfscale/agent/cluster/journal",
            "import tfscale.agent.recovery.incident",
            "The agent's folders stand on one another",
        ),
        ("agent/tfscale/agent/supervision/supervisor", "import tfscale.agent.wire", "need the standard library alone"),
        ("trainer/tfscale/trainer/probe/entry/site/sitecustomize", "import numpy", "need the standard library alone"),
        (
            "console/tfscale/console/analysis/tasks/hangs",
            "import tfscale.console.analysis.steps.phases",
            "work without numpy",
        ),
        (
            "trainer/tfscale/trainer/probe/rows/row_buffer",
            "import tfscale.trainer.probe.graph.structures",
            "only those below them on the way of a row",
        ),
        ("trainer/tfscale/trainer/compat/repairs", "import psutil", "The guest in the script's process"),
        ("core/tfscale/core/wire/fields", "import google.protobuf", "The guest in the script's process"),
        ("agent/tfscale/agent/telemetry/sampler", "import numpy", "The agent stays small"),
        ("agent/tfscale/agent/life/daemon", "import tfscale.console.analysis.findings", "The programs stand on core"),
    ],
)
def test_a_broken_contract_is_seen(
    tree: Path, add: Callable[[str, str], None], module: str, line: str, contract: str
) -> None:
    add(module, line)
    result = python("-c", LINT, tree=tree)
    assert result.returncode == 1, result.stdout + result.stderr
    assert any(contract in row and "BROKEN" in row for row in result.stdout.splitlines())


@pytest.mark.parametrize(
    "module",
    ["tfscale.agent.supervision.shim", "tfscale.agent.supervision.supervisor", "tfscale.console.analysis.tasks.hangs"],
)
def test_the_smallest_modules_start_without_any_package(module: str) -> None:
    result = python("-S", "-c", f"import {module}", tree=ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("program", "place"), [("agent", "cli.py"), ("console", "console_log.py")])
def test_one_place_alone_prints_on_stderr(program: str, place: str) -> None:
    printing = [path.name for path in (ROOT / program).rglob("*.py") if "file=sys.stderr" in path.read_text()]
    assert printing == [place]
