"""Advice for a measured run: what to repair, then each remedy with its gain, its record and its trial."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tfscale.console.advice.advice_record import record_words
from tfscale.console.advice.present_load import load_of_snapshot
from tfscale.console.advice.remedy_trials import TriedProgram, effort, needs_flag, trial
from tfscale.console.analysis.condition.cluster_condition import Condition
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.recommendations import Recommendations, recommend
from tfscale.console.engine.engine import EngineListener
from tfscale.console.engine.events import Event
from tfscale.console.engine.model import Snapshot
from tfscale.core.cluster.task import Role
from tfscale.core.records.diagnosis import Remedy
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.text import moment, plural, step_time
from tfscale.core.wire.json_records import Json


@dataclass(frozen=True, slots=True)
class Advice:
    """Recommendations from one moment of a run."""

    run: str
    at: float
    """Moment of the numbers, Unix seconds."""
    load: Load | None
    """None where no all-reduce joins the workers."""
    program: TriedProgram
    recommendations: Recommendations

    @property
    def remedies(self) -> list[Remedy]:
        """Remedies with a gain, the simplest first."""
        return sorted(self.recommendations.remedies, key=effort)


def advice_of(snapshot: Snapshot) -> Advice | None:
    """Return the advice of a moment; None where no remedy has a gain that a model predicts."""
    # Once a worker has ended, the others' waits for it would be taken for the network's time.
    if any(view.has_ended for view in snapshot.tasks if view.task.role in (Role.CHIEF, Role.WORKER)):
        return None
    load = load_of_snapshot(snapshot)
    recommendations = recommend(snapshot.findings, load)
    if snapshot.findings.condition.kind is not Condition.TRAINING or not recommendations.remedies:
        return None
    frames = [view.frame for view in snapshot.tasks if view.frame]
    examples = next((found for frame in frames if frame.probe and (found := frame.probe.examples_per_step)), None)
    commands = (view.description.command for view in snapshot.tasks if view.description and view.description.command)
    program = TriedProgram(next(commands, ()), examples // (load.ranks if load else 1) if examples else None)
    return Advice(snapshot.run, snapshot.at, load, program, recommendations)


class NewestAdvice:
    """Listener that keeps the advice of the newest moment that has one, and passes all on to `listener`."""

    def __init__(self, listener: EngineListener | None = None) -> None:
        self._listener = listener
        self.advice: Advice | None = None

    def event_folded(self, event: Event) -> None:
        if self._listener is not None:
            self._listener.event_folded(event)

    def snapshot_taken(self, snapshot: Snapshot) -> None:
        self.advice = advice_of(snapshot) or self.advice
        if self._listener is not None:
            self._listener.snapshot_taken(snapshot)


def as_text(advice: Advice) -> str:
    """Return the advice as lines for people."""
    return "\n".join(_lines(advice)) + "\n"


def _lines(advice: Advice) -> Iterator[str]:
    load = advice.load
    told = ""
    if load is not None:
        parts = {"all-reduce": load.transfer, "input": load.input, "compute": load.compute}
        told = f": {step_time(load.step)} a step of {plural(load.ranks, 'worker')}, of which " + ", ".join(
            f"{name} {step_time(seconds)}" for name, seconds in parts.items()
        )
    yield f"{advice.run}, at {moment(advice.at)}{told}"
    if advice.recommendations.culprits:
        yield "First, what is wrong:"
    for culprit in advice.recommendations.culprits:
        yield f"  {culprit.statement or culprit.sentence}"
        if todo := first_step(culprit):
            yield f"    to do: {todo}"
    for limit in advice.recommendations.limits:
        yield f"Limit: {limit.statement or limit.sentence}"
    yield "What would help, the simplest first:"
    for number, remedy in enumerate(advice.remedies, 1):
        yield from _remedy(number, remedy, advice)
    if advice.recommendations.unproven:
        yield f"No model says how much: {'; '.join(advice.recommendations.unproven)}"
    if any(trial(remedy, advice.program, load) for remedy in advice.remedies):
        yield "compare runs on this machine's cores and loopback, not on the hosts and links of a cluster."


def _remedy(number: int, remedy: Remedy, advice: Advice) -> Iterator[str]:
    record = record_words(remedy.model)
    yield f"{number:>3}. {remedy} by a model: {remedy.model}{f'; {record}' if record else ''}"
    if (command := trial(remedy, advice.program, advice.load)) is not None:
        flag = needs_flag(remedy, advice.program, advice.load)
        yield f"     {command}{f'   (once the script has {flag})' if flag else ''}"


def as_json(advice: Advice) -> Json:
    """Return the advice as one JSON object."""
    return {
        "type": "advice",
        "schema": SCHEMA_VERSION,
        "run": advice.run,
        "time": advice.at,
        "load": asdict(advice.load) if advice.load else None,
        "wrong": [culprit.sentence for culprit in advice.recommendations.culprits],
        "limits": [limit.statement or limit.sentence for limit in advice.recommendations.limits],
        "would_help": [_remedy_fields(remedy, advice) for remedy in advice.remedies],
        "without_model": list(advice.recommendations.unproven),
    }


def _remedy_fields(remedy: Remedy, advice: Advice) -> Json:
    return {
        "what": remedy.what,
        "throughput_factor": remedy.gain,
        "is_upper_bound": remedy.at_most,
        "assumes": remedy.model,
        "record": record_words(remedy.model),
        "command": trial(remedy, advice.program, advice.load),
    }
