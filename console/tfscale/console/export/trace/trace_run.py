"""Run of an engine that writes a trace to a file: all of it, or nothing."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path

from tfscale.console.engine.engine import Engine
from tfscale.console.engine.stop_condition import StopCondition
from tfscale.console.export.trace.trace_export import TraceExport
from tfscale.console.export.trace.training_steps import PATIENCE
from tfscale.console.export.whole_run import hear
from tfscale.console.wire.profile_file import ProfileFile, profile_name
from tfscale.core.errors import UsageError
from tfscale.core.files.whole_file import whole_file
from tfscale.core.text import plural

_logger = logging.getLogger(__name__)


class _NoFrameError(Exception):
    """Error for a run of which there is nothing to draw."""


def export_trace(engine: Engine, until: StopCondition, path: Path, profiles: Path | None) -> int:
    """Write what the engine tells `until` the end as a trace, with the `profiles` of tasks below a folder.

    Returns the number of frames. Raises UsageError and OSError.
    """
    found = {} if profiles is None else _profiles(profiles, [str(task) for task in engine.source.spec.tasks])
    frames = 0
    with contextlib.suppress(_NoFrameError), whole_file(path) as file:
        export = TraceExport(engine.source.spec, file, engine.source.now(), found)
        frames = hear(engine, until, export)
        export.finish()
        if not frames:
            raise _NoFrameError
    if export.left_out:
        steps = plural(export.left_out, "step")
        why = "they came more than %g s after those of the others, or a clock was set back"
        _logger.warning(f"%s left out: {why}", steps, PATIENCE)
    for each in export.outside:
        _logger.warning("%s left out: it was not taken within the recorded run", each)
    return frames


def _profiles(folder: Path, tasks: Iterable[str]) -> dict[str, list[ProfileFile]]:
    """Return the profiles that `profile --out` has fetched into a folder, by task. Raises UsageError."""
    found = {task: [ProfileFile(path) for path in folder.rglob(profile_name(task))] for task in tasks}
    if not any(found.values()):
        raise UsageError(f"--profiles {folder}: has no profile of a task, such as {profile_name('worker:0')}")
    return found
