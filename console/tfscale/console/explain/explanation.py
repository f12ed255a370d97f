"""Explanation of a cluster's state for a language model: one JSON object whose sentences need no legend."""

from __future__ import annotations

from collections.abc import Iterator

from tfscale.console.advice.advice_record import record_words
from tfscale.console.analysis.evidence_text import evidence_items
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.findings import loss_of, one_each
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.console.engine.model import Snapshot, TaskView, TimelineEntry
from tfscale.console.export.snapshot_once import verdict
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.text import bounded, moment, progress_words
from tfscale.core.wire.json_records import Json

_MOST_NAMED = 20
"""Tasks that are told one by one: the context of a model is short, and a thousand equal rows say what one says."""
_MOST_EVENTS = 30
_MOST_TRIED = 10
_LONGEST = 400
"""Characters of one part of the evidence, such as the end of a log."""
_TRIED = ("command", "policy", "placement")
"""Kinds of events that tell what somebody, or an agent, has done."""


def explanation(snapshot: Snapshot) -> Json:
    """Return what is known of the cluster now: what is wrong, why, what to do, what was tried, and what would help."""
    findings = snapshot.findings
    present = one_each(each for each in findings.diagnoses if each.end is None)
    progress = snapshot.progress
    return {
        "type": "explanation",
        "schema": SCHEMA_VERSION,
        "time": snapshot.at,
        "as_of": f"{moment(snapshot.at)}, local time of the console, {snapshot.age:.0f} s ago",
        "run": snapshot.run,
        "strategy": snapshot.strategy,
        "healthy": verdict(snapshot),
        "headline": snapshot.moment + findings.headline,
        "condition": str(findings.condition.kind),
        "steps_per_second": findings.steps_per_second,
        "progress": None if progress is None else progress_words(progress, snapshot.at) or None,
        "tasks": _tasks(snapshot),
        "findings": [_finding(each) for each in present],
        "would_help": [
            {
                "what": each.what,
                "throughput_factor": each.gain,
                "is_upper_bound": each.at_most,
                "assumes": each.model,
                "record": record_words(each.model),
            }
            for finding in present
            for each in finding.remedies
        ],
        "tried": [_event(each) for each in snapshot.timeline if _is_trial(each)][-_MOST_TRIED:],
        "events": [_event(each) for each in snapshot.timeline][-_MOST_EVENTS:],
    }


def _finding(finding: Diagnosis) -> Json:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "subjects": list(finding.together or (finding.subject,)),
        "since": moment(finding.begin),
        "sentence": finding.sentence,
        "share_of_time_lost": loss_of(finding),
        "evidence": _evidence(finding),
        "first_step": first_step(finding),
    }


def _evidence(finding: Diagnosis) -> dict[str, str]:
    return {name: bounded(value, _LONGEST) for name, value in evidence_items(finding)}


def _is_trial(entry: TimelineEntry) -> bool:
    return entry.kind in _TRIED or (entry.diagnosis is not None and entry.diagnosis.kind == "restart")


def _event(entry: TimelineEntry) -> Json:
    event: Json = {"at": moment(entry.at), "severity": entry.severity, "text": entry.story}
    if entry.diagnosis is not None and entry.diagnosis.kind == "restart":
        event["measured"] = _evidence(entry.diagnosis)
    return event


def _tasks(snapshot: Snapshot) -> Json:
    """Return the tasks by state, and one by one those that do not run as they should."""
    states: dict[str, list[str]] = {}
    for view in snapshot.tasks:
        states.setdefault(_state(view), []).append(str(view.task))
    named = list(_unusual(snapshot))
    return {
        "number": len(snapshot.tasks),
        "by_state": {state: names_of(names) for state, names in states.items()},
        "unusual": named[:_MOST_NAMED],
        "unusual_left_out": max(0, len(named) - _MOST_NAMED),
    }


def _state(view: TaskView) -> str:
    if view.is_stale:
        return f"agent {view.link.state}"
    return str(view.status.state) if view.status else "unknown"


def _unusual(snapshot: Snapshot) -> Iterator[Json]:
    blamed = {name for each in snapshot.findings.diagnoses if each.end is None for name in each.named()}
    for view in snapshot.tasks:
        name = str(view.task)
        if view.is_up and name not in blamed:
            continue
        status, summary = view.status, view.summary
        phases = ("step_time", "update", "host", "input", "compute", "reduce", "wait")
        yield {
            "task": name,
            "host": view.host,
            "agent": str(view.agent),
            "state": _state(view),
            "reason": (status.reason if status else "") or view.link.reason,
            "log": view.description.log_path if view.description else None,
            "seconds_of_a_step": {each: getattr(summary, each) for each in phases} if summary else None,
        }
