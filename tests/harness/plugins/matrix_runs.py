"""Runs of the matrix: the file that keeps when each of its tests ran last.

The tests that `matrix` marks take an hour together, so CI runs a tenth of their cases for each commit (turns.py).
`scripts/matrix` runs all of a test's cases and writes its row in tests/matrix.md; `scripts/matrix --check` fails where
a row is too old.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path("tests/matrix.md")
OLDEST_DAYS, OLDEST_COMMITS = 60, 300
"""Age from which a row is too old. The CI of ten commits has run every case once, so that a row is a second look, by
one machine in one piece: at 60 days a fault is still found in the release in which it was made."""
KNOWN_FROM = date(2027, 1, 27)
"""Day from which no row may be `not known`: 60 days after the file was begun."""
NOT_KNOWN = "not known"
HEAD = """\
# The matrix

Last runs of the tests that take too long for every run of CI. Written by `scripts/matrix`, read by `scripts/matrix
--check` ([how](../CONTRIBUTING.md#the-matrix)).

| test | date | commit | cases | seconds | result |
| --- | --- | --- | --- | --- | --- |
"""


class Row(NamedTuple):
    """Last run of one test, with all its cases of the matrix."""

    test: str
    day: str = NOT_KNOWN
    commit: str = "-"
    cases: int = 0
    seconds: float = 0.0
    result: str = NOT_KNOWN

    def __str__(self) -> str:
        return f"| {self.test} | {self.day} | {self.commit} | {self.cases} | {self.seconds:.0f} | {self.result} |"


def read_rows(text: str) -> dict[str, Row]:
    """Return the rows of the file by their tests."""
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| tests/")]
    rows = (Row(test, day, commit, int(cases), float(s), result) for test, day, commit, cases, s, result in cells)
    return {row.test: row for row in rows}


def faults(tests: Collection[str], rows: dict[str, Row], root: Path, today: date) -> Iterator[str]:
    """Yield what is wrong with the rows: one that is missing, too old, not known any more, or of a test that failed."""
    for test in sorted({*tests, *rows}):
        row = rows.get(test)
        if row is None:
            yield f"{test}: it has no row"
        elif test not in tests:
            yield f"{test}: no test of the matrix has this name"
        elif row.day == NOT_KNOWN:
            if today >= KNOWN_FROM:
                yield f"{test}: it is not known when it ran last"
        elif row.result.startswith("failed"):
            yield f"{test}: {row.result} on {row.day}"
        elif (days := (today - date.fromisoformat(row.day)).days) > OLDEST_DAYS:
            yield f"{test}: ran {days} days ago"
        elif (commits := _commits_since(row.commit, root)) > OLDEST_COMMITS:
            yield f"{test}: ran {commits} commits ago"


def test_of(name: str) -> str:
    """Return the test of a case: its name without parameters."""
    return name.partition("[")[0]


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout.strip()


def _commits_since(commit: str, root: Path) -> int:
    """Count the commits since one; 0 where this checkout does not have it, so that the date decides."""
    return int(_git(root, "rev-list", "--count", f"{commit}..HEAD") or 0)


class MatrixRuns:
    """Plugin of pytest that keeps how the tests of the matrix ended."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_kept = config.getoption("matrix_keep")
        self._is_checked = config.getoption("matrix_check")
        self._ends = time.monotonic() + 60 * (config.getoption("matrix_minutes") or 1e6)
        self._root, self._file = config.rootpath, config.rootpath / FILE
        self._rows = self._read()
        self._cases: Counter[str] = Counter()
        self._results: dict[str, dict[str, str]] = defaultdict(dict)
        self._seconds: Counter[str] = Counter()

    def _read(self) -> dict[str, Row]:
        return read_rows(self._file.read_text() if self._file.exists() else "")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Let the tests whose rows are oldest begin."""
        self._cases = Counter(test_of(item.nodeid) for item in items if item.get_closest_marker("matrix"))
        yield
        if self._is_kept:
            items.sort(key=lambda item: self._day(test_of(item.nodeid)))

    def _day(self, test: str) -> str:
        day = self._rows.get(test, Row(test)).day
        return "" if day == NOT_KNOWN else day

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        tests = {test_of(item.nodeid) for item in session.items}
        if self._is_checked and (found := list(faults(tests, self._rows, self._root, datetime.now(UTC).date()))):
            raise pytest.UsageError("\n".join(["tests/matrix.md: run ./scripts/matrix, and commit it", *found]))

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Begin no test after the end of the time; one that has begun goes through all its cases."""
        is_over = time.monotonic() > self._ends and test_of(item.nodeid) not in self._results
        return True if is_over else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = test_of(report.nodeid)
        self._seconds[test] += report.duration
        if report.failed or report.when == "call" or report.skipped:
            self._results[test][report.nodeid] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the rows of the tests all of whose cases have run; a test that was asked for by its case has others."""
        if not self._is_kept or session.config.option.collectonly or hasattr(session.config, "workerinput"):
            return
        day, commit = datetime.now(UTC).date().isoformat(), _git(self._root, "rev-parse", "--short=10", "HEAD")
        rows, in_part = self._read(), {test_of(each) for each in session.config.args if "[" in each}
        for test, results in self._results.items():
            if len(results) == self._cases[test] and test not in in_part:
                rows[test] = Row(test, day, commit, len(results), self._seconds[test], _result(results))
        self._file.write_text(HEAD + "".join(f"{rows[test]}\n" for test in sorted(rows)))


def _result(results: dict[str, str]) -> str:
    """Return `passed`, or how many of the cases failed or were skipped."""
    number = Counter(results.values())
    words = [f"{outcome}: {number[outcome]}" for outcome in ("failed", "skipped") if number[outcome]]
    return ", ".join(words) or "passed"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("matrix")
    group.addoption("--matrix-keep", action="store_true", help="keep when each test ran in tests/matrix.md")
    group.addoption("--matrix-minutes", type=float, metavar="N", help="begin no further test after N minutes")
    group.addoption("--matrix-check", action="store_true", help="fail where a row of tests/matrix.md is too old")
