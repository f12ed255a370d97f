"""Conclusions from sizes whose times follow a known law, with a noise of 0.5 %, and their chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tfscale.core.plots.chart import Kind
from tfscale.trainer.compare.measured_run import MeasuredRun
from tfscale.trainer.scale.measured_sizes import MeasuredSizes
from tfscale.trainer.scale.scaling_plan import ScalingPlan
from tfscale.trainer.scale.scaling_report import NOTHING_SAID, contention_table, sentences, table
from tfscale.trainer.scale.sizes_chart import sizes_chart

COMPUTE, BATCH = 0.010, 64


def law(
    reduce: Callable[[int], float],
    sizes: Sequence[int] = (1, 2, 4),
    *,
    is_strong: bool = False,
    grows: float = 0.0,
    batch: Callable[[int], int] | None = None,
    has_own_cores: bool | None = True,
    is_joined: bool = True,
    workers: int | None = None,
) -> MeasuredSizes:
    """Return three runs of each size.

    Args:
        reduce: seconds of an all-reduce by number of workers.
        sizes: numbers of workers.
        is_strong: whether all workers share the work of one.
        grows: growth of a worker's compute for each further worker, as a fraction.
        batch: examples of a step by number of workers.
        has_own_cores: of all sizes; one worker alone has its own, where that is known.
        is_joined: whether a strategy joins the workers.
        workers: of all sizes, which are then numbers of hosts.
    """
    noise = np.random.default_rng(0)
    plan = ScalingPlan(None, ["train"], sizes, is_strong, None, 1, 3, None, {}, workers=workers)
    examples = batch or (lambda size: BATCH if is_strong else BATCH * (workers or size))
    runs = {}
    for size in sizes:
        compute = COMPUTE * (1 + grows * (size - 1)) / (size if is_strong else 1)
        steps = [(compute + reduce(size)) * float(np.exp(noise.normal(0, 0.005))) for _ in range(3)]
        own = True if has_own_cores is False and size == 1 else has_own_cores
        facts = {
            "phases": {"compute": compute, "reduce": reduce(size)},
            "examples": examples(size) or None,
            "is_joined": is_joined,
            "reduced": 670_248,
        }
        runs[size] = [
            MeasuredRun(str(size), number, steps=200, step=step, has_own_cores=own, **facts)  # type: ignore[arg-type]
            for number, step in enumerate(steps)
        ]
    return MeasuredSizes(plan, runs)


def told(sizes: MeasuredSizes) -> str:
    return "\n".join([table(sizes), *sentences(sizes), contention_table(sizes)])


@pytest.mark.parametrize("is_strong", [False, True])
def test_the_forecast_holds_a_small_contention_and_no_knee_is_told(is_strong: bool) -> None:
    def cost(size: int) -> float:
        return 0.0002 * (size - 1) / (size if is_strong else 1)

    sizes = law(cost, is_strong=is_strong)
    found, truth = sizes.forecast, law(cost, (1, 8), is_strong=is_strong).measured[-1].rate
    assert found is not None and found.low <= truth <= found.high and found.workers == 8
    assert (sizes.knee, sizes.next_size, sizes.as_fast) == (None, 8, None)
    assert "8  forecast" in told(sizes) and "forecast, not measured: 8 workers" in told(sizes)


def test_a_knee_is_told_with_the_size_between() -> None:
    sizes = law(lambda size: 0.02 if size > 2 else 0.0, (1, 2, 8))
    assert (sizes.knee, sizes.next_size) == (2, 5)
    assert "knee at 2: workers beyond bring less than 50% of one alone" in told(sizes)
    assert law(lambda size: 0.02 if size > 1 else 0.0, (1, 2)).next_size is None


def test_fewer_workers_that_are_as_fast_are_named() -> None:
    sizes = law(lambda size: {1: 0.0, 2: 0.0, 4: 0.01}[size])
    assert sizes.as_fast is not None and sizes.as_fast[0].workers == 2
    assert "2 workers would be as fast as these 4" in told(sizes)
    alone = law(lambda size: 0.05 if size > 1 else 0.0)
    assert "one worker alone would be 1.5" in told(alone) and "x faster than these 4" in told(alone)


def test_workers_that_shared_cores_say_nothing() -> None:
    shared = law(lambda _: 0.0, grows=0.02)
    assert shared.says_nothing and shared.forecast is None
    assert f"{NOTHING_SAID} (a step computes 1.06 times as long with 4 as with 1, though each had" in told(shared)
    assert "forecast" not in told(shared) and "knee" not in told(shared)
    assert not law(lambda _: 0.0, grows=0.01).says_nothing
    fewer = law(lambda _: 0.0, is_strong=True, has_own_cores=False)
    assert f"{NOTHING_SAID} (4 workers have fewer cores than they need)" in told(fewer)

    elsewhere = law(lambda _: 0.0, grows=0.02, has_own_cores=None)
    assert "4 as with 1, as cores in common, other work on them or a shared memory would cause)" in told(elsewhere)
    unknown = table(law(lambda _: 0.0, has_own_cores=None))
    assert "own" not in unknown and "shared" not in unknown

    idle = law(lambda _: 0.2, grows=0.1)
    assert not idle.says_nothing and idle.compute_growth(idle.measured[-1]) is None
    assert law(lambda _: 0.2, grows=0.1, has_own_cores=False).says_nothing


def test_two_sizes_make_no_forecast() -> None:
    sizes = law(lambda _: 0.0, (1, 2))
    assert sizes.forecast is None
    assert "no forecast: 2 sizes measured, 3 are needed" in told(sizes)


def test_a_script_that_scales_the_other_way_is_told() -> None:
    other = law(lambda _: 0.0, batch=lambda _: BATCH)
    assert other.other_kind == "strong" and other.forecast is None
    assert "asked for weak scaling, but this is strong: a step has 64 examples with 1 and 64 with 4; --strong" in told(
        other
    )
    assert law(lambda _: 0.0, is_strong=True, batch=lambda size: BATCH * size).other_kind == "weak"
    unknown = law(lambda _: 0.0, batch=lambda _: 0)
    assert unknown.unit == "worker-steps/s" and "that this is weak scaling is not checked" in told(unknown)


def test_workers_that_no_strategy_joins_are_no_scaling() -> None:
    apart = law(lambda _: 0.0, is_joined=False)
    assert apart.is_apart and apart.forecast is None
    assert "no strategy joins these workers" in told(apart) and "%" not in told(apart)
    assert not law(lambda _: 0.0).is_apart


def test_the_contention_of_amdahls_law_is_found_again_beside_the_published_ones() -> None:
    sizes = law(lambda size: 0.05 * COMPUTE * (size - 1), (1, 2, 4, 8))
    found = sizes.contention
    assert found is not None and found.low is not None and found.high is not None
    assert found.low < 0.05 < found.high < 0.055 and found.low > 0.045
    lines = told(sizes).splitlines()
    (own,) = [line for line in lines if line.startswith("measured here ")]
    assert f"({found.low:.3g} to {found.high:.3g})" in own
    assert [line.split()[-1] for line in lines if line.startswith("published: ")] == [
        "21x",
        "87.1x",
        "49x",
        "196x",
        "748x",
    ]
    single = MeasuredSizes(sizes.plan, {size.workers: size.runs[:1] for size in sizes.all}).contention
    assert single is not None and single.low is None
    for unknown in (law(lambda _: 0.0, (2, 4)), law(lambda _: 0.0, grows=0.02), law(lambda _: 0.0, is_joined=False)):
        assert "published" not in told(unknown)


def test_the_bytes_of_a_step_are_exact_and_those_of_a_link_follow_the_ring() -> None:
    sizes = law(lambda _: 0.0)
    assert [size.reduced for size in sizes.all] == [None, 670_248, 670_248]
    assert [size.link_bytes for size in sizes.all] == [None, 670_248, 670_248 * 3 / 2]
    assert "each worker gives 670,248 bytes a step to collectives; on a ring of 4 each link carries 1,005,372" in told(
        sizes
    )


def test_the_chart_has_what_is_measured_apart_from_the_forecast() -> None:
    sizes = law(lambda size: 0.02 if size > 2 else 0.0, (1, 2, 8))
    chart = sizes_chart(sizes)
    measured, forecast, ideal = chart.series
    assert [each.kind for each in chart.series] == [Kind.MEASURED, Kind.FORECAST, Kind.REFERENCE]
    assert [point.x for point in measured.points] == [1, 2, 8]
    assert [point.x for point in forecast.points] == [8, 16] and forecast.points[0].y == sizes.measured[-1].rate
    assert ideal.points[-1].y == pytest.approx(16 * sizes.measured[0].rate)
    assert [mark.name for mark in chart.marks] == ["knee at 2"]
    assert (chart.title, chart.y.label, chart.x.is_log) == ("Weak scaling: train", "throughput (examples/s)", True)


def test_the_chart_of_shared_cores_says_so_and_has_no_forecast() -> None:
    chart = sizes_chart(law(lambda _: 0.0, grows=0.02))
    assert NOTHING_SAID in chart.notes and not chart.marks
    assert [each.kind for each in chart.series] == [Kind.MEASURED, Kind.REFERENCE]


def test_cores_that_are_shared_while_workers_wait_for_a_slow_link_cost_little() -> None:
    sizes = law(lambda size: 0.2 * (size > 1), grows=0.2, has_own_cores=False)
    last = sizes.measured[-1]
    assert sizes.is_shared(last) and not sizes.says_nothing and sizes.forecast is not None
    assert sizes.shared_cost(last) == pytest.approx(0.6 * COMPUTE / 0.216, rel=0.02)
    assert "cores were shared, which costs the compute 2.8% of the step of 4; what it costs in" in told(sizes)
    assert law(lambda size: 0.05 * (size > 1), grows=0.2, has_own_cores=False).says_nothing


def test_the_same_workers_on_more_hosts_are_compared_and_not_scaled() -> None:
    sizes = law(lambda hosts: 0.0 if hosts == 1 else 0.01, workers=4)
    assert "4 workers on 4 hosts: 0.50 times the throughput on 1, slower (time of the same work +1" in told(sizes)
    assert "4 workers in all" not in told(sizes) and "knee" not in told(sizes) and "forecast" not in told(sizes)
    assert [size.workers for size in sizes.all] == [4, 4, 4] and sizes.contention is None and sizes.next_size is None
    assert told(sizes).startswith("hosts ")
    chart = sizes_chart(sizes)
    assert [each.name for each in chart.series] == ["measured"] and chart.x.name == "hosts"
    assert chart.title == "4 workers, by hosts: train"
    shared = law(lambda _: 0.0, workers=4, has_own_cores=False)
    assert shared.says_nothing and "4 workers have fewer cores than they need" in told(shared)
