"""A checkup as one table, and below it the faults in sentences; and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tfscale.core.cluster.task import Task
from tfscale.core.preflight.checkup import Answer, Checkup, Fault
from tfscale.core.preflight.examination import Examination
from tfscale.core.preflight.faults import tells
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.text import aligned, bit_rate, data_size, plural

_COLUMNS = (
    "task", "host", "agent", "role", "port", "reached", "names", "clock", "disk", "memory", "python", "tensorflow",
    "keras", "script", "gpus",
)  # fmt: skip
_FAULTY = "!"
"""Sign behind a cell with a fault."""


def table(checkup: Checkup, faults: Sequence[Fault]) -> str:
    """Return the table, a line each for the large and the measured, and the faults."""
    faulty = {(fault.column, task) for fault in faults for task in fault.tasks}
    reached = _reached(checkup)
    rows = [_COLUMNS, *(_row(checkup, task, reached.get(str(task), "-"), faulty) for task in checkup.answers)]
    lines = [*aligned(rows, left=range(len(_COLUMNS))), *_notes(checkup)]
    lines += ["", f"{plural(len(faults), 'fault')}:" if faults else "no fault found"]
    lines += [f"{_FAULTY} {fault.sentence}" for fault in faults]
    return "\n".join(lines)


def _notes(checkup: Checkup) -> list[str]:
    notes = []
    if checkup.left_out:
        tried = sum(map(len, checkup.contacts.values())) // 2
        notes.append(
            f"{tried:,} ways were tried, and {checkup.left_out:,} were not: each task tried the next one, the lead "
            "and some at random"
        )
    known = [each for each in checkup.transfers if each.rate is not None]
    notes += [f"{each.source} to {each.target}: {bit_rate(each.rate or 0.0)}" for each in known]
    return ["", *notes] if notes else []


def _row(checkup: Checkup, task: Task, reached: str, faulty: set[tuple[str, Task]]) -> tuple[str, ...]:
    answer = checkup.answers[task]
    cells = {"task": str(task), "host": answer.host or checkup.spec.agents[task].host, "role": str(task.role)}
    if answer.examination is None:
        cells["agent"] = "silent"
    else:
        cells |= {"agent": answer.way or "answers", "reached": reached, **_facts(answer, answer.examination)}
    return tuple(cells.get(name, "-") + f" {_FAULTY}" * ((name, task) in faulty) for name in _COLUMNS)


def _facts(answer: Answer, found: Examination) -> dict[str, str]:
    spaces = [data_size(space.free) for space in found.disks if not space.problem]
    program = found.program
    return {
        "port": "task lives" if found.task_lives else found.port_problem.split()[0] if found.port_problem else "free",
        "names": plural(len(found.names), "name") if found.names else "-",
        "clock": "-" if answer.clock is None else f"{answer.clock:+.2f} s",
        "disk": " ".join(dict.fromkeys(spaces)) or "-",
        "memory": data_size(found.memory_available),
        "python": program.python or "?",
        "tensorflow": program.tensorflow or "?",
        "keras": program.keras or "?",
        "script": program.script_hash[:8] or "?",
        "gpus": str(found.gpus),
    }


def _reached(checkup: Checkup) -> dict[str, str]:
    """Return `3 of 4`: the successful attempts to reach each task and its agent, without attempts that tell nothing."""
    examined = {str(task): found for task, found in checkup.examined.items()}
    tried: dict[str, list[bool]] = defaultdict(list)
    for contact in (each for contacts in checkup.contacts.values() for each in contacts):
        if tells(examined.get(contact.task), contact):
            tried[contact.task].append(not contact.problem)
    return {task: f"{sum(outcomes)} of {len(outcomes)}" for task, outcomes in tried.items()}


def document(checkup: Checkup, faults: Sequence[Fault]) -> str:
    """Return the whole checkup as one JSON object."""
    tasks: dict[str, Any] = {}
    for task, answer in checkup.answers.items():
        contacts = [asdict(each) for each in checkup.contacts.get(task, ())]
        tasks[str(task)] = {**asdict(answer), "contacts": contacts}
    return json.dumps(
        {
            "type": "checkup",
            "schema": SCHEMA_VERSION,
            "tasks": tasks,
            "untried": checkup.left_out,
            "transfers": [
                {"from": str(each.source), "to": str(each.target), "rate": each.rate, "problem": each.problem}
                for each in checkup.transfers
            ],
            "faults": [
                {"column": fault.column, "tasks": [str(task) for task in fault.tasks], "sentence": fault.sentence}
                for fault in faults
            ],
        },
        indent=2,
    )
