"""The report as plain text, for a terminal or a mail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfscale.console.advice.advice_record import record_words
from tfscale.console.analysis.findings import SubjectSummary
from tfscale.console.analysis.run.goodput import PRODUCTIVE
from tfscale.console.report.differences import Comparison, compared
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.console.report.measured_scaling import MeasuredScaling, scaling_over_runs
from tfscale.console.report.run_report import RunGroup, RunReport
from tfscale.console.report.verdict import length, verdict
from tfscale.core.records.training import display_of, paired, shown_name
from tfscale.core.text import displayed, duration

COLUMNS = ("step_time", "update", "host", "input", "compute", "reduce", "wait")
"""Columns of the table of workers."""
RANGE_COLUMNS = ("first", "lowest", "highest", "last")
"""Columns of the table of the training's numbers."""
_CELL = 16
"""Characters of a run's column in the table of what differs; longer values have lines of their own."""


def as_text(report: RunReport) -> str:
    """Return the whole report; ends with a newline."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: RunReport) -> Iterator[str]:
    yield report.title
    for group in report.groups:
        yield f"  {f'{group.name}: ' if group.name else ''}{verdict(group)}"
    yield ""
    yield from (f"  {name:<8} {value}" for name, value in report.facts.items())
    yield ""
    yield "What happened"
    yield from _events(report)
    for group in report.groups:
        yield ""
        yield from _workers(group)
        if group.training:
            yield ""
            yield from _training(group)
        if group.spent:
            yield ""
            yield from _spent(group)
        if group.scaling:
            yield ""
            yield from _scaling(group)
    if comparison := report.has_clock and compared(report.groups):
        yield ""
        yield from _differences(comparison)
    if (measured := scaling_over_runs(report.groups)) is not None and report.has_clock:
        yield ""
        yield from _scaling_over_runs(measured)


def _events(report: RunReport) -> Iterator[str]:
    if not report.findings:
        yield "  nothing: nobody straggled, crashed or hung, and no limit was reached"
    for group, finding in report.findings:
        diagnosis = finding.diagnosis
        until = report.when(diagnosis.end) if diagnosis.end is not None else "the end"
        yield f"  {diagnosis.severity:<8} {report.begin_of(diagnosis)} to {until}  {diagnosis.kind}"
        yield f"           {diagnosis.sentence}"
        yield from (f"           {line}" for line in details(report, group, finding))


def details(report: RunReport, group: RunGroup, finding: ReportedFinding) -> Iterator[str]:
    """Yield the cost of a finding, its most expensive minute, and its remedy."""
    if finding.lost >= 1.0 and finding.worst_at is not None:
        price = group.price_of(finding.lost)
        share = min(finding.worst_share, 1.0)
        worst = f"worst in the minute from {report.when(finding.worst_at)}, {share:.0%} of it"
        yield f"cost {length(finding.lost)}{f' ({price})' if price else ''}; {worst}"
    if finding.remedy:
        yield f"what to do: {finding.remedy}"
    for remedy in finding.diagnosis.remedies:
        if (record := record_words(remedy.model)) is not None:
            yield f"{remedy.what}: {record}"


def _workers(group: RunGroup) -> Iterator[str]:
    yield f"The last steps{f' of {group.name}' if group.name else ''}, medians"
    yield "  " + f"{'':<22}" + "".join(f"{name.replace('_', ' '):>11}" for name in (*COLUMNS, "ratio"))
    for subject, summary in group.subjects.items():
        yield "  " + f"{subject:<22}" + "".join(f"{cell:>11}" for cell in cells(summary))


def cells(summary: SubjectSummary) -> Iterator[str]:
    """Yield a subject's numbers as text, by `COLUMNS`, and its ratio."""
    for name in COLUMNS:
        value = getattr(summary, name)
        yield "-" if value is None else duration(value)
    yield "-" if summary.ratio is None else f"{summary.ratio:.2f}"


def _training(group: RunGroup) -> Iterator[str]:
    yield f"The training{f' of {group.name}' if group.name else ''}"
    yield "  " + f"{'':<22}" + "".join(f"{name:>11}" for name in RANGE_COLUMNS)
    for name, texts in training_rows(group):
        yield "  " + f"{name:<22}" + "".join(f"{text:>11}" for text in texts)


def training_rows(group: RunGroup) -> Iterator[tuple[str, list[str]]]:
    """Yield each reported number's name, and its range as text, by `RANGE_COLUMNS`."""
    for name in paired(group.training):
        numbers = [getattr(group.training[name], each) for each in RANGE_COLUMNS]
        texts = ["not finite" if number is None else displayed(number, display_of(name)) for number in numbers]
        yield shown_name(name), texts


def _spent(group: RunGroup) -> Iterator[str]:
    total = sum(group.spent.values())
    yield f"Where the time went: goodput {group.spent[PRODUCTIVE] / total:.0%} of {duration(total)}"
    for bucket, seconds in sorted(group.spent.items(), key=lambda item: -item[1]):
        if seconds > 0:
            yield f"  {bucket.replace('_', ' '):<14} {seconds / total:>6.1%}  {duration(seconds)}"


def _scaling(group: RunGroup) -> Iterator[str]:
    yield "What other sizes would bring, by the ring model from the last steps (times one worker)"
    for forecast in group.scaling:
        low, high = forecast.low / forecast.workers, forecast.high / forecast.workers
        band = f"{forecast.low:.3g} to {forecast.high:.3g}"
        yield f"  {forecast.workers:>5.0f} workers  {band:>16}  efficiency {low:.0%} to {high:.0%}"


def _differences(comparison: Comparison) -> Iterator[str]:
    yield "What differs"
    yield _row("", comparison.runs, "change" if any(each.change for each in comparison.differences) else "")
    for each in comparison.differences:
        if max(map(len, each.values)) < _CELL:
            yield _row(each.name, each.values, each.change)
        else:
            yield f"  {each.name}"
            yield from (f"    {run}: {text}" for run, text in zip(comparison.runs, each.values, strict=True))
    yield f"  the same: {same_settings(comparison)}"


def _row(name: str, cells: Sequence[str], change: str) -> str:
    return f"  {name:<28}{''.join(f'{cell:>{_CELL}}' for cell in cells)}{change:>9}".rstrip()


def same_settings(comparison: Comparison) -> str:
    """Return the settings that all runs share, as one line."""
    return ", ".join(f"{name}: {text}" for name, text in comparison.same.items()) or "nothing that is known"


def _scaling_over_runs(measured: MeasuredScaling) -> Iterator[str]:
    yield f"Scaling over the runs, {measured.unit}"
    for (workers, throughput), share in zip(measured.measured, measured.efficiencies, strict=True):
        yield f"  {workers:>5} workers  {throughput:>10.4g}  efficiency {share:.0%}"
    if (best := measured.forecast) is not None:
        band = f"{best.low:.4g} to {best.high:.4g}"
        yield f"  {best.workers:>5.0f} workers  {best.throughput:>10.4g}  forecast, {band}"
    else:
        yield "  a forecast needs three sizes"
    yield f"  published: {measured.published}"
