"""Longest time of a test: one that hangs ends with the stacks of all its threads, and the others go on."""

from __future__ import annotations

import pytest

USUAL = 300.0
"""Seconds of a test with its fixtures: ten times the longest of every day, on cores that others use, too."""
LONG = 1800.0
"""Seconds of a test that `slow` or `matrix` marks."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its limit, unless it has one of its own, or the option --timeout is given."""
    if not config.pluginmanager.hasplugin("timeout"):
        return  # an environment of before this limit
    for item in items:
        if item.get_closest_marker("timeout") is None and config.getoption("timeout") is None:
            is_long = any(item.get_closest_marker(name) for name in ("slow", "matrix"))
            item.add_marker(pytest.mark.timeout(LONG if is_long else USUAL))
