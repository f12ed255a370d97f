"""Gate as text, as JSON, as JUnit's XML, which CI systems show, and as a page."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import asdict

from jinja2 import Environment, StrictUndefined
from tfscale.console.gate.gate import Gate, Outcome
from tfscale.core.text import aligned, plural, step_time


def as_text(gate: Gate) -> str:
    """Return the verdict, what differs, and a table."""
    sets = f"{plural(len(gate.new), 'run')} against {plural(len(gate.base), 'run')}"
    lines = [f"{gate.outcome}: {sets}, at most {gate.allowed:.1%} slower is allowed", *gate.differences]
    cells = [("worker", "part", "base", "new", "change", "")]
    cells += [
        (row.worker, row.part, step_time(row.base), step_time(row.new), row.judgement.interval, f"{row.outcome or ''}")
        for row in gate.rows
    ]
    lines += aligned(cells, left=range(len(cells[0])))
    return "\n".join([*lines, *_advice(gate)]) + "\n"


def _advice(gate: Gate) -> list[str]:
    """Return what would decide."""
    if gate.outcome is not Outcome.UNDECIDED:
        return []
    if min(len(gate.base), len(gate.new)) < 2:
        return ["One run says nothing of how far the next is away: give a folder of three or more runs for each side."]
    visible = max(row.judgement.visible for row in gate.rows if row.outcome)
    if visible == math.inf:
        return ["These runs differ too much from one another to show anything: a quieter machine, and more of them."]
    return [f"These runs would have shown a slowdown of {visible:.1%}: more of them, or a quieter machine, decide."]


def as_json(gate: Gate) -> str:
    """Return all of it; an unknown bound is null."""
    rows = [asdict(row) | {"judgement": _finite(asdict(row.judgement))} for row in gate.rows]
    document = {
        "outcome": gate.outcome,
        "allowed": gate.allowed,
        "differences": gate.differences,
        "base": [str(run.path) for run in gate.base],
        "new": [str(run.path) for run in gate.new],
        "rows": rows,
    }
    return json.dumps(document) + "\n"


def _finite(numbers: dict[str, object]) -> dict[str, object]:
    return {name: None if value in (math.inf, -math.inf) else value for name, value in numbers.items()}


def as_junit(gate: Gate) -> str:
    """Return a test case for each worker; one that is undecided is skipped, with its reason."""
    steps = [row for row in gate.rows if row.outcome]
    counts = {name: str(sum(row.outcome is each for row in steps)) for name, each in _COUNTED.items()}
    suite = ElementTree.Element("testsuite", {"name": "tfscale-console compare", "tests": str(len(steps)), **counts})
    for row in steps:
        case = ElementTree.SubElement(suite, "testcase", classname="step", name=row.worker, time=f"{row.new:.6f}")
        kind = {Outcome.FAILED: "failure", Outcome.UNDECIDED: "skipped"}.get(row.outcome or Outcome.PASSED)
        if kind:
            times = f"{step_time(row.base)} -> {step_time(row.new)}"
            said = f"{times}: {row.judgement.interval}, {gate.allowed:.1%} is allowed"
            ElementTree.SubElement(case, kind, {"message": said}).text = as_text(gate)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def as_html(gate: Gate) -> str:
    """Return a page without further files."""
    return (
        Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        .from_string(_PAGE)
        .render(gate=gate, lines=[*gate.differences, *_advice(gate)], time=step_time)
    )


_PAGE = """<!DOCTYPE html>
<meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>{{ gate.outcome }}: steps of new runs</title>
<style>body { font: 14px sans-serif; margin: 2em } td, th { padding: .2em 1em; text-align: left }
.failed { color: #d55e00 } .passed { color: #009e73 } .undecided { color: #8a6d00 } .step { font-weight: bold }</style>
<h1 class="{{ gate.outcome }}">{{ gate.outcome }}</h1>
<p>{{ gate.new | length }} new runs against {{ gate.base | length }}; at most
{{ "%.1f" | format(100 * gate.allowed) }}% slower is allowed</p>
{% for line in lines %}
<p>{{ line }}</p>
{% endfor %}
<table><tr><th>worker<th>part<th>base<th>new<th>change (interval)<th></tr>
{% for row in gate.rows %}
<tr class="{{ row.part }}"><td>{{ row.worker }}<td>{{ row.part }}<td>{{ time(row.base) }}<td>{{ time(row.new) }}
<td>{{ row.judgement.interval }}<td class="{{ row.outcome or "" }}">{{ row.outcome or "" }}</tr>
{% endfor %}
</table>
"""
_COUNTED = {"failures": Outcome.FAILED, "skipped": Outcome.UNDECIDED}
WRITERS: dict[str, Callable[[Gate], str]] = {"text": as_text, "json": as_json, "junit": as_junit, "html": as_html}
"""Formats of a gate."""
