"""Facts about the terminal that decide how the screens begin."""

from __future__ import annotations

import pytest
from tfscale.console.tui.launch import speaks_utf8


@pytest.mark.parametrize(
    ("environment", "is_utf8"),
    [
        ({}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "C"}, False),
        ({"LC_ALL": "", "LANG": "en_GB.UTF-8"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_GB.UTF-8"}, False),
    ],
)
def test_the_first_locale_that_is_set_counts(environment: dict[str, str], is_utf8: bool) -> None:
    assert speaks_utf8(environment) is is_utf8
