"""The top of the screen: whose run this is, the one sentence that matters, and the cluster's numbers."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget
from tfscale.console.events import CommandProgressed, Stage
from tfscale.console.model import Snapshot
from tfscale.console.widgets import format
from tfscale.console.widgets.bar import legend
from tfscale.console.widgets.look import Look
from tfscale.core.task import Task

_VERBS = {
    "restart": ("Restarting", "Restarted"),
    "stop": ("Stopping", "Stopped"),
    "start": ("Starting", "Started"),
    "profile": ("Profiling", "Profiled"),
}
_RANKS = ("critical", "serious", "warning", "info")


class SnapshotWidget(Widget):
    """Draws something of the newest snapshot."""

    snapshot: reactive[Snapshot | None] = reactive(None)
    look: reactive[Look] = reactive(Look())


class Title(SnapshotWidget):
    """Run, strategy, how many tasks run, generation; the clock on the right."""

    is_paused: reactive[bool] = reactive(False)
    note: reactive[str] = reactive("")
    """What else there is to say beside the clock: a recording, or where a replay stands."""

    def render(self) -> Text:
        snapshot, palette = self.snapshot, self.look.palette
        if snapshot is None:
            return Text("tfscale", style=f"bold {palette.text}")
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"tfscale {snapshot.run}", style=f"bold {palette.text}")
        clock = format.clock(snapshot.at)
        right = f"paused at {clock}" if self.is_paused else clock
        right = f"{self.note}   {right}" if self.note else right
        generation = "" if snapshot.generation is None else f"generation {snapshot.generation}"
        parts = [snapshot.strategy or "", f"{snapshot.up}/{len(snapshot.tasks)} up", generation]
        if self.note and text.cell_len + len("   ".join(parts)) + len(right) + 5 > self.size.width:
            # What is recorded or replayed must be seen; the strategy stands on every task's page.
            del parts[0]
        for part in filter(None, parts):
            text.append(f"   {part}", style=palette.dim)
        text.append(right.rjust(max(len(right) + 2, self.size.width - text.cell_len)), style=palette.dim)
        return text


class Headline(SnapshotWidget):
    """The answer, first: what is wrong, with whom and since when; or that nothing is."""

    def watch_snapshot(self) -> None:
        # A sentence of two lines needs them; by itself a widget keeps the height of its first content.
        self.refresh(layout=True)

    def render(self) -> Text:
        if self.snapshot is None:
            return Text("Connecting to the agents", style=self.look.palette.dim)
        severity, sentence = headline(self.snapshot)
        text = Text(overflow="ellipsis")
        text.append(f"{self.look.sign(severity)} ", style=self.look.severity(severity))
        text.append(sentence, style=f"bold {self.look.severity(severity)}")
        return text


def headline(snapshot: Snapshot) -> tuple[str, str]:
    """The severity and the sentence of the top line: a command, else unreachable agents, else the diagnosis."""
    if snapshot.command is not None:
        return _command_line(snapshot.command)
    silent = [view for view in snapshot.tasks if view.is_stale]
    if silent and len(silent) == len(snapshot.tasks):
        reasons = sorted({view.link.reason for view in silent if view.link.reason})
        return "warning", f"No agent answers: {', '.join(reasons) or 'connecting'}"
    severities = {each.severity for each in snapshot.findings.diagnoses if each.end is None}
    worst = next((rank for rank in _RANKS if rank in severities), None)
    sentence = snapshot.findings.headline
    calm = "good" if snapshot.up == len(snapshot.tasks) else "warning" if silent else "info"
    return worst or calm, sentence


def _command_line(command: CommandProgressed) -> tuple[str, str]:
    severity = {Stage.FAILED: "critical", Stage.DONE: "good"}.get(command.stage, "warning")
    about = _names(list(command.tasks))
    under_way, done = _VERBS[command.verb]
    said = f": {command.message}" if command.message else ""
    generation = f", generation {command.generation}" if command.generation else ""
    match command.stage:
        case Stage.WORKING:
            return severity, f"{under_way} {about}{said}"
        case Stage.PLANNED:
            return severity, f"{under_way} {about} as generation {command.generation}{said}"
        case Stage.FAILED:
            return severity, f"The {command.verb} of {about} failed{said}"
        case Stage.DONE:
            return severity, f"{done} {about}{generation}{said}"
        case _:
            return severity, f"{under_way}, generation {command.generation}: {about} {command.stage}{said}"


def _names(tasks: list[Task]) -> str:
    names = [str(task) for task in tasks]
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


class Metrics(SnapshotWidget):
    """The cluster's numbers in one line, the most important first; what does not fit is left out."""

    def render(self) -> Text:
        palette = self.look.palette
        text = Text(no_wrap=True)
        if self.snapshot is None:
            return text
        for value, name in _metrics(self.snapshot) or [("no steps", "measured at present")]:
            room = self.size.width - text.cell_len
            if len(value) + len(name) + 4 <= room or not text:
                text.append("   " if text else "")
                text.append(value, style=f"bold {palette.text}")
                text.append(f" {name}", style=palette.dim)
        return text


def _metrics(snapshot: Snapshot) -> list[tuple[str, str]]:
    findings = snapshot.findings
    lost = None if findings.slowdown is None else max(0.0, 1.0 - 1.0 / max(findings.slowdown, 1.0))
    metrics = [
        (format.seconds(findings.step_time), "a step"),
        (format.count(findings.steps_per_second), "steps/s"),
        (format.percent(lost), "lost to stragglers"),
        (format.seconds(findings.transfer), "network"),
        (format.count(findings.examples_per_second), "examples/s"),
    ]
    return [(value, name) for value, name in metrics if value != format.UNKNOWN]


class Legend(SnapshotWidget):
    """What the colours of the bars are."""

    def render(self) -> Text:
        background = Style(bgcolor=self.look.palette.background)
        parts = (Segment(each.text, background + (each.style or Style())) for each in legend(self.look, ""))
        return Text.assemble(*((each.text, each.style or "") for each in parts), no_wrap=True)


class Keys(SnapshotWidget):
    """The keys that work here, in the last line."""

    keys: reactive[tuple[tuple[str, str], ...]] = reactive(())

    def render(self) -> Text:
        text = Text(no_wrap=True, overflow="crop")
        for key, meaning in self.keys:
            text.append(key, style=f"bold {self.look.palette.text}")
            text.append(f" {meaning}  ", style=self.look.palette.dim)
        return text
