"""State and flags of a task as a few words, with their severity for the colour."""

from __future__ import annotations

from tfscale.console.analysis.condition.process_doing import Doing
from tfscale.console.analysis.finding_kinds import Group, kind_of
from tfscale.console.engine.events import LinkState
from tfscale.console.engine.model import TaskView
from tfscale.console.tui.widgets.appearance.theme import Glyphs, severity_sign
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.probe_status import ActivityKind
from tfscale.core.records.task_status import Exit, TaskState
from tfscale.core.text import elapsed_briefly, exit_phrase, signal_name, times

_LINK_STATES = {
    LinkState.CONNECTING: "connecting",
    LinkState.DOWN: "agent down",
    LinkState.LEFT: "agent left",
    LinkState.MOVED: "placed anew",
    LinkState.REFUSED: "refused",
    LinkState.VERSION: "version",
    LinkState.VACANT: "vacant",
}

_ACTIVITIES = {
    ActivityKind.COMPILE: "compiling",
    ActivityKind.CHECKPOINT: "saving",
    ActivityKind.EVALUATION: "evaluating",
    ActivityKind.IDLE: "idle",
}


def state_text(view: TaskView, glyphs: Glyphs) -> tuple[str, str]:
    """Return sign and words of the state, and their severity: `● running`, `✖ SIGKILL`, `◌ agent down`."""
    if view.is_stale and not view.has_ended:
        severity = "info" if view.link.state is LinkState.CONNECTING else "warning"
        return f"{glyphs.lost} {_LINK_STATES[view.link.state]}", severity
    status = view.status
    match status.state if status else None:
        case TaskState.RUNNING if view.frame is not None and view.frame.is_stopped:
            return f"{glyphs.caution} stopped (T)", "warning"
        case TaskState.RUNNING if view.waits_for is not None:
            return f"{glyphs.waiting} waiting", "info"
        case TaskState.RUNNING if view.awaited is not None:
            return f"{glyphs.caution} {_activity(view)}", "warning"
        case TaskState.RUNNING:
            return f"{glyphs.running} {_activity(view)}", "good"
        case TaskState.EXITED:
            return _ended(status.exit if status else None, glyphs)
        case TaskState.LOST:
            return f"{glyphs.failed} lost", "critical"
        case TaskState.STARTING | TaskState.STOPPING as passing:
            return f"{glyphs.moving} {passing}", "warning"
        case TaskState.PENDING:
            return f"{glyphs.waiting} not started", "info"
        case _:
            return f"{glyphs.lost} unknown", "info"


def _activity(view: TaskView) -> str:
    activities = view.frame.activities if view.frame else ()
    return next((_ACTIVITIES[activity.kind] for activity in activities if activity.end is None), "running")


def _ended(exit: Exit | None, glyphs: Glyphs) -> tuple[str, str]:
    if exit is not None and exit.well:
        return f"{glyphs.finished} " + ("finished" if exit.code == 0 else "stopped"), "info"
    if exit is not None and exit.signal is not None:
        return f"{glyphs.failed} {signal_name(exit.signal)}", "critical"
    return f"{glyphs.failed} {exit_phrase(exit) if exit else 'ended'}", "critical"


def flag_text(view: TaskView, now: float, glyphs: Glyphs) -> tuple[str, str]:
    """Return the worst fault of the task and its severity; empty where there is none."""
    if view.link.state is LinkState.DOWN and view.has_ended:
        return "its agent has ended", "info"
    if view.link.state is LinkState.DOWN:
        since = "" if view.link.since is None else f" {elapsed_briefly(now - view.link.since)}"
        return f"{severity_sign('warning', glyphs)} down{since}, retrying ({view.link.reason})", "warning"
    if view.link.state in _LINK_STATES and view.link.state is not LinkState.CONNECTING:
        return f"{severity_sign('warning', glyphs)} {view.link.reason}", "warning"
    worst = next(iter(view.diagnoses), None)
    if view.awaited is not None and (worst is None or kind_of(worst).group in (Group.PACE, Group.STANDSTILL)):
        return _waited_for(view, view.awaited, glyphs)
    if worst is not None:
        return f"{severity_sign(worst.severity, glyphs)} {_flag(worst)}", worst.severity
    return "", "info"


def _waited_for(view: TaskView, does: Doing, glyphs: Glyphs) -> tuple[str, str]:
    """Return the flag of a task that keeps the others waiting, and its severity."""
    severity = next((each.severity for each in view.diagnoses if kind_of(each).group is Group.STANDSTILL), "warning")
    sign, words = severity_sign(severity, glyphs), "stuck" if severity == "critical" else "waited for"
    return f"{sign} {words}: {does.brief}".rstrip(": "), severity


def _flag(diagnosis: Diagnosis) -> str:
    replica = diagnosis.subject.partition("/")[2]
    # The number of its sentence: another measure of the same slowness beside it would contradict it.
    ratio = diagnosis.number("phase_ratio") or diagnosis.number("ratio")
    if diagnosis.kind != "straggler":
        return diagnosis.kind.replace("_", " ")
    phase = diagnosis.evidence.get("phase") or diagnosis.evidence.get("cause")
    words = [replica, "slow" if ratio is None else times(ratio), phase if isinstance(phase, str) else ""]
    return " ".join(filter(None, words))
