"""Top of the screen: the run, the one sentence that matters, and the cluster's figures."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from tfscale.console.engine.events import CommandProgressed, LinkState
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.tui.widgets.appearance.state_text import is_busy
from tfscale.console.tui.widgets.appearance.theme import Look
from tfscale.console.tui.widgets.charts.step_bar import legend
from tfscale.console.tui.widgets.panes.cluster_figures import Figure, figures_of
from tfscale.core.analysis.remedies import first_step
from tfscale.core.cluster.task import Task
from tfscale.core.records import Diagnosis, Stage
from tfscale.core.text import clock, duration, no_contact

_VERBS = {
    "restart": ("Restarting", "Restarted"),
    "stop": ("Stopping", "Stopped"),
    "start": ("Starting", "Started"),
    "profile": ("Profiling", "Profiled"),
}
_WHERE_TO_LOOK = "see whether its host and its agent run; the training goes on without an agent"
_MOST_LINES = 3
"""Of the sentence; a crash may bring a long line of a log."""


class LookWidget(Widget):
    """Draws what is the same whatever the snapshot."""

    look: reactive[Look] = reactive(Look())


class SnapshotWidget(LookWidget):
    """Draws something of the newest snapshot."""

    snapshot: reactive[Snapshot | None] = reactive(None)


class SnapshotLines(SnapshotWidget):
    """As many lines as the newest snapshot gives to say: the screen is laid out anew only where that are others."""

    def __init__(self) -> None:
        super().__init__()
        self._written: tuple[Snapshot | None, Look, int] | None = None
        self._lines: list[Text] = []

    def lines(self, width: int) -> list[Text]:
        """All of them, for this many cells."""
        raise NotImplementedError

    def rewrite(self) -> None:
        """They depend on something that has changed, beside snapshot, look and width."""
        self._written = None
        self.refresh(layout=True)

    def watch_snapshot(self) -> None:
        # By itself a widget keeps the height of its first content.
        self.refresh(layout=len(self._write(self.size.width)) != self.size.height)

    def get_content_height(self, _container: Size, _viewport: Size, width: int) -> int:
        return len(self._write(width))

    def render(self) -> Text:
        return Text("\n", no_wrap=True, overflow="crop").join(self._write(self.size.width))

    def _write(self, width: int) -> list[Text]:
        written = self.snapshot, self.look, width
        if self._written is None or any(one is not other for one, other in zip(written, self._written, strict=True)):
            self._written, self._lines = written, self.lines(width)
        return self._lines


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
        right = f"paused at {clock(snapshot.at)}" if self.is_paused else clock(snapshot.at)
        right = f"{self.note}   {right}" if self.note else right
        generation = "" if snapshot.generation is None else f"generation {snapshot.generation}"
        strategy = snapshot.strategy or ""
        parts = [strategy, f"{snapshot.up}/{len(snapshot.tasks)} up", generation]
        room = self.size.width - text.cell_len - len(right) - 5
        if len("   ".join(parts)) > room:
            parts[0] = strategy.removesuffix("Strategy")
        if len("   ".join(parts)) > room:
            # The strategy stands on every task's page.
            del parts[0]
        for part in filter(None, parts):
            text.append(f"   {part}", style=palette.dim)
        text.append(right.rjust(max(len(right) + 2, self.size.width - text.cell_len)), style=palette.dim)
        return text


class Headline(SnapshotLines):
    """The answer, first: what is wrong, with whom, why, since when and at what cost; and below it what to do."""

    def lines(self, width: int) -> list[Text]:
        return headline_lines(self.snapshot, self.look, width)


def headline_lines(snapshot: Snapshot | None, look: Look, width: int) -> list[Text]:
    """The sentence in at most three lines, and in one what to do."""
    if snapshot is None:
        return [Text("Connecting to the agents", style=look.palette.dim)]
    severity, sentence = headline(snapshot)
    style = f"bold {look.severity(severity)}"
    said = _wrapped(look.spell(sentence), max(20, width - 2))
    lines = [Text.assemble((f"{look.sign(severity)} ", look.severity(severity)), (said[0], style))]
    lines += [Text(f"  {line}", style=style) for line in said[1:]]
    if (advice := _advice(snapshot)) is not None:
        text = Text(f"{look.glyphs.arrow} ", style=look.palette.parts["transfer"], no_wrap=True)
        text.append(look.spell(advice), style=look.palette.text)
        if text.cell_len > width:
            text.truncate(width - 3)
            text.append("...", style=look.palette.dim)
        lines.append(text)
    return lines


def _wrapped(sentence: str, width: int) -> list[str]:
    """Lines of it; a number and its unit stay together."""
    together = re.sub(r"(?<=\d) (?=\S{1,3}\b|°)", "\N{NO-BREAK SPACE}", sentence)
    lines = textwrap.wrap(together, width, max_lines=_MOST_LINES, placeholder=" ...") or [""]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _advice(snapshot: Snapshot) -> str | None:
    """What to do about what the headline says, and how much else there is to look at."""
    told = open_diagnoses(snapshot)
    if snapshot.command is not None:
        return None
    if not told or told[0].sentence != snapshot.findings.headline:
        return _WHERE_TO_LOOK if any(view.link.state is LinkState.DOWN for view in snapshot.tasks) else None
    advice = first_step(told[0])
    others = f"{len(told) - 1} more: {told[1].subject} {told[1].kind.replace('_', ' ')}" if len(told) > 1 else ""
    others += ", ..." if len(told) > 2 else ""
    return "   ".join(filter(None, [advice, f"({others})" if others else ""])) or None


def open_diagnoses(snapshot: Snapshot) -> list[Diagnosis]:
    """Those that hold, the most severe first, without what is merely used well."""
    return [
        each
        for each in snapshot.findings.diagnoses
        if each.end is None and (each.kind, each.severity) != ("saturation", "info")
    ]


def headline(snapshot: Snapshot) -> tuple[str, str]:
    """The severity and the sentence of the top line: a command, else unreachable agents, else the diagnosis."""
    if snapshot.command is not None:
        return _command_line(snapshot.command)
    silent = [view for view in snapshot.tasks if view.is_stale]
    if silent and len(silent) == len(snapshot.tasks):
        reasons = sorted({view.link.reason for view in silent if view.link.reason})
        return "warning", f"No agent answers: {', '.join(reasons) or 'connecting'}"
    told = open_diagnoses(snapshot)
    worst = next((each.severity for each in told if each.sentence == snapshot.findings.headline), None)
    sentence = snapshot.findings.headline
    if worst is None and silent:
        return "warning", _silence(silent, snapshot.at)
    return worst or _calm(snapshot), sentence


def _calm(snapshot: Snapshot) -> str:
    """How severe it is that nothing is diagnosed."""
    if snapshot.up < len(snapshot.tasks):
        return "info"
    if snapshot.findings.steps_per_second is not None:
        return "good"
    has_stopped = any(view.summary and view.summary.step_time for view in snapshot.tasks)
    return "warning" if has_stopped and not any(is_busy(view) for view in snapshot.tasks) else "info"


def _silence(silent: Sequence[TaskView], now: float) -> str:
    since = min((view.link.since for view in silent if view.link.since is not None), default=None)
    length = "" if since is None else f" since {clock(since)} ({duration(now - since)})"
    reasons = " or ".join(sorted({view.link.reason for view in silent if view.link.reason}))
    return f"{no_contact([str(view.task) for view in silent])}{length}: {reasons or 'connecting'}"


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
        figures = figures_of(self.snapshot) or [Figure("no steps", "measured at present")]
        is_narrow = sum(len(each.value) + len(each.name) + 4 for each in figures) > self.size.width
        gap = 2 if is_narrow else 3
        for each in figures:
            name = each.short if is_narrow else each.name
            room = self.size.width - text.cell_len
            if len(each.value) + len(name) + gap + 1 <= room or not text:
                text.append(" " * gap if text else "")
                value = (self.look.spell(each.value), f"bold {palette.text}")
                words = [(name, palette.dim), value] if each.is_named_first else [value, (name, palette.dim)]
                text.append_text(Text(" ").join(Text(*word) for word in words))
        return text


class Legend(LookWidget):
    """What the colours of the bars are, and how what the table shows differs from all of it."""

    status: reactive[str] = reactive("")

    def render(self) -> Text:
        background = Style(bgcolor=self.look.palette.background)
        parts = (Segment(each.text, background + (each.style or Style())) for each in legend(self.look, ""))
        text = Text.assemble(*((each.text, each.style or "") for each in parts), no_wrap=True)
        if self.status:
            room = max(0, self.size.width - len(self.status) - 1)
            text.truncate(room, pad=True)
            text.append(f" {self.status}", style=f"bold {self.look.palette.text}")
        return text


class Keys(LookWidget):
    """The keys that work here, in the last line."""

    keys: reactive[tuple[tuple[str, str], ...]] = reactive(())

    def __init__(self, keys: tuple[tuple[str, str], ...]) -> None:
        super().__init__()
        self.set_reactive(Keys.keys, keys)

    def render(self) -> Text:
        """As many as there is room for, and always the last one."""
        *keys, last = self.keys or (("", ""),)
        room = self.size.width - sum(map(len, last)) - 1
        text = Text(no_wrap=True, overflow="crop")
        for key, meaning in keys:
            if text.cell_len + len(key) + len(meaning) + 3 <= room:
                self._append(text, key, meaning)
        self._append(text, *last)
        return text

    def _append(self, text: Text, key: str, meaning: str) -> None:
        text.append(key, style=f"bold {self.look.palette.text}")
        text.append(f" {meaning}  ", style=self.look.palette.dim)
