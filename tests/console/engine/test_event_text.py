"""Lines of the event pane."""

from __future__ import annotations

import fakes
import pytest
from tfscale.console.engine.event_text import progress_text, status_text
from tfscale.console.engine.events import CommandProgressed
from tfscale.core.records import Stage, TaskState


def test_a_status_names_its_attempt_and_reason() -> None:
    assert status_text(fakes.status(TaskState.RUNNING, generation=2, attempt=3)) == "running, generation 2, attempt 3"
    assert status_text(fakes.status(TaskState.PENDING, reason="held")) == "pending (held)"


@pytest.mark.parametrize(
    ("stage", "generation", "message", "text"),
    [
        (Stage.PLANNED, 2, "", "restart planned, generation 2"),
        (Stage.FAILED, 2, "refused", "restart failed: refused"),
        (Stage.DONE, 2, "", "restart done, generation 2"),
        (Stage.WORKING, 0, "2 of 3", "restart: 2 of 3"),
    ],
)
def test_progress_names_the_command(stage: Stage, generation: int, message: str, text: str) -> None:
    assert progress_text(CommandProgressed(fakes.NOW, "restart", stage, (), generation, message)) == text
