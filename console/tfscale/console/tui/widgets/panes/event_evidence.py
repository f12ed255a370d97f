"""Evidence of an event, drawn."""

from __future__ import annotations

from rich.text import Text
from tfscale.console.analysis.evidence_text import evidence_items
from tfscale.console.engine.model import TimelineEntry
from tfscale.console.tui.widgets.appearance.ascii_spelling import spelled
from tfscale.console.tui.widgets.appearance.theme import Appearance
from tfscale.core.text import clock, elapsed


def evidence(entry: TimelineEntry, appearance: Appearance) -> Text:
    """Return all evidence of an event."""
    palette, diagnosis = appearance.palette, entry.diagnosis
    text = Text(entry.text if diagnosis is None else diagnosis.sentence, style=f"bold {palette.text}")
    facts = [("subject", entry.subject), ("kind", entry.kind.replace("_", " "))]
    if diagnosis is not None:
        lasted = diagnosis.end - diagnosis.begin if diagnosis.end is not None else None
        before = "before " if diagnosis.began_earlier else ""
        over = "" if lasted is None else f", over after {elapsed(lasted)}"
        facts += [("severity", diagnosis.severity), ("since", f"{before}{clock(diagnosis.begin)}{over}")]
        facts += evidence_items(diagnosis)
        several = {"together": diagnosis.together, "remedies": tuple(map(str, diagnosis.remedies))}
        facts += [(name, "; ".join(values)) for name, values in several.items() if values]
    else:
        facts += [("severity", entry.severity), ("at", clock(entry.at))]
    width = max(len(name) for name, _ in facts) + 2
    for name, value in facts:
        text.append(f"\n{name:<{width}}", style=palette.dim)
        text.append(value, style=palette.text)
    return spelled(text, appearance)
