"""Plain lines of text, one a change: the headline and the events, for screen readers and logs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.findings import one_each
from tfscale.console.analysis.stragglers.straggler_words import names_of
from tfscale.console.engine.model import Snapshot, TimelineEntry
from tfscale.console.export.outputs import Output
from tfscale.core.text import clock, moment, printable

_NUMBER = re.compile(r"\d[\d.,:]*")
_NOW = "now"
"""Word in the place of a severity before a headline."""


class PlainTeller:
    """Writer of what changes: a headline of other words, and each event once it has stood for a second.

    Within that second the tasks come together that share an event. Numbers of a headline change all the time, and are
    no news.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._snapshot: Snapshot | None = None
        self._told: dict[int, str] = {}
        """Stories that were written, by the number of the event."""
        self._stood: dict[int, str] = {}
        """Stories of the second before."""
        self._headlines = ("", "")
        """Words of the headline that was written, and of that of the second before."""

    def tell(self, snapshot: Snapshot) -> None:
        """Write what is new."""
        if self._snapshot is None:
            self._write(f"{moment(snapshot.at)} run {snapshot.run}: {_tasks(snapshot)}")
        self._snapshot = snapshot
        self._tell_events(is_last=False)
        told, before = self._headlines
        words = _NUMBER.sub("0", snapshot.findings.headline)
        # What it quotes is told as an event.
        is_quote = snapshot.findings.top is not None
        if words != told and words == before and not (is_quote or snapshot.is_outdated):
            self._write(headline_line(snapshot))
            told = words
        self._headlines = told, words

    def finish(self) -> None:
        """Write what has not stood for a second, and the last headline."""
        if self._snapshot is not None:
            self._tell_events(is_last=True)
            self._write(headline_line(self._snapshot))

    def _write(self, line: str) -> None:
        self._output.write({"line": line})

    def _tell_events(self, *, is_last: bool) -> None:
        assert self._snapshot is not None
        stories = {entry.number: entry.story for entry in self._snapshot.timeline}
        for entry in self._snapshot.timeline:
            story = stories[entry.number]
            if self._told.get(entry.number) != story and (is_last or self._stood.get(entry.number) == story):
                self._told[entry.number] = story
                self._write(story_line(entry))
        self._stood = stories


def headline_line(snapshot: Snapshot) -> str:
    """Return the headline with its time as a line."""
    return _line(snapshot.at, _NOW, snapshot.findings.headline)


def story_line(entry: TimelineEntry) -> str:
    """Return an event as a line, with the first thing to do while it lasts."""
    diagnosis = entry.diagnosis
    advice = first_step(diagnosis) if diagnosis is not None and diagnosis.end is None else None
    return _line(entry.at, entry.severity, _with_advice(entry.story, advice))


def snapshot_lines(snapshot: Snapshot) -> Iterator[str]:
    """Yield one snapshot as lines: the headline, and every open diagnosis that it does not quote."""
    yield f"{moment(snapshot.at)} run {snapshot.run}: {_tasks(snapshot)}"
    yield headline_line(snapshot)
    for diagnosis in one_each(each for each in snapshot.findings.diagnoses if each.end is None):
        yield _line(snapshot.at, diagnosis.severity, _with_advice(diagnosis.sentence, first_step(diagnosis)))


def _line(at: float, word: str, text: str) -> str:
    return f"{clock(at)} {word:<8} {printable(text)}"


def _with_advice(text: str, advice: str | None) -> str:
    return text if advice is None else f"{text.rstrip('.')}. To do: {advice}."


def _tasks(snapshot: Snapshot) -> str:
    return names_of([str(view.task) for view in snapshot.tasks])
