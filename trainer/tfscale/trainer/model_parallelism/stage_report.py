"""Report of a pipeline's steps to the probe, which shows each stage by itself."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tfscale.trainer.model_parallelism.schedules import Span
from tfscale.trainer.probe.entry.attach import attached


def report_step(spans: Sequence[Sequence[Span]]) -> None:
    """Tell the probe, where there is one, of a step whose variables have just been updated, by its spans by stage."""
    if (probe := attached()) is None:
        return
    now = time.time()
    since_boot = time.perf_counter() - now
    probe.stages.add([[(begin - since_boot, end - since_boot) for begin, end in stage] for stage in spans], now)
