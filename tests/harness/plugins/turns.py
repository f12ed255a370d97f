"""Turns of the tests that take too long for every run of CI: for each commit one part of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from plugins.matrix_runs import FILE, Row, read_rows, test_of

USUAL_SECONDS = 15.0
"""Seconds of a case that has not been timed: the median of those that have."""


def turn(cases: Mapping[str, str], rows: Mapping[str, Row], commit: str, parts: int) -> set[str]:
    """Return the cases of a commit's turn; `cases` has the group of each, and those of one group run together.

    The dearest groups are dealt out first, so that all turns take as long.
    """
    seconds: Counter[str] = Counter()
    for case, group in cases.items():
        row = rows.get(test_of(case))
        seconds[group] += row.seconds / row.cases if row is not None and row.cases else USUAL_SECONDS
    dealt = sorted(seconds, key=lambda group: (-seconds[group], group))
    chosen = set(dealt[int(commit[:8], 16) % parts :: parts])
    return {case for case, group in cases.items() if group in chosen}


def group_of(item: pytest.Item) -> str:
    """Return the group of a case: the one that its mark of the matrix names, else the case itself.

    Outside the matrix it is the file, because tests of a file share what takes long.
    """
    marker = item.get_closest_marker("matrix")
    return item.nodeid.partition("::")[0] if marker is None else marker.kwargs.get("group", item.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests whose turn it is, after those that the words on the command line chose."""
    if of := config.getoption("turn"):
        commit, parts = of.split("/")
        rows = read_rows(path.read_text() if (path := config.rootpath / FILE).exists() else "")
        chosen = turn({item.nodeid: group_of(item) for item in items}, rows, commit, int(parts))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--turn", metavar="COMMIT/PARTS", help="only the tests whose turn of so many it is at this commit")
