"""Variables in turn and by size on two parameter servers, as the console tells it."""

from __future__ import annotations

from typing import Any

import pytest
from training.train_command import seen

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

WORDS = ("digits", "--strategy", "parameter-server", "--servers", "2", "--placement")


def told(snapshot: Any) -> list[str]:
    return [each["sentence"] for each in snapshot["diagnoses"] if each["kind"] == "uneven_servers"]


def test_all_kernels_in_turn_are_on_the_first_server_and_by_size_they_are_not() -> None:
    """The largest kernel has 524 of 753 kB, so that no server can have less than 30 %."""
    (uneven,) = told(seen(*WORDS, "in-turn", until=lambda snapshot: bool(told(snapshot))))
    assert uneven.startswith("ps:0 moves 99.") and "that workers exchange with 2 servers in a step" in uneven
    trains = lambda snapshot: "steps/s" in snapshot["headline"]  # noqa: E731
    assert told(seen(*WORDS, "by-size", until=trains)) == []
