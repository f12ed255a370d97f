"""Report of a pipeline's steps to the probe, which shows each stage by itself."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tfscale.trainer.model_parallelism.schedules import Span
from tfscale.trainer.probe.entry.attach import attached


def report_step(spans: Sequence[Sequence[Span]]) -> None:
    """Report a step of a pipeline to the probe, if there is one, by the passes of each stage."""
    if (probe := attached()) is None:
        return
    now = time.time()
    since_boot = time.perf_counter() - now
    probe.stages.add([[(begin - since_boot, end - since_boot) for begin, end in stage] for stage in spans], now)
