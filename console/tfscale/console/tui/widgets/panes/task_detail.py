"""Facts about one task, as aligned lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.text import Text
from textual.reactive import reactive
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.engine.model import Snapshot, TaskView
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.state_text import state_text
from tfscale.console.tui.widgets.appearance.text_width import wrap_hanging
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.console.tui.widgets.base_widgets import SnapshotLines
from tfscale.console.tui.widgets.charts.step_bar import parts_of, phase_bar
from tfscale.console.tui.widgets.hosts.link_matrix import peer_words
from tfscale.console.tui.widgets.lifetime.attempt_ends import attempt_ends
from tfscale.console.tui.widgets.lifetime.start_strip import strip_of
from tfscale.console.tui.widgets.panes import gpu_lines, worker_functions
from tfscale.console.tui.widgets.task_readings import newest_step, traffic
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import Disk, HostSample
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.training import TRAINING_DISPLAYS, Training, display_of, shown_name, training_numbers
from tfscale.core.text import (
    UNKNOWN,
    clock,
    data_rate,
    data_size,
    displayed,
    elapsed,
    exit_clause,
    percent,
    plural,
    progress_words,
    step_time,
)

_NAME = 11
_LINKS = 3
"""Links told in full."""
_MOST_LINES = 3
"""Lines quoted from the end of the task's log."""


class Detail(SnapshotLines):
    """Facts of one task: its state, its step in numbers, its host and its GPUs."""

    is_whole: reactive[bool] = reactive(False)
    """True where long fields are wrapped, False where they are cut to a line."""

    def __init__(self, task: Task | None, *, tells_findings: bool = True) -> None:
        """Make the pane of a task, which is empty until it has one; `tells_findings` where nothing else does."""
        super().__init__()
        self._tells_findings = tells_findings
        self._shown_task = task

    def show(self, task: Task) -> None:
        """Show this task instead."""
        if task != self._shown_task:
            self._shown_task = task
            self._written = None
            self.watch_snapshot()

    def watch_is_whole(self) -> None:
        self.rewrite()

    def lines(self, width: int) -> list[Text]:
        if self.snapshot is None or self._shown_task is None:
            return []
        limit = None if self.is_whole else 1
        view = self.snapshot.view(self._shown_task)
        shown = view if self._tells_findings else replace(view, diagnoses=())
        fields = _lines(shown, self.snapshot, self.appearance, width)
        lines = (part for line in fields for part in wrap_hanging(line, width, _NAME, limit))
        return [spelled(line, self.appearance) for line in lines]


def _lines(view: TaskView, snapshot: Snapshot, appearance: Appearance, width: int) -> Iterator[Text]:
    yield _head(view, snapshot.at, appearance)
    for diagnosis in view.diagnoses:
        begin = clock(diagnosis.begin)
        since = "" if begin in diagnosis.sentence else f" (since {begin})"
        text = f"{appearance.sign(diagnosis.severity)} {diagnosis.sentence}{since}"
        yield from wrap_hanging(Text(text, style=appearance.severity(diagnosis.severity)), width, 2, _MOST_LINES)
    yield Text()
    strip = strip_of(snapshot.findings.starts, view.task, appearance, width - _NAME)
    yield from _step(view, appearance, width) if strip is None else [_named("start", strip, appearance)]
    for name, text in worker_functions.facts(view, snapshot):
        yield _field(name, text, appearance)
    yield from _program(view, snapshot, appearance)
    if view.frame and view.frame.host:
        yield from _host(view.frame.host, appearance)
    if (placed := gpu_lines.placement(view, snapshot)) is not None:
        yield _field("placed", placed, appearance)
    for gpu in view.frame.gpus if view.frame else ():
        yield _field(f"gpu {gpu.index}", gpu_lines.running(gpu), appearance)
        for severity, alarm in gpu_lines.alarms(gpu):
            yield _alarm(alarm, severity, appearance)
    if view.frame and view.frame.host and view.frame.host.disk:
        yield _field("disk", _disk(view.frame.host.disk), appearance)
    yield from _links(view, snapshot, appearance)
    yield from _exits(view, snapshot, appearance)


def _head(view: TaskView, now: float, appearance: Appearance) -> Text:
    state, severity = state_text(view, appearance.glyphs)
    text = Text(f"{view.task}", style=f"bold {appearance.palette.text}", no_wrap=True)
    text.append(f"   {state}", style=appearance.severity(severity))
    status = view.status
    if status is not None:
        facts = [f"generation {status.generation}", f"attempt {status.attempt}"]
        facts += [f"pid {status.pid}"] if status.pid is not None else []
        facts += [f"up {elapsed(now - status.started)}"] if status.started is not None and view.is_up else []
        facts += [exit_clause(status.exit)] if status.exit else []
        facts += [status.reason] if status.reason else []
        due = 0.0 if status.restart_at is None else status.restart_at - now
        facts += [f"restarts in {elapsed(due)}"] if due > 0 else []
        text.append("   " + "   ".join(facts), style=appearance.palette.dim)
    return text


def _step(view: TaskView, appearance: Appearance, width: int) -> Iterator[Text]:
    parts = parts_of(view.summary)
    total = sum(parts.values())
    if not total:
        reached = newest_step(view)
        newest = None if reached is None else f"the newest is {reached:,}; its parts are not known"
        yield _field("step", newest or "no step measured so far", appearance)
        return
    bar = Text("step".ljust(_NAME), style=appearance.palette.dim, no_wrap=True)
    room = max(10, min(60, width - _NAME - 12))
    for segment in phase_bar(parts, total, room, appearance, appearance.palette.background):
        bar.append(segment.text, style=segment.style)
    bar.append(f"  {step_time(total)}", style=f"bold {appearance.palette.text}")
    yield bar
    numbers = Text(" " * _NAME, no_wrap=True)
    is_split = view.summary is not None and view.summary.wait is not None
    for part, value in parts.items():
        # Without the steps of the others nobody knows which part of it is waiting.
        name = "reduce" if part == "transfer" and not is_split else part
        numbers.append(f"{name} ", style=appearance.palette.dim)
        numbers.append(f"{step_time(value)}  ", style=appearance.palette.text)
    yield numbers
    for subject, summary in sorted(view.replicas.items()):
        facts = [f"compute {step_time(summary.compute)}", f"reduce {step_time(summary.reduce)}"]
        yield _field(subject.partition("/")[2], "   ".join(facts), appearance)
    for subject, summary in sorted(view.stages.items()):
        yield _field(subject.partition("/")[2], stage_facts(summary), appearance)

    if view.summary is not None and (stale := view.summary.staleness) is not None:
        updates = " ".join(f"{number}:{count}" for number, count in stale.updates.items())
        yield _field("staleness", f"mean {stale.mean:.2f}   updates by others, pull to push: {updates}", appearance)


def stage_facts(summary: SubjectSummary) -> str:
    """Return the line of a pipeline's stage with its time in passes; without such a time where others have one."""
    facts = [f"compute {step_time(summary.compute)}", f"waits for a neighbour {step_time(summary.input)}"]
    if summary.compute and summary.input is not None:
        facts.append(f"bubble {summary.input / (summary.compute + summary.input):.0%}")
    return "   ".join(facts)


def _program(view: TaskView, snapshot: Snapshot, appearance: Appearance) -> Iterator[Text]:
    probe = view.frame.probe if view.frame else None
    if probe is not None:
        versions = [f"TensorFlow {probe.tensorflow}" if probe.tensorflow else "", probe.keras or ""]
        verb = "reduced" if probe.gathered_bytes_per_step is None else "exchanged"
        reduced = f"{data_size(probe.reduced_bytes_per_step)} {verb} a step" if probe.reduced_bytes_per_step else ""
        # Workers of parameter servers only serve the task that has the strategy; before its steps none is known.
        has_none = snapshot.strategy is None and probe.state is ProbeState.MEASURING
        strategy = probe.strategy or ("no strategy" if has_none else "")
        facts = [strategy, _replicas(probe), probe.collective or "", reduced, *versions]
        if any(facts):
            yield _field("program", "   ".join(fact for fact in facts if fact), appearance)
        for sentence in view.techniques:
            yield _field("technique", sentence, appearance)
        for note in view.notes:
            yield _field("measuring", note, appearance)
        seconds = view.summary.step_time if view.is_up and view.summary is not None else None
        costs = {
            "memory": gpu_lines.peak_memory(probe),
            "flops": gpu_lines.step_flops(probe, seconds, snapshot.device_peak),
        }
        yield from (_field(name, text, appearance) for name, text in costs.items() if text)
        if probe.compiled_stamps is False:
            yield _field(
                "stamps", "TensorFlow's own ops: the compiled library could not be built or loaded", appearance
            )
    yield from _training(view, appearance)
    if view.description is not None:
        yield _field("command", " ".join(view.description.command), appearance)
        if view.description.log_path:
            yield _field("log", view.description.log_path, appearance)
    address = f"{view.agent}" + (f"   {view.link.reason}" if view.link.reason else "")
    yield _field("agent", address + (f"   {view.description.version}" if view.description else ""), appearance)


def _replicas(probe: ProbeStatus) -> str:
    if probe.replicas is None or probe.replicas == 1:
        return ""
    return f"{probe.replicas} replicas, {probe.local_replicas or 1} here"


def _training(view: TaskView, appearance: Appearance) -> Iterator[Text]:
    training = view.frame.training if view.frame else None
    examples = view.frame.probe.examples_per_step if view.frame and view.frame.probe else None
    facts = [f"{examples} examples a step" if examples else ""]
    if examples and view.summary and view.summary.step_time:
        facts.append(f"{examples / view.summary.step_time:,.0f} a second")
    if training is not None:
        numbers = training_numbers(training)
        texts = {name: displayed(numbers.get(name), display) for name, display in TRAINING_DISPLAYS.items()}
        texts |= {"loss": "not a number"} if training.finite is False else {}
        facts += [f"{shown_name(name)} {text}" for name, text in texts.items() if text != UNKNOWN]
    if any(facts):
        yield _field("training", "   ".join(fact for fact in facts if fact), appearance)
    progress = progress_words(training, view.frame.at) if training is not None and view.frame is not None else ""
    # Without a length or a step they are only the epoch, which the numbers of the training have.
    if progress and progress not in facts:
        yield _field("progress", progress, appearance)
    if training is not None and training.logs:
        yield _field("logs", "   ".join(_logs(training)), appearance)


def _logs(training: Training) -> Iterator[str]:
    """Yield Keras's logs, those of the newest batch first; others after the epoch at whose end they were logged."""
    told: int | None = None
    for log in sorted(training.logs, key=lambda log: -1 if log.epoch is None else log.epoch):
        since = "" if log.epoch is None or log.epoch == told else f"after epoch {log.epoch + 1}: "
        told = log.epoch
        value = "not a number" if log.value is None else displayed(log.value, display_of(log.name))
        yield f"{since}{log.name} {value}"
    if training.logs_left_out:
        yield f"{training.logs_left_out} more are logged"


def _host(host: HostSample, appearance: Appearance) -> Iterator[Text]:
    received, sent = traffic(host)
    memory = f"memory {data_size(host.memory_used)} of {data_size(host.memory_total)}"
    load = [f"CPU {percent(host.cpu)} of {host.cores} cores", memory]
    yield _field("host", "   ".join([*load, f"received {data_rate(received)}   sent {data_rate(sent)}"]), appearance)
    if host.task is not None:
        granted = "" if host.task.granted is None else f"of {host.task.granted} "
        cores = "" if host.task.cpu is None else f"{host.task.cpu:.1f} {granted}cores   "
        yield _field("task", f"{cores}{data_size(host.task.memory)}   {host.task.threads} threads", appearance)
    pressure = host.pressure
    if pressure is not None:
        stalls = (("CPU", pressure.cpu), ("memory", pressure.memory), ("disk", pressure.io))
        yield _field("stalled on", "   ".join(f"{name} {percent(value)}" for name, value in stalls), appearance)


def _disk(disk: Disk) -> str:
    moved = [] if disk.read is None else [f"read {data_rate(disk.read)}   written {data_rate(disk.written)}"]
    return "   ".join([*moved, f"{data_size(disk.free)} free of {data_size(disk.total)}"])


def _alarm(text: str, severity: str, appearance: Appearance) -> Text:
    line = Text(" " * _NAME, no_wrap=True)
    line.append(f"{appearance.sign(severity)} {text}", style=appearance.severity(severity))
    return line


def _exits(view: TaskView, snapshot: Snapshot, appearance: Appearance) -> Iterator[Text]:
    name = "ended"
    for text, is_quoted in attempt_ends(view, snapshot):
        if is_quoted:
            yield Text(" " * _NAME + text, style=appearance.palette.dim, no_wrap=True)
        else:
            yield _field(name, text, appearance)
        name = ""


def _links(view: TaskView, snapshot: Snapshot, appearance: Appearance) -> Iterator[Text]:
    """Yield the links of the task's host to others: those with trouble, then the busiest, then how many there are."""
    slow = [each for each in snapshot.findings.diagnoses if each.kind == "slow_link" and each.end is None]
    for each in slow:
        if str(view.task) in str(each.evidence.get("receiver", "")).split(" or "):
            yield _alarm(each.sentence, each.severity, appearance)
    troubles = {each.evidence.get("receiver"): each for each in slow if each.subject == str(view.task)}
    links = view.frame.host.links if view.frame and view.frame.host else ()
    ordered = sorted(links, key=lambda link: (link.peer not in troubles, -link.busy))
    for number, link in enumerate(ordered[:_LINKS]):
        words = f"to {link.peer}: {peer_words(link)}"
        if (trouble := troubles.get(link.peer)) is not None:
            yield _alarm(words, trouble.severity, appearance)
        else:
            yield _field("" if number else "links", words, appearance)
    if left := ordered[_LINKS:]:
        busiest = percent(max(link.busy for link in left))
        yield _field("", f"{plural(len(left), 'more link')}, busy at most {busiest} of the time", appearance)


def _field(name: str, text: str, appearance: Appearance) -> Text:
    return _named(name, Text(text, style=appearance.palette.text), appearance)


def _named(name: str, text: Text, appearance: Appearance) -> Text:
    return Text(name.ljust(_NAME), style=appearance.palette.dim, no_wrap=True).append_text(text)
