"""Report of measured sizes: the table, the sentences below it, JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tfscale.core.comparison.judgement import Verdict
from tfscale.core.comparison.published_speedups import PUBLISHED, contention
from tfscale.core.comparison.size_forecast import FEWEST_SIZES
from tfscale.core.records.step_batch import PHASES
from tfscale.core.text import aligned, plural, step_time
from tfscale.trainer.launch.shaped_links import parse_link
from tfscale.trainer.scale.measured_sizes import WORTH, MeasuredSizes, Size
from tfscale.trainer.scale.scaling_plan import ScalingPlan

_UNKNOWN = "-"
NOTHING_SAID = "cores were shared: this says nothing about scaling"


def table(sizes: MeasuredSizes) -> str:
    """Return a line for each size and one for the forecast; measured and forecast are told apart."""
    return "\n".join(aligned(size_cells(sizes), left=(1,)))


def size_cells(sizes: MeasuredSizes) -> list[list[str]]:
    """Return the cells of that table, the first line its head."""
    shown = [phase for phase in PHASES if any((size.phase(phase) or 0.0) > 0 for size in sizes.measured)]
    head = [
        f"{sizes.plan.noun}s",
        "",
        "runs",
        sizes.unit,
        "lowest to highest",
        "efficiency",
        "cores",
        "reduced",
        "step",
    ]
    cells = [[*head, *shown]]
    cells += [_row(sizes, size, shown) for size in sizes.all]
    if (told := sizes.forecast) is not None:
        share = sizes.measured[0].rate / sizes.measured[0].workers * told.workers
        band = f"{told.low:,.0f} to {told.high:,.0f}"
        line = [f"{told.workers:g}", "forecast", _UNKNOWN, f"{told.throughput:,.0f}", band]
        cells.append([*line, f"{told.throughput / share:.0%}", *[_UNKNOWN] * 3, *[_UNKNOWN] * len(shown)])
    return cells


def contention_table(sizes: MeasuredSizes) -> str:
    """Return Amdahl's contention of these sizes beside the published ones; empty where it is not known."""
    return "\n".join(aligned(cells, left=(0,))) if (cells := contention_cells(sizes)) else ""


def contention_cells(sizes: MeasuredSizes) -> list[list[str]]:
    """Return the cells of that table, the first line its head."""
    found = sizes.contention if sizes.is_judged else None
    if found is None:
        return []
    speedup = sizes.measured[-1].rate / sizes.measured[0].rate
    own = _contention_row("measured here", found.workers, speedup)
    if found.low is not None and found.high is not None:
        own[4] += f" ({found.low:.3g} to {found.high:.3g})"
    cells = [["contention", "workers", "speedup", "efficiency", "a", "half efficient at", "limit"], own]
    points = [(point, speedup) for point in PUBLISHED for speedup in sorted({point.low, point.high})]
    cells += [_contention_row(f"published: {point.name}", point.workers, speedup) for point, speedup in points]
    return cells


def _contention_row(name: str, workers: int, speedup: float) -> list[str]:
    lasting = contention(workers, speedup)
    ends = [f"{1 + 1 / lasting:,.3g}", f"{1 / lasting:,.3g}x"] if lasting > 0 else [_UNKNOWN, _UNKNOWN]
    return [name, str(workers), f"{speedup:.3g}x", f"{speedup / workers:.0%}", f"{lasting:.3g}", *ends]


def _row(sizes: MeasuredSizes, size: Size, shown: list[str]) -> list[str]:
    if not size.measured:
        return [str(size.number), "failed" if size.reason else "missing", "0", *[_UNKNOWN] * (6 + len(shown))]
    phases = [(size.phase(name), name) for name in shown]
    return [
        str(size.number),
        "measured",
        str(len(size.measured)),
        f"{size.rate:,.0f}",
        f"{min(size.rates):,.0f} to {max(size.rates):,.0f}",
        _UNKNOWN if sizes.is_apart else f"{sizes.efficiency(size):.0%}",
        _cores(sizes, size),
        f"{size.reduced:,} B" if size.reduced else _UNKNOWN,
        step_time(size.step),
        *(_UNKNOWN if value is None else step_time(value) for value, _ in phases),
    ]


def _cores(sizes: MeasuredSizes, size: Size) -> str:
    if sizes.is_shared(size) or size.has_own_cores is False:
        return "shared"
    return "own" if size.has_own_cores else _UNKNOWN


def sentences(sizes: MeasuredSizes) -> Iterator[str]:
    """Yield what follows from the table."""
    plan = sizes.plan
    yield f"{plan.kind} scaling {where(plan)}"
    for size in sizes.failed:
        yield f"{plural(size.number, plan.noun)}: {size.reason}"
    if sizes.missing:
        yield f"not all runs are made yet of: {', '.join(str(size.number) for size in sizes.missing)}"
    unlike = list(unplanned(sizes))
    yield from unlike
    if unlike:
        return
    if len(sizes.measured) < 2:
        yield "two sizes at least are needed to say anything"
        return
    if not plan.workers and not (sizes.measured[0].examples and sizes.measured[-1].examples):
        yield f"the runs do not tell their examples: that this is {plan.kind} scaling is not checked"
    if sizes.says_nothing:
        yield f"{NOTHING_SAID} ({_why_shared(sizes)})"
    elif plan.workers:
        yield from _placement(sizes)
    else:
        yield from _scaling(sizes)


def unplanned(sizes: MeasuredSizes) -> Iterator[str]:
    """Yield what tells that the runs do not scale as planned, as further runs would not; nothing where they do."""
    plan = sizes.plan
    if sizes.is_apart:
        yield "no strategy joins these workers: each trains for itself, unless the script exchanges something by itself"
        if plan.program is None:
            yield f"give the script a MultiWorkerMirroredStrategy; or, where it trains by fit, try one: {_joined(plan)}"
    elif sizes.other_kind:
        first, last = sizes.measured[0], sizes.measured[-1]
        way = f"; --{sizes.other_kind} --folder NEW measures that" if " " not in sizes.other_kind else ""
        yield (
            f"asked for {plan.kind} scaling, but this is {sizes.other_kind}: a step has {first.examples:,} "
            f"examples with {first.workers} and {last.examples:,} with {last.workers}{way}"
        )


def _joined(plan: ScalingPlan) -> str:
    """Return the command that joins these workers by a strategy from outside of the script."""
    sizes = ",".join(map(str, plan.sizes))
    command = shlex.join(plan.words)
    return f"tfscale-train compare --set strategy=multi-worker --set workers={sizes} -- {command}"


def where(plan: ScalingPlan) -> str:
    """Return where the workers are, and what they have: `on this machine, 1 core a worker`."""
    if plan.launcher:
        return f"on hosts, by {' '.join(plan.launcher)}"
    place = f"on this machine, {plural(plan.cores, 'core')} a worker"
    if not plan.link:
        return place
    who = f"; {plan.workers} workers in all, each host" if plan.workers else ", each"
    return f"{place}{who} in a network namespace that sends {parse_link(plan.link)}"


def _why_shared(sizes: MeasuredSizes) -> str:
    first, last = sizes.measured[0], sizes.measured[-1]
    growth = sizes.compute_growth(last)
    compute = (
        f"a step computes {growth + 1:.2f} times as long with {last.number} as with {first.number}"
        if growth is not None
        else ""
    )
    if last.has_own_cores is False:
        return f"{last.workers} workers have fewer cores than they need" + (f"; {compute}" if compute else "")
    if last.has_own_cores is None:
        return f"{compute}, as cores in common, other work on them or a shared memory would cause"
    return f"{compute}, though each had cores of its own, as other work on them or a shared memory would cause"


def _scaling(sizes: MeasuredSizes) -> Iterator[str]:
    first, last = sizes.measured[0], sizes.measured[-1]
    yield (
        f"{plural(last.workers, 'worker')}: {last.rate / first.rate:.2f} times the throughput of {first.workers}, "
        f"{sizes.efficiency(last):.0%} efficient"
    )
    if (sizes.is_shared(last) or last.has_own_cores is False) and (cost := sizes.shared_cost(last)) is not None:
        yield (
            f"cores were shared, which costs the compute {cost:.1%} of the step of {last.workers}; what it costs in "
            "the all-reduce is not known"
        )
    if last.reduced and last.link_bytes:
        yield (
            f"each worker gives {last.reduced:,} bytes a step to collectives; on a ring of {last.workers} each link "
            f"carries {last.link_bytes:,.0f}"
        )
    yield from _forecast(sizes)
    share = f"{WORTH:.0%} of one of {first.workers}" if first.workers > 1 else f"{WORTH:.0%} of one alone"
    if sizes.knee is None:
        yield f"no knee up to {last.workers}: each further worker brings more than {share}"
    else:
        yield f"knee at {sizes.knee}: workers beyond bring less than {share}"
    if (size := sizes.next_size) is not None:
        needed = "" if sizes.plan.launcher else f", which need {plural(size * sizes.plan.cores, 'core')}"
        yield f"worth measuring next: {size} workers{needed}"
    yield from _downwards(sizes)


def _placement(sizes: MeasuredSizes) -> Iterator[str]:
    first = sizes.measured[0]
    for size in sizes.measured[1:]:
        judged = sizes.against(first, size)
        yield (
            f"{sizes.plan.workers} workers on {plural(size.number, 'host')}: {size.rate / first.rate:.2f} times the "
            f"throughput on {first.number}, {judged.verdict} (time of the same work {judged.interval})"
        )


def _forecast(sizes: MeasuredSizes) -> Iterator[str]:
    if (told := sizes.forecast) is None:
        yield f"no forecast: {plural(len(sizes.measured), 'size')} measured, {FEWEST_SIZES} are needed"
        return
    band = f"{told.low:,.0f} to {told.high:,.0f}"
    yield (
        f"forecast, not measured: {told.workers:g} workers {told.throughput:,.0f} {sizes.unit} ({band}), if a fifth of "
        "the last change goes on; the band holds Amdahl's law and the line through the last two sizes"
    )


def _downwards(sizes: MeasuredSizes) -> Iterator[str]:
    last = sizes.measured[-1]
    if (found := sizes.as_fast) is not None:
        size, judged = found
        few = "one worker alone" if size.workers == 1 else plural(size.workers, "worker")
        is_faster = judged.verdict is Verdict.FASTER
        how = f"{1 / (1 + judged.change):.2f}x faster than" if is_faster else "as fast as"
        yield f"{few} would be {how} these {last.workers} (time of the same work {judged.interval})"
    elif (perhaps := sizes.perhaps_as_fast) is not None:
        yield f"whether {perhaps.workers} would be as fast as these {last.workers} is undecided: more --runs would tell"


def as_json(sizes: MeasuredSizes) -> str:
    """Return all of it: plan, sizes with their runs, what follows."""
    told = sizes.forecast if sizes.measured else None
    found: dict[str, Any] = {
        "plan": asdict(sizes.plan),
        "unit": sizes.unit,
        "sizes": [_numbers(sizes, size) for size in sizes.all],
        "cores_were_shared": sizes.says_nothing,
        "other_kind": sizes.other_kind or None,
        "apart": sizes.is_apart,
        "forecast": asdict(told) if told else None,
    }
    if sizes.is_judged:
        fast, lasting = sizes.as_fast, sizes.contention
        found |= {"contention": asdict(lasting) if lasting else None}
        found |= {"knee": sizes.knee, "next": sizes.next_size, "as_fast": fast[0].workers if fast else None}
    return json.dumps(found | {"sentences": list(sentences(sizes))}) + "\n"


def _numbers(sizes: MeasuredSizes, size: Size) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        "number": size.number,
        "workers": size.workers,
        "reason": size.reason,
        "runs": [asdict(run) for run in size.runs],
    }
    if size.measured:
        numbers |= {
            "rate": size.rate,
            "rates": size.rates,
            "efficiency": sizes.efficiency(size),
            "step": size.step,
            "reduced_bytes": size.reduced,
            "link_bytes": size.link_bytes,
            "compute_growth": sizes.compute_growth(size),
            "shared": sizes.is_shared(size),
            "shared_cost": sizes.shared_cost(size),
        }
        numbers |= {phase: size.phase(phase) for phase in PHASES}
    return numbers
