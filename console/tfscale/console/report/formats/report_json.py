"""The report as one JSON object: everything in the other formats except the plots."""

from __future__ import annotations

import json

from tfscale.console.report.differences import compared
from tfscale.console.report.finding_ledger import ReportedFinding
from tfscale.console.report.measured_scaling import MeasuredScaling, scaling_over_runs
from tfscale.console.report.run_report import RunGroup, RunReport
from tfscale.console.report.verdict import verdict
from tfscale.core.records.schema import SCHEMA_VERSION
from tfscale.core.wire.json_records import Json, encode


def as_json(report: RunReport) -> str:
    """Return the whole report; times are Unix seconds, or seconds from the first step for a source without a clock."""
    measured = scaling_over_runs(report.groups) if report.has_clock else None
    document = {
        "type": "report",
        "schema": SCHEMA_VERSION,
        "title": report.title,
        "facts": encode(report.facts),
        "findings": [_finding(group, finding) for group, finding in report.findings],
        "runs": [_run(group) for group in report.groups],
        "scaling": _scaling(measured) if measured else None,
        "comparison": encode(compared(report.groups)) if report.has_clock else None,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _finding(group: RunGroup, finding: ReportedFinding) -> Json:
    return {
        **encode(finding.diagnosis),
        "subjects": list(finding.subjects),
        "run": group.name,
        "remedy": finding.remedy,
        "lost_seconds": finding.lost,
        "worst_minute": finding.worst_at,
        "worst_minute_lost": finding.worst_share,
        **_price(group, finding.lost),
    }


def _price(group: RunGroup, seconds: float) -> Json:
    hours, price = group.gpu_hours(seconds), group.gpu_price
    return {
        "gpu_hours": hours,
        "money": price.per_hour * hours if price is not None and hours is not None else None,
        "currency": price.currency if price is not None else None,
    }


def _run(group: RunGroup) -> Json:
    length = group.end - group.begin
    return {
        "run": group.name,
        "verdict": verdict(group),
        "begin": group.begin,
        "end": group.end,
        "steps": group.steps,
        "steps_per_second": group.rate,
        "workers": group.workers,
        "examples_per_step": group.examples,
        "gpus": group.gpus,
        **_price(group, length),
        "spent": encode(group.spent),
        "last_steps": encode(group.subjects),
        "training": encode(group.training),
        "settings": encode(group.settings),
        "other_sizes": encode(group.scaling),
    }


def _scaling(measured: MeasuredScaling) -> Json:
    return {
        "unit": measured.unit,
        "measured": [
            {"workers": workers, "throughput": throughput, "efficiency": share}
            for (workers, throughput), share in zip(measured.measured, measured.efficiencies, strict=True)
        ],
        "forecast": encode(measured.forecast),
        "published": measured.published,
    }
