"""Earlier runs as their baselines tell them: those that can be compared with each other, and what differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfscale.console.analysis.baselines.baseline import Baseline
from tfscale.console.analysis.baselines.run_facts import BaselineKey, changes
from tfscale.core.plots.chart import Axis, CurveChart, Kind, Point, Series
from tfscale.core.text import aligned, moment, plural, step_time
from tfscale.core.wire.json_records import encode


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """Attempts of one program with one number of replicas on one kind of hardware, the oldest first."""

    key: BaselineKey
    runs: Sequence[Baseline]

    @property
    def name(self) -> str:
        """Name of what these runs have in common."""
        return f"{self.key.program}; {plural(self.key.size, 'replica')}; {self.key.hardware}"

    @property
    def has_examples(self) -> bool:
        """True where all of them tell the examples of a step."""
        return all(run.facts.work.batch for run in self.runs)

    def rate(self, run: Baseline, step: float) -> float:
        """Return the throughput of a run with steps of so many seconds, in steps where examples are not known."""
        return ((run.facts.work.batch or 1) if self.has_examples else 1) / step

    @property
    def changes(self) -> Iterator[str]:
        """Yield what differs between each run and the one before."""
        yield ""
        for before, run in zip(self.runs, self.runs[1:], strict=False):
            yield "; ".join(changes(before.facts, run.facts))


def known_runs(baselines: Sequence[Baseline]) -> list[KnownRuns]:
    """Return the runs of these baselines, those of the newest run last."""
    found: dict[BaselineKey, list[Baseline]] = defaultdict(list)
    for each in sorted(baselines, key=lambda each: each.begin):
        if each.key is not None:
            found[each.key].append(each)
    return sorted((KnownRuns(key, runs) for key, runs in found.items()), key=lambda known: known.runs[-1].begin)


def as_lines(known: KnownRuns) -> list[str]:
    """Return the name of these runs, and a line for each."""
    cells = [("run", "began", "step", "examples/s", "")]
    for number, (run, changed) in enumerate(zip(known.runs, known.changes, strict=True), start=1):
        batch = run.facts.work.batch
        rate = f"{batch / run.step:,.0f}" if batch else "-"
        cells.append((str(number), moment(run.begin), step_time(run.step), rate, changed))
    return [known.name, *aligned(cells, left=(4,))]


def as_json(known: KnownRuns) -> dict[str, Any]:
    """Return all that is known of these runs; times are in seconds."""
    runs = [encode(run) | {"step": run.step} for run in known.runs]
    return {"program": known.key.program, "replicas": known.key.size, "hardware": known.key.hardware, "runs": runs}


def runs_chart(known: KnownRuns) -> CurveChart:
    """Return the chart of these runs' throughput, one after the other."""
    points = [
        Point(number, known.rate(run, run.step), known.rate(run, max(run.most, run.step)), known.rate(run, run.step))
        for number, run in enumerate(known.runs, start=1)
    ]
    differing = [f"{number}: {words}" for number, words in enumerate(known.changes, start=1) if words]
    first, last = (moment(known.runs[place].begin) for place in (0, -1))
    return CurveChart(
        f"Earlier runs: {known.name}",
        Axis("run"),
        Axis("throughput", "examples/s" if known.has_examples else "steps/s"),
        [Series("usual", Kind.MEASURED, points)],
        notes=[f"from {first} to {last}; bars: down to where noise alone takes a step", *differing],
    )
