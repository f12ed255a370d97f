"""Runs of faults, and the verdict of each: whether all is as expected, what was lost, and what the console said."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tfscale.core.records.task_status import TaskStatus

from faults.fault import Expectation, Fault, Unexpected
from faults.seats import SPARE
from faults.trial import Trial, is_alive, running, words

_LOOK_AT = 3.0
"""Seconds from the fault to the sentence that the table quotes."""
_POLL = 0.15
VACANT = "vacant"
"""State of a worker that no agent holds."""


@dataclass(frozen=True)
class Verdict:
    """One row of the table as it came out."""

    fault: Fault
    seen: str = ""
    faults: tuple[str, ...] = ()
    """Differences from what is expected; none: it is as expected."""
    lost: str = "-"
    recovered: float | None = None
    """Seconds until all that is expected held; None where it never did."""
    sentence: str = "-"
    skipped: str = ""


@dataclass(frozen=True)
class _Before:
    pids: dict[str, int | None]
    steps: dict[str, int]
    said: dict[str, int]
    """Characters that each agent had written to stderr."""


def judge(faults: Sequence[Fault]) -> Iterator[Verdict]:
    """Let faults happen one after the other. Those with the same setup follow each other in one cluster.

    After each the cluster is mended, as an operator would do it; where that fails, the next one gets a new cluster.
    """
    waiting = list(faults)
    while waiting:
        number = len(waiting)
        for verdict in _in_one_cluster(list(waiting)):
            waiting.pop(0)
            yield verdict
        assert len(waiting) < number


def _in_one_cluster(faults: Sequence[Fault]) -> Iterator[Verdict]:
    """Yield the verdicts of the first fault, and of as many others as its cluster can have after it."""
    first = faults[0]
    if why := first.missing():
        yield Verdict(first, skipped=why)
        return
    verdict: Verdict | None = None
    fault, told = first, 0
    try:
        with running(first.setup) as trial:
            for fault in faults:
                if fault.setup != first.setup or fault.missing():
                    fault = faults[told - 1]
                    break
                verdict = _happen(fault, trial)
                is_mended = fault.setup.is_shared and trial.mend()
                if is_mended and (left := trial.too_many()):
                    verdict, is_mended = replace(verdict, faults=(*verdict.faults, f"left behind: {left}")), False
                if not is_mended and (left := trial.end_in_order()):
                    verdict = replace(verdict, faults=(*verdict.faults, left))
                yield verdict
                verdict, told = None, told + 1
                if not is_mended:
                    break
    except Exception as error:  # one row that cannot be done is no reason to leave the others
        why = f"{type(error).__name__}: {error}"[:500]
        if verdict is not None:
            yield replace(verdict, faults=(*verdict.faults, why))
        elif told == 0 or fault is not faults[told - 1]:
            yield Verdict(fault, seen="it could not be done", faults=(why,))


def _happen(fault: Fault, trial: Trial) -> Verdict:
    fault.once(trial)
    before = _Before(
        pids={task: trial.pid(task) for task in trial.tasks},
        steps={task: len(trial.steps(task)) for task in trial.tasks},
        said={task: len(trial.said(task)) for task in trial.tasks},
    )
    began, wall = time.monotonic(), time.time()
    found: list[str] = []
    told = ""
    try:
        told = fault.act(trial) or ""
    except (Unexpected, AssertionError) as error:
        found.append(str(error))
    recovered = None if found else _wait(lambda: not _differences(fault.expected, trial, before), fault, began)
    sentence = _sentence(trial, wall)
    found += _differences(fault.expected, trial, before)
    if fault.expected.said and not re.search(fault.expected.said, sentence):
        found.append(f"it says {sentence!r}")
    seen = "; ".join(filter(None, (told, _seen(trial, before))))
    lost, number = _lost_steps(trial, before)
    if fault.expected.most_lost is not None and number > fault.expected.most_lost:
        found.append(f"{number} steps lost")
    return Verdict(fault, seen, tuple(dict.fromkeys(found)), lost, recovered, sentence)


def _wait(holds: Callable[[], bool], fault: Fault, began: float) -> float | None:
    """Wait until it holds; the deed itself may have taken longer than that is waited for."""
    while not holds():
        if time.monotonic() - began > fault.expected.within:
            return None
        time.sleep(_POLL)
    return time.monotonic() - began


def _sentence(trial: Trial, wall: float) -> str:
    """Return the first sentence of the screen 3 s after the fault."""
    if trial.console is None:
        return "-"
    time.sleep(max(0.0, wall + _LOOK_AT + 0.5 - time.time()))
    heard = [line for line in trial.heard() if line["at"] <= wall + _LOOK_AT + 0.5]
    return str(heard[-1]["sentence"]) if heard else "-"


def _differences(expected: Expectation, trial: Trial, before: _Before) -> list[str]:
    """Return what is not as it is expected to be."""
    statuses = trial.statuses() if expected.states or expected.one_generation else {}
    found = [
        f"{task} is {_state(statuses, task)!r}, not {pattern!r}"
        for task, pattern in expected.states.items()
        if not re.search(pattern, _state(statuses, task))
    ]
    found += [
        f"the process of {task} is not the one of before"
        for task in expected.lives
        if trial.pid(task) not in (before.pids[task], None) or not is_alive(before.pids[task])
    ]
    found += [
        f"{task} was started again" for task in expected.ended if trial.pid(task) not in (before.pids[task], None)
    ]
    found += [f"{task} does not train in a new process" for task in expected.is_new if not _is_new(trial, before, task)]
    for task, pattern in expected.agents.items():
        status = trial.agents[task].poll()
        if not re.search(pattern, str(status)):
            found.append(f"the agent of {task} {'lives' if status is None else f'ended with {status}'}")
    for task, pattern in expected.log.items():
        if not re.search(pattern, trial.said(task)[before.said[task] :]):
            found.append(f"the agent of {task} has not said {pattern!r}")
    generations = {status.generation for status in statuses.values() if status is not None}
    if expected.one_generation and len(generations) != 1:
        found.append(f"generations {sorted(generations)}")
    return found


def _state(statuses: Mapping[str, TaskStatus | None], task: str) -> str:
    return words(statuses[task]) if task in statuses else VACANT


def _is_new(trial: Trial, before: _Before, task: str) -> bool:
    """Return whether a task makes steps in a process that it did not have before."""
    pid, made = trial.pid(task), trial.steps(task)[before.steps[task] :]
    return pid != before.pids[task] and (trial.setup.program == "sleep" or any(each == pid for each, _ in made))


def _seen(trial: Trial, before: _Before) -> str:
    """Return what has become of each task, and of agents that have ended."""
    found = []
    statuses = trial.statuses() if trial.agents else {}
    for task, status in statuses.items():
        same = trial.pid(task) == before.pids[task] and before.pids[task] is not None
        lives = is_alive(trial.pid(task))
        process = ", the same process" if same and lives else ", a new process" if lives else ""
        holder = trial.holder(task)
        place = "" if holder == task else f" at the {'spare' if holder == SPARE else f'host of {holder}'}"
        ended = trial.agents[holder].poll() if holder in trial.agents else None
        agent = "" if ended is None else f", its agent ended with {ended}"
        found.append(f"{task} {words(status)}{process}{place}{agent}")
    found += [f"{task} {VACANT}" for task in trial.tasks if trial.agents and task not in statuses]
    return "; ".join(found)


def _lost_steps(trial: Trial, before: _Before) -> tuple[str, int]:
    """Return which steps the tasks made a second time, in words and as a number, the most of any task."""
    lost = {}
    for task in trial.tasks:
        again, last = 0, None
        for pid, step in trial.steps(task)[max(0, before.steps[task] - 1) :]:
            if last is not None and pid != last[0]:
                again += max(0, last[1] + 1 - step)
            last = (pid, step)
        lost[task] = again
    some = [f"{task}: {number}" for task, number in lost.items() if number]
    return ", ".join(some) or "0", max(lost.values(), default=0)
