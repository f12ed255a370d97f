"""Headline: the most important sentence, and below it the remedy."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich.text import Text
from tfscale.console.analysis.finding_kinds import Group, first_step, kind_of
from tfscale.console.analysis.findings import is_calm, loss_of, one_each
from tfscale.console.analysis.first_steps import still_advice
from tfscale.console.analysis.headline import all_ended
from tfscale.console.analysis.stragglers.straggler_words import looks_slow
from tfscale.console.engine.events import CommandProgressed, LinkState
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.engine.stop_condition import has_ended_well
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.base_widgets import CulpritWanted, SnapshotLines
from tfscale.console.tui.widgets.table.culprits import named_stragglers
from tfscale.core.cluster.task import Task
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.task_status import Stage
from tfscale.core.text import clock, duration, no_contact, plural

_REASONS = 2
"""Most reasons for silence in the top line: each agent of another cluster refuses in its own words."""
_VERBS = {
    "restart": ("Restarting", "Restarted"),
    "stop": ("Stopping", "Stopped"),
    "start": ("Starting", "Started"),
    "profile": ("Profiling", "Profiled"),
}
_WHERE_TO_LOOK = "see whether its host and its agent run; the training goes on without an agent"
_FLASH = 0.6
"""Seconds for which the pane is lit up when its sentence quotes another finding."""
_MOST_LINES = 3
"""Lines of the sentence; a crash may quote a long line of a log."""


class Headline(SnapshotLines):
    """Answer to the operator: the problem, the task, the cause, since when, the cost; and below it the remedy."""

    DEFAULT_CSS = "Headline.news { background: $warning 40%; }"

    def __init__(self, *, is_above_culprits: bool = False) -> None:
        """Make the pane; above a pane that has a line for each of several culprits, it leaves out what these say."""
        super().__init__()
        self._is_above_culprits = is_above_culprits
        self._told: tuple[str, str, float] | None = None
        """Finding that the sentence quoted last."""
        self._is_first = True

    def watch_snapshot(self) -> None:
        super().watch_snapshot()
        top = self.snapshot.findings.top if self.snapshot is not None else None
        told = None if top is None or is_calm(top) else (top.kind, top.subject, top.begin)
        if told not in (None, self._told) and not self._is_first:
            self.add_class("news")
            self.set_timer(_FLASH, lambda: self.remove_class("news"))
        self._told, self._is_first = told, self.snapshot is None

    def lines(self, width: int) -> list[Text]:
        snapshot = self.snapshot
        if self._is_above_culprits and snapshot is not None and _names_several(snapshot):
            return _joint_lines(snapshot, self.appearance, width)
        return headline_lines(snapshot, self.appearance, width)

    def on_click(self) -> None:
        self.post_message(CulpritWanted())


def headline_lines(snapshot: Snapshot | None, appearance: Appearance, width: int) -> list[Text]:
    """Return the sentence in at most three lines, the suspect in grey, and the remedy in one line."""
    if snapshot is None:
        return [Text("Connecting to the agents", style=appearance.palette.dim)]
    severity, sentence = headline(snapshot)
    lines = _sentence_lines(severity, snapshot.moment + sentence, appearance, width)
    if (suspect := snapshot.findings.suspect) is not None and _beside_findings(snapshot) is None:
        _add_in_grey(lines, appearance.spell(looks_slow(suspect, snapshot.at)), appearance, width)
    if (advice := _advice(snapshot)) is not None:
        # Several stragglers have a step each; a line more for one finding would move the page.
        top = snapshot.findings.top
        most = _MOST_LINES if top is not None and "reasons" in top.evidence else 1
        wrapped = _wrapped(appearance.spell(advice), max(20, width - 2), most)
        arrow = Text(f"{appearance.glyphs.arrow} ", style=appearance.palette.parts["transfer"], no_wrap=True)
        lines.append(arrow.append(wrapped[0], style=appearance.palette.text))
        lines += [Text(f"  {line}", style=appearance.palette.text, no_wrap=True) for line in wrapped[1:]]
    return lines


def _names_several(snapshot: Snapshot) -> bool:
    return _beside_findings(snapshot) is None and len(named_stragglers(snapshot)) > 1


def _joint_lines(snapshot: Snapshot, appearance: Appearance, width: int) -> list[Text]:
    """Return who is slow since when, and what they cost together, without the clauses of each."""
    severity, sentence = headline(snapshot)
    first = named_stragglers(snapshot)[0]
    loss = loss_of(first)
    cost = "" if loss is None else f"; the cluster loses {loss:.0%}"
    return _sentence_lines(severity, f"{snapshot.moment}{sentence.partition(': ')[0]}{cost}", appearance, width)


def _sentence_lines(severity: str, sentence: str, appearance: Appearance, width: int) -> list[Text]:
    style = f"bold {appearance.severity(severity)}"
    wrapped = _wrapped(appearance.spell(sentence), max(20, width - 2))
    lines = [Text.assemble((f"{appearance.sign(severity)} ", appearance.severity(severity)), (wrapped[0], style))]
    return lines + [Text(f"  {line}", style=style) for line in wrapped[1:]]


def _add_in_grey(lines: list[Text], words: str, appearance: Appearance, width: int) -> None:
    """Add words behind the sentence where there is room: a line that comes and goes would move the page."""
    if lines[-1].cell_len + 3 + len(words) <= width:
        lines[-1].append(f"   {words}", style=appearance.palette.dim)
    else:
        grey = Text(f"  {words}", style=appearance.palette.dim, no_wrap=True)
        grey.truncate(width)
        lines.append(grey)


def _wrapped(sentence: str, width: int, most: int = _MOST_LINES) -> list[str]:
    """Wrap the sentence, with each number beside its unit."""
    together = re.sub(r"(?<=\d) (?=\S{1,3}\b|°)", "\N{NO-BREAK SPACE}", sentence)
    lines = textwrap.wrap(together, width, max_lines=most, placeholder=" ...") or [""]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _advice(snapshot: Snapshot) -> str | None:
    """Return the remedy for the headline's problem, and the number of other open diagnoses."""
    diagnoses = open_diagnoses(snapshot)
    if snapshot.command is not None or _end(snapshot) is not None or _moving(snapshot):
        return None
    top, still = snapshot.findings.top, snapshot.findings.condition.stillness
    if still is not None and top is None:
        restarts = any(view.status is not None and view.status.restart_at is not None for view in snapshot.tasks)
        return None if restarts else still_advice(still)
    if top is None or not diagnoses or diagnoses[0].kind != top.kind or diagnoses[0].subject != top.subject:
        lost = any(view.link.state is LinkState.DOWN and not _has_ended_well(view) for view in snapshot.tasks)
        return _WHERE_TO_LOOK if lost else None
    advice = first_step(diagnoses[0])
    others = [each for each in diagnoses[1:] if not _is_part_of(each, diagnoses[0])]
    if not others:
        return advice
    more = f"{len(others)} more: {others[0].subject} {others[0].kind.replace('_', ' ')}"
    more += ", ..." if len(others) > 1 else ""
    return "   ".join(filter(None, [advice, f"({more})"]))


def _is_part_of(diagnosis: Diagnosis, worst: Diagnosis) -> bool:
    """Decide whether another finding's sentence, about a lost task, includes this finding."""
    if not kind_of(worst).tells_who_ended or diagnosis.subject not in worst.named():
        return False
    return kind_of(diagnosis).stops_training or kind_of(diagnosis).group is Group.NETWORK


def open_diagnoses(snapshot: Snapshot) -> list[Diagnosis]:
    """Return the open diagnoses that are trouble, each sentence once, the most severe first."""
    return one_each(each for each in snapshot.findings.diagnoses if each.end is None and not is_calm(each))


def headline(snapshot: Snapshot) -> tuple[str, str]:
    """Return severity and sentence of the top line: a command, else silent agents, else the gravest finding."""
    findings = snapshot.findings
    worst = findings.top.severity if findings.top is not None else _calm(snapshot)
    return _beside_findings(snapshot) or (worst, findings.headline)


def _beside_findings(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return severity and sentence where the top line is about a command, the end of a run, or silent agents."""
    if snapshot.command is not None:
        return _command_line(snapshot.command)
    silent = [view for view in snapshot.tasks if view.is_stale and view.link.state is not LinkState.VACANT]
    if ended := _end(snapshot):
        return ended
    if silent and len(silent) == len(snapshot.tasks):
        if moving := _moving(snapshot):
            severity = "info" if len(moving) == len(silent) else "warning"
            return severity, f"{moving[0].link.reason}: waiting for the agents that hold them now"
        if all(view.link.state is LinkState.CONNECTING and not view.link.reason for view in silent):
            return "info", f"connecting to {plural(len(silent), 'agent')}"
        refuse = all(view.link.state is LinkState.REFUSED for view in silent)
        return "warning", f"{'Each agent refuses' if refuse else 'No agent answers'}: {_reasons(silent)}"
    missed = [view for view in silent if not _has_ended_well(view)]
    if missed and snapshot.findings.top is None and snapshot.findings.condition.stillness is None:
        return "warning", _silence(missed, snapshot.at)
    return None


def _moving(snapshot: Snapshot) -> list[TaskView]:
    """Return the tasks whose agents have just been given other tasks."""
    return [view for view in snapshot.tasks if view.link.state is LinkState.MOVED]


def _has_ended_well(view: TaskView) -> bool:
    return view.has_ended and has_ended_well(view)


def _end(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return severity and sentence for a run whose agents have ended after their tasks; None where it goes on."""
    exits = [view.status.exit for view in snapshot.tasks if view.status and view.status.exit]
    if not all(view.is_stale for view in snapshot.tasks) or len(exits) < len(snapshot.tasks):
        return None
    if _moving(snapshot):
        return None  # the agents live, and start the tasks again
    at = clock(max(exit.at for exit in exits))
    failed = next((view for view in snapshot.tasks if not has_ended_well(view)), None)
    if failed is None:
        return "good", f"{all_ended(exits)}, at {at}; their agents have ended, too"
    crash = next((each for each in open_diagnoses(snapshot) if each.kind == "crash"), None)
    if crash is not None:
        return crash.severity, crash.sentence
    return "critical", f"all tasks have ended, at {at}, {failed.task} with a failure; their agents have ended, too"


def _calm(snapshot: Snapshot) -> str:
    """Return the severity of a top line without a diagnosis."""
    condition = snapshot.findings.condition
    if condition.stillness is not None:
        return "info" if condition.stillness.is_expected or condition.stillness.is_own_work else "warning"
    if snapshot.up < len(snapshot.tasks) or snapshot.findings.short_history is not None:
        return "info"
    return "good" if snapshot.findings.steps_per_second is not None else "info"


def _silence(silent: Sequence[TaskView], now: float) -> str:
    since = min((view.link.since for view in silent if view.link.since is not None), default=None)
    length = "" if since is None else f" since {clock(since)} ({duration(now - since)})"
    return f"{no_contact([str(view.task) for view in silent])}{length}: {_reasons(silent)}"


def _reasons(silent: Sequence[TaskView]) -> str:
    reasons = sorted({view.link.reason for view in silent if view.link.reason})
    others = len(reasons) - _REASONS
    return " or ".join(reasons[:_REASONS]) + f" (and {others} more)" * (others > 0) or "connecting"


def _command_line(command: CommandProgressed) -> tuple[str, str]:
    severity = {Stage.FAILED: "critical", Stage.DONE: "good"}.get(command.stage, "warning")
    names = _names(list(command.tasks))
    under_way, done = _VERBS[command.verb]
    message = f": {command.message}" if command.message else ""
    generation = f", generation {command.generation}" if command.generation else ""
    match command.stage:
        case Stage.WORKING:
            return severity, f"{under_way} {names}{message}"
        case Stage.PLANNED:
            return severity, f"{under_way} {names} as generation {command.generation}{message}"
        case Stage.FAILED:
            return severity, f"The {command.verb} of {names} failed{message}"
        case Stage.DONE:
            return severity, f"{done} {names}{generation}{message}"
        case _:
            return severity, f"{under_way}, generation {command.generation}: {names} {command.stage}{message}"


def _names(tasks: list[Task]) -> str:
    names = [str(task) for task in tasks]
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
