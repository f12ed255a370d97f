"""Steps of the stages of a pipeline, made of the passes that the program reports: pure Python, no TensorFlow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence

from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.timeline import UNKNOWN, Interval

_KEPT = 10_000
"""Steps of each stage that wait to be read."""


class StageSteps:
    """Steps of each stage. A step ends for all stages at once, when the last stage has ended its last pass.

    `compute` is a stage's time in passes, `input` its time without a pass from the first pass of any stage to the last:
    it waits for a neighbour. The rest is the time of all stages between the passes of two steps, `update` and `host`.
    """

    def __init__(self) -> None:
        self._count = 0
        self._end = self._updated = UNKNOWN
        self._steps: dict[int, deque[Step]] = {}
        self._lock = threading.Lock()

    def add(self, passes: Sequence[Sequence[Interval]], updated: float) -> None:
        """Add a step by the passes of each stage, and the time of its updates; Unix seconds."""
        begin = min(first for stage in passes for first, _ in stage)
        end = max(last for stage in passes for _, last in stage)
        update, host = self._updated - self._end, begin - self._updated
        with self._lock:
            for stage, intervals in enumerate(passes):
                busy = sum(last - first for first, last in intervals)
                step = Step(
                    sequence=self._count,
                    end=end,
                    update=update,
                    host=host,
                    input=max(0.0, end - begin - busy),
                    compute=busy,
                    reduce=UNKNOWN,
                )
                self._steps.setdefault(stage, deque(maxlen=_KEPT)).append(step)
        self._count += 1
        self._end, self._updated = end, updated

    def drain(self) -> Mapping[int, Sequence[Step]]:
        """Return the steps of each stage since the last call."""
        with self._lock:
            steps, self._steps = self._steps, {}
        return steps
