"""Copy of the task's output on stdout."""

from __future__ import annotations

import pytest
from tfscale.agent.supervision.shown_output import TaskOutput

_LOG = b"--- tfscale: 2026-11-26T00:00:00Z begun\nEpoch 1\n\n--- of mine\r50 %\r100 %\n--- tfscale: ended\n"


@pytest.mark.parametrize("size", [1, 2, 5, 13, 1000])
def test_only_what_the_task_wrote_is_shown_however_it_arrives(size: int) -> None:
    output = TaskOutput()
    pieces = [output.strip(_LOG[at : at + size]) for at in range(0, len(_LOG), size)]
    assert b"".join(pieces) == b"Epoch 1\n\n--- of mine\r50 %\r100 %\n"


def test_a_line_without_an_end_is_shown_at_once() -> None:
    output = TaskOutput()
    assert output.strip(b"\r 10 %") == b"\r 10 %"
    assert output.strip(b"--- tfscale: in the midst of a line\n") == b"--- tfscale: in the midst of a line\n"
