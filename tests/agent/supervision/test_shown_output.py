"""Copy of the task's output on stdout."""

from __future__ import annotations

import pytest
from tfscale.agent.supervision.shown_output import TaskOutput

_STAMP = b"--- tfscale: 2026-11-26T00:00:00Z "
_LOG = _STAMP + b"begun\nEpoch 1\n\n--- of mine\r50 %\r100 %\n--- tfscale: mine\n" + _STAMP + b"ended\n"


@pytest.mark.parametrize("size", [1, 2, 5, 13, 1000])
def test_only_what_the_task_wrote_is_shown_however_it_arrives(size: int) -> None:
    output = TaskOutput()
    pieces = [output.strip(_LOG[at : at + size]) for at in range(0, len(_LOG), size)]
    assert b"".join(pieces) == b"Epoch 1\n\n--- of mine\r50 %\r100 %\n--- tfscale: mine\n"


def test_a_line_without_an_end_is_shown_at_once() -> None:
    output = TaskOutput()
    assert output.strip(b"\r 10 %") == b"\r 10 %"
    assert output.strip(_STAMP + b"in the midst of a line\n") == _STAMP + b"in the midst of a line\n"


def test_the_line_end_that_the_shim_adds_is_not_shown() -> None:
    output = TaskOutput()
    ended = b"\n" + _STAMP + b"ended (after a line without an end)\n" + _STAMP + b"begun\n"
    assert output.strip(b"trained") + output.strip(ended) + output.strip(b"again\n") == b"trainedagain\n"
