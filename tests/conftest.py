"""Fixtures of all tests: they, and the consoles that they start, stay away from what this user's own console keeps.

Beside them options about the matrix and turns, the limit of each test, what a report may hold, and the count of
reruns.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from plugins import internal_errors, limits, matrix_runs, turns


def pytest_addoption(parser: pytest.Parser) -> None:
    matrix_runs.add_options(parser)
    turns.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts what it puts into the background without SIGINT, and the programs of tests would have it so, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # MLflow would tell its makers of what tests do.
    os.environ["DO_NOT_TRACK"] = "true"
    config.pluginmanager.register(matrix_runs.MatrixRuns(config))
    config.pluginmanager.register(turns)
    config.pluginmanager.register(limits)
    config.pluginmanager.register(internal_errors.InternalErrors())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what is no UTF-8 in captured logs: a worker of xdist cannot send it, and ends the whole run."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add the tests that needed a second run to the file that scripts/test prints in the end."""
    reran = [report.nodeid for report in terminalreporter.getreports("rerun")]
    is_worker = hasattr(terminalreporter.config, "workerinput")
    if "TFSCALE_RERUNS" in os.environ and reran and not is_worker:
        with Path(os.environ["TFSCALE_RERUNS"]).open("a") as file:
            file.writelines(f"{name}\n" for name in reran)


@pytest.fixture(scope="session", autouse=True)
def _state_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the fixtures that several tests share a state folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a state folder of its own: baselines of one would be compared with what another does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
