"""An analysis that survives its own failures: each is reported once, and the console goes on without a diagnosis."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from tfscale.console.analysis.findings import Findings
from tfscale.console.engine.state import Analysis
from tfscale.core.records.frame import Description, Frame


class ResilientAnalysis:
    """Analysis of a live console. `report` gets one line for each failure that differs from those before.

    After a failure there is no diagnosis: earlier findings may be outdated, and are not shown.
    """

    def __init__(self, analysis: Analysis, report: Callable[[str], None]) -> None:
        self._analysis = analysis
        self._report = report
        self._reported: set[str] = set()

    def observe(self, task: str, frame: Frame) -> None:
        try:
            self._analysis.observe(task, frame)
        except Exception as error:
            self._report_once(_description(error))

    def describe(self, task: str, description: Description) -> None:
        self._analysis.describe(task, description)

    def note_link(self, task: str, up: bool, at: float, *, has_left: bool) -> None:
        self._analysis.note_link(task, up, at, has_left=has_left)

    def diagnose(self, now: float) -> Findings:
        try:
            return self._analysis.diagnose(now)
        except Exception as error:
            failure = _description(error)
            self._report_once(failure)
            return Findings(headline=f"nothing is diagnosed: {failure}")

    def _report_once(self, failure: str) -> None:
        if failure not in self._reported:
            self._reported.add(failure)
            self._report(f"{failure}; all else goes on; please report it")


def _description(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"the diagnosis failed at {Path(place.filename).name}:{place.lineno} ({type(error).__name__}: {error})"
