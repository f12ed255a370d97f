"""Judgement of an incident: what was said at each moment, live, in replay and in the report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from incidents.cluster import EAR, read_lines
from incidents.incident import RAW, STILL, Incident

_EARLY, _LATE = 0.3, 1.3
"""Seconds around a moment in which the sentence may be as it must: it is made once a second."""
_AT_FIRST = 5.5
"""Seconds from which on `while_it_lasts` counts."""


@dataclass(frozen=True)
class Span:
    """Time of an incident on the console's clock: its beginning, its end, and the end of listening."""

    begin: float
    end: float
    until: float


@dataclass
class Verdict:
    """One incident that was run."""

    incident: Incident
    faults: list[str] = field(default_factory=list)
    series: list[str] = field(default_factory=list)
    """Sentences that were said, each with the seconds from the beginning on."""
    said: str = ""
    """The sentence of the last moment at which one was asked for."""


class Told:
    """All that was told of one cluster: live, by its recording, and in the report."""

    def __init__(self, folder: Path) -> None:
        self.live = read_lines(folder / "heard")
        self.replayed = _replay(folder)
        self.events = [line for line in read_lines(folder / "run.jsonl") if line["type"] == "diagnosis"]
        self.report = _report(folder)


def verdict(incident: Incident, span: Span, told: Told) -> Verdict:
    """Return what was said of an incident, and each way in which that is wrong."""
    live = list(_of_sentences(incident, span, told.live))
    faults = [*live, *(f"in replay, {fault}" for fault in _of_sentences(incident, span, told.replayed) if not live)]
    faults += _of_events(incident, span, told.events)
    faults += _of_report(incident, span, told.report)
    last = max([span.begin + moment for moment in incident.says], default=span.until - _LATE)
    return Verdict(incident, faults, series(span, told.live), next(iter(_around(last, told.live)[-1:]), ""))


def series(span: Span, heard: Sequence[dict[str, Any]]) -> list[str]:
    """Return the sentences of a span, those that differ by numbers alone as one."""
    own = [line for line in heard if span.begin - 3 <= line["at"] <= span.until]
    found = []
    for _, lines in groupby(own, key=lambda line: re.sub(r"[\d.,:]+", "#", f"{line['sentence']}>{line['advice']}")):
        same = list(lines)
        first, last = (round(line["at"] - span.begin) for line in (same[0], same[-1]))
        flags = "; ".join(f"{task} {flag}" for task, flag in same[-1]["flags"].items())
        advice = f" > {same[-1]['advice']}" if same[-1]["advice"] else ""
        rate = f" ({same[-1]['rate']:.3g}/s)" if same[-1]["rate"] else ""
        found.append(f"{first}..{last} s{rate}: {same[-1]['sentence']}{advice}{f' [{flags}]' if flags else ''}")
    return found


def _of_sentences(incident: Incident, span: Span, heard: Sequence[dict[str, Any]]) -> Iterator[str]:
    for begin, when, moments in (
        (span.begin, "after", incident.says),
        (span.end, "after its end,", incident.afterwards),
    ):
        for moment, pattern in sorted(moments.items()):
            found = _around(begin + moment, heard)
            if not any(re.search(pattern, sentence, re.IGNORECASE) for sentence in found):
                yield f"{when} {moment:g} s: {found[-1] if found else 'nothing'!r}"
    own = [line for line in heard if span.begin <= line["at"] <= span.until]
    yield from _never(rf"{incident.never or '(?!)'}|{RAW}", own, span)
    if incident.while_it_lasts:
        lasting = [line for line in own if span.begin + _AT_FIRST <= line["at"] <= span.end]
        yield from _never(incident.while_it_lasts, lasting, span)
        rates = [line for line in lasting if line["rate"]]
        if incident.while_it_lasts.startswith(STILL) and rates:
            last = rates[-1]
            yield f"{last['rate']:.3g} steps/s are shown up to {last['at'] - span.begin:.0f} s, though none is made"


def _never(pattern: str, heard: Sequence[dict[str, Any]], span: Span) -> Iterator[str]:
    wrong = [
        (line["at"], said)
        for line in heard
        for said in (line["sentence"], line["advice"])
        if re.search(pattern, said, re.IGNORECASE)
    ]
    if wrong:
        first, last = (round(at - span.begin) for at, _ in (wrong[0], wrong[-1]))
        yield f"never, but at {first} to {last} s: {wrong[0][1]!r}"


def _of_events(incident: Incident, span: Span, events: Sequence[dict[str, Any]]) -> Iterator[str]:
    pattern = rf"{incident.never or '(?!)'}|{RAW}"
    for event in events:
        is_own = span.begin <= event["time"] <= span.until and event["begin"] >= span.begin - _AT_FIRST
        if is_own and event["end"] is None and re.search(pattern, event["sentence"], re.IGNORECASE):
            yield f"never, but an event: {event['sentence']!r}"
            return


def _of_report(incident: Incident, span: Span, report: Sequence[dict[str, Any]]) -> Iterator[str]:
    own = [each["sentence"] for each in report if span.begin - _AT_FIRST <= each["begin"] <= span.until]
    if incident.report and not any(re.search(incident.report, said, re.IGNORECASE) for said in own):
        yield f"in the report: {own or 'nothing'}"
    wrong = [said for said in own if incident.never and re.search(incident.never, said, re.IGNORECASE)]
    if wrong:
        yield f"never, but in the report: {wrong[0]!r}"


def _around(moment: float, heard: Sequence[dict[str, Any]]) -> list[str]:
    return [line["sentence"] for line in heard if moment - _EARLY <= line["at"] <= moment + _LATE]


def _replay(folder: Path) -> list[dict[str, Any]]:
    heard = folder / "replayed"
    command = [sys.executable, EAR, "export", folder / "run.tfrec", "--only", "events", "--out", os.devnull]
    subprocess.run(command, env=_environment() | {"HEARD": str(heard)}, check=False, capture_output=True)
    return read_lines(heard)


def _report(folder: Path) -> list[dict[str, Any]]:
    console = [sys.executable, "-m", "tfscale.console.cli"]
    command = [*console, "report", "--format", "json", folder / "run.tfrec"]
    text = subprocess.run(command, env=_environment(), check=False, capture_output=True, text=True).stdout
    return json.loads(text)["findings"] if text else []


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
