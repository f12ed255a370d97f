"""The report as one HTML page without further files."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from tfscale.console.report.differences import compared
from tfscale.console.report.formats import svg_plots
from tfscale.console.report.formats.report_text import (
    COLUMNS,
    RANGE_COLUMNS,
    cells,
    details,
    same_settings,
    training_rows,
)
from tfscale.console.report.formats.run_charts import gauge_charts, training_charts
from tfscale.console.report.measured_scaling import scaling_over_runs
from tfscale.console.report.run_report import RunGroup, RunReport
from tfscale.console.report.verdict import verdict


def as_html(report: RunReport) -> str:
    """Return the page."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.render(
        report=report,
        plots=svg_plots,
        severity=svg_plots.SEVERITY,
        colours=[(colour, part) for part, colour in svg_plots.COLOURS.items()],
        columns=COLUMNS,
        cells=cells,
        range_columns=RANGE_COLUMNS,
        training_rows=training_rows,
        shares=shares,
        verdict=verdict,
        details=details,
        measured=scaling_over_runs(report.groups) if report.has_clock else None,
        comparison=compared(report.groups) if report.has_clock else None,
        same_settings=same_settings,
        training_charts=list(training_charts(report)),
        gauge_charts=list(gauge_charts(report)),
    )


def shares(group: RunGroup) -> list[tuple[str, float]]:
    """Return (bucket, share of the time), the largest first."""
    total = sum(group.spent.values())
    spent = sorted(group.spent.items(), key=lambda item: -item[1])
    return [(bucket.replace("_", " "), seconds / total) for bucket, seconds in spent if seconds > 0]
