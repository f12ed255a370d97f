"""Signs beside the page, for an operator who looks elsewhere: the terminal's title, and new serious findings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tfscale.console.analysis.condition.cluster_condition import Condition
from tfscale.console.analysis.finding_kinds import kind_of
from tfscale.console.analysis.findings import is_calm
from tfscale.console.ending.end_card import is_over
from tfscale.console.engine.model import Snapshot
from tfscale.console.engine.stop_condition import has_ended_well
from tfscale.console.tui.widgets.appearance.theme import Glyphs, severity_sign
from tfscale.core.cluster.task import CLUSTER
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.text import printable

PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""Sequences by which a terminal keeps its title, and gives it back [xterm, window manipulation]."""
_SERIOUS = ("serious", "critical")

Key = tuple[str, str, float]
"""(kind, subject, begin) of a diagnosis."""


def key_of(diagnosis: Diagnosis) -> Key:
    return diagnosis.kind, diagnosis.subject, diagnosis.begin


def silenced(snapshot: Snapshot, acknowledged: Collection[Key]) -> Snapshot:
    """Return the snapshot with the gravest finding that nobody has acknowledged on top.

    Where all are, the top line stays, as information.
    """
    findings = snapshot.findings
    top = findings.top
    if top is None or key_of(top) not in acknowledged:
        return snapshot
    others = [each for each in findings.diagnoses if each.end is None and key_of(each) not in acknowledged]
    worse = [each for each in others if not is_calm(each)]
    if worse:
        rest = tuple(each for each in findings.diagnoses if each not in others)
        changed = replace(findings, diagnoses=(*others, *rest), top=worse[0], headline=worse[0].sentence)
    else:
        calm = replace(top, severity="info")
        changed = replace(findings, top=calm, headline=f"{findings.headline} (acknowledged)")
    return replace(snapshot, findings=changed)


class Attention:
    """Memory of the serious findings that were told already."""

    def __init__(self) -> None:
        self._told: set[Key] | None = None
        """Findings that are no news; None before the first snapshot."""

    def news(self, snapshot: Snapshot) -> list[Diagnosis]:
        """Return the serious findings that no snapshot had before; those of the first one are on its page."""
        present = {
            key_of(each): each for each in snapshot.findings.diagnoses if each.end is None and each.severity in _SERIOUS
        }
        told, self._told = self._told, set(present)
        return [] if told is None else [diagnosis for key, diagnosis in present.items() if key not in told]


def set_title(title: str) -> str:
    """Return the sequence that sets a terminal's title (OSC 2)."""
    return f"\x1b]2;{printable(title)}\x07"


def terminal_title(snapshot: Snapshot, glyphs: Glyphs) -> str:
    """Return the finding of the top line in a few words, else the run's stage; and the run: `▲ worker:3 slow - ...`."""
    return f"{_state(snapshot, glyphs)}tfscale {snapshot.run}"


def _state(snapshot: Snapshot, glyphs: Glyphs) -> str:
    if is_over(snapshot):
        is_well = all(map(has_ended_well, snapshot.tasks))
        return f"{glyphs.finished if is_well else glyphs.failed} ended - "
    top = snapshot.findings.top
    if top is not None and top.severity != "info":
        subject = "" if top.subject == CLUSTER else f"{top.subject} "
        return f"{severity_sign(top.severity, glyphs)} {subject}{kind_of(top).word} - "
    return f"{glyphs.moving} starting - " if snapshot.findings.condition.kind is Condition.STARTING else ""
