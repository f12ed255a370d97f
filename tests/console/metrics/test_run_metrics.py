"""Metrics of a run from its events: what the page of a console has, and what it leaves out."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace

import fakes
import pytest
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families
from simulated_runs import simulated
from tfscale.console.engine.events import Event, FrameArrived, LinkChanged, LinkState, SecondPassed
from tfscale.console.engine.state_factory import states
from tfscale.console.export.snapshot_once import snapshot_line
from tfscale.console.metrics import run_metrics
from tfscale.console.metrics.run_metrics import RunMetrics
from tfscale.console.metrics.run_page import RunPage
from tfscale.console.sources.simulation.simulated import PLAIN, Shape, simulated_spec
from tfscale.core.metrics.page_server import PageText
from tfscale.core.metrics.task_metrics import STALE
from tfscale.core.records.training import Training

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def metrics_of(events: Sequence[Event], workers: int, shape: Shape = PLAIN) -> Iterator[RunMetrics]:
    """Yield the metrics after each second of a run."""
    state, metrics = states(simulated_spec(workers, shape))(), RunMetrics(simulated_spec(workers, shape))
    for event in events:
        state.fold(event)
        metrics.event_folded(event)
        if isinstance(event, SecondPassed):
            metrics.snapshot_taken(state.snapshot(event.at))
            yield metrics


def last(events: Sequence[Event], workers: int, shape: Shape = PLAIN) -> RunMetrics:
    *_, metrics = metrics_of(events, workers, shape)
    return metrics


def samples(*runs: RunMetrics) -> Samples:
    text = generate_latest(RunPage(lambda: runs)).decode()  # type: ignore[arg-type]
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(page: Samples, name: str, **labels: str) -> float | None:
    return page.get((name, frozenset({"run": "simulated", **labels}.items())))


def names(page: Samples, task: str) -> set[str]:
    return {name for name, labels in page if ("task", task) in labels}


def test_a_straggler_is_a_ratio_a_finding_and_time_that_was_lost() -> None:
    page = samples(last(simulated(40, 3, "worker:1=2x@3s"), 3))
    assert value(page, "tfscale_lag_ratio", task="worker:1") == pytest.approx(2, abs=0.3)
    severities = {dict(labels)["severity"] for name, labels in page if name == "tfscale_diagnosis_active"}
    assert severities
    straggles = {"kind": "straggler", "subject": "worker:1", "severity": "serious"}
    assert value(page, "tfscale_diagnosis_active", **straggles) == 1
    assert (value(page, "tfscale_goodput_seconds_total", bucket="stragglers") or 0) > 5
    assert value(page, "tfscale_task_state", task="worker:1", state="running") == 1
    assert value(page, "tfscale_probe_state", task="worker:1", state="measuring") == 1


def test_phases_add_up_to_the_time_of_the_steps() -> None:
    page = samples(last(simulated(20, 2), 2))
    steps = value(page, "tfscale_steps_total", task="worker:0")
    phases = [number for (name, labels), number in page.items() if name.endswith("phase_seconds_total")]
    assert steps is not None and len(phases) == 10
    assert sum(phases) == pytest.approx(2 * 20, rel=0.15)


def test_a_gpu_joins_dcgm_exporter_by_its_uuid() -> None:
    assert value(
        samples(last(simulated(2, 2), 2)), "tfscale_task_gpu_info", task="worker:1", UUID="GPU-00000001", gpu="0"
    )


def test_counters_never_go_back_over_a_crash_and_a_restart() -> None:
    before: Samples = {}
    for metrics in metrics_of(simulated(70, 3, "worker:1=kill@20s"), 3):
        page = {key: number for key, number in samples(metrics).items() if key[0].endswith("_total")}
        assert all(number >= before.get(key, 0) for key, number in page.items())
        before |= page
    assert any(name == "tfscale_goodput_seconds_total" for name, _ in before)


def test_a_task_whose_agent_is_lost_has_nothing_but_that() -> None:
    events = simulated(10, 2)
    task = simulated_spec(2).lead
    lost = [*events, LinkChanged(events[-1].at, task, LinkState.DOWN, "no answer"), SecondPassed(events[-1].at + 1)]
    page = samples(last(lost, 2))
    assert names(page, str(task)) == {"tfscale_agent_up"} and value(page, "tfscale_agent_up", task=str(task)) == 0
    assert len(names(page, "worker:1")) > 10


def test_an_old_snapshot_shows_only_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = last(simulated(5, 2), 2)
    now = run_metrics.time.monotonic() + STALE + 1
    monkeypatch.setattr(run_metrics.time, "monotonic", lambda: now)
    page = samples(metrics)
    assert {name for name, _ in page} == {"tfscale_build_info", "tfscale_run_snapshot_time_seconds"}
    assert RunPage(lambda: [metrics]).waits() == "1 of 1 runs have no snapshot of now"


def test_a_console_that_goes_through_the_past_shows_nothing_of_it() -> None:
    metrics, state = RunMetrics(fakes.spec()), fakes.folded(fakes.spec(), *fakes.healthy_events(fakes.spec()))
    metrics.snapshot_taken(replace(state.snapshot(fakes.NOW), age=60.0))
    assert not metrics.is_present and not any(name.startswith("tfscale_task") for name, _ in samples(metrics))


def test_workers_of_parameter_servers_have_the_steps_that_their_chief_measures() -> None:
    shape = Shape(1, 0, 0)
    page = samples(last(simulated(15, 2, shape=shape), 2, shape))
    assert (value(page, "tfscale_steps_total", task="worker:0") or 0) > 50


def test_several_runs_are_one_page() -> None:
    first, second = last(simulated(5, 2), 2), RunMetrics(fakes.spec())
    second.snapshot_taken(fakes.folded(fakes.spec(), *fakes.healthy_events(fakes.spec())).snapshot(fakes.NOW))
    page = samples(first, second)
    assert {dict(labels).get("run") for _, labels in page} - {None} == {"simulated", "digits"}


def test_two_clusters_of_one_name_are_told_apart() -> None:
    first, second = last(simulated(3, 2), 2), last(simulated(3, 3), 3)
    names_of_runs = {dict(labels).get("run") for _, labels in samples(first, second)} - {None}
    assert len(names_of_runs) == 2 and names_of_runs == {f"simulated-{each.cluster}" for each in (first, second)}


def test_the_goodput_of_a_new_run_begins_anew() -> None:
    state, metrics = states(simulated_spec(2))(), last(simulated(30, 2), 2)
    before = value(samples(metrics), "tfscale_goodput_seconds_total", bucket="productive")
    for event in simulated(10, 2):
        state.fold(event)
    metrics.snapshot_taken(state.snapshot(event.at))
    after = value(samples(metrics), "tfscale_goodput_seconds_total", bucket="productive")
    assert before is not None and after is not None and after < before / 2


def test_the_page_of_a_thousand_tasks_is_what_prometheus_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_metrics, "STALE", math.inf)
    metrics = last(simulated(3, 1000), 1000)
    page = RunPage(lambda: [metrics])
    writer, wanted = PageText(), "application/openmetrics-text;version=1.0.0"
    text, open_text = (writer.of(page, accepted)[1] for accepted in ("", wanted))
    assert writer.of(page, wanted)[1] == open_text
    assert text == generate_latest(page)  # type: ignore[arg-type]
    assert open_text == exposition.generate_latest(page)  # type: ignore[arg-type]
    assert len(text) < 20e6
    for read, said in ((text_string_to_metric_families, text), (parser.text_string_to_metric_families, open_text)):
        tasks = {each.labels.get("task") for family in read(said.decode()) for each in family.samples}
        assert len(tasks - {None}) == 1000
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_a_gpu_that_tasks_share_has_its_energy_once_and_each_device_its_peak_of_memory() -> None:
    def shared(event: Event) -> Event:
        if not isinstance(event, FrameArrived):
            return event
        gpus = tuple(replace(gpu, uuid="GPU-shared", energy=7.2e6) for gpu in event.frame.gpus)
        probe = event.frame.probe and replace(event.frame.probe, memory_peaks=(31_300_000_000,), flops_per_step=10**9)
        return replace(event, frame=replace(event.frame, gpus=gpus, probe=probe))

    page = samples(last([shared(event) for event in simulated(10, 2)], 2))
    assert value(page, "tfscale_gpu_energy_joules_total", UUID="GPU-shared") == 7.2e6
    assert [name for name, _ in page].count("tfscale_gpu_energy_joules_total") == 1
    assert value(page, "tfscale_device_memory_peak_bytes", task="worker:1", device="GPU:0") == 31.3e9
    assert value(page, "tfscale_step_flops", task="worker:1") == 1e9


def test_a_stated_peak_gives_the_share_that_the_steps_use_on_the_page_and_in_a_snapshot() -> None:
    state, metrics = states(replace(simulated_spec(2), device_peak=1e12))(), RunMetrics(simulated_spec(2))
    for event in simulated(10, 2):
        if isinstance(event, FrameArrived) and event.frame.probe is not None:
            probe = replace(event.frame.probe, flops_per_step=10**9, local_replicas=2)
            event = replace(event, frame=replace(event.frame, probe=probe))
        state.fold(event)
    metrics.snapshot_taken(snapshot := state.snapshot(event.at))
    summary = snapshot.tasks[1].summary
    assert summary is not None and summary.step_time
    assert value(samples(metrics), "tfscale_mfu_ratio", task="worker:1") == 1e9 / (summary.step_time * 2 * 1e12)
    assert snapshot_line(snapshot)["tasks"][1]["mfu"] == snapshot.mfu(snapshot.tasks[1])
    metrics.snapshot_taken(unstated := replace(snapshot, device_peak=None))
    assert value(samples(metrics), "tfscale_mfu_ratio", task="worker:1") is None
    assert snapshot_line(unstated)["tasks"][1]["mfu"] is None


def test_how_much_is_done_and_the_time_left_are_those_of_the_task_that_will_be_done_last() -> None:
    def of_known_length(event: Event) -> Event:
        if not isinstance(event, FrameArrived):
            return event
        left = 60.0 + event.task.index
        training = Training(epoch=0, epochs=2, epoch_step=5, epoch_steps=10, time_left=left)
        return replace(event, frame=replace(event.frame, training=training))

    page = samples(last([of_known_length(event) for event in simulated(10, 2)], 2))
    assert value(page, "tfscale_progress_ratio", task="worker:0") == value(page, "tfscale_run_progress_ratio") == 0.25
    assert value(page, "tfscale_time_left_seconds", task="worker:0") == 60.0
    assert value(page, "tfscale_run_time_left_seconds") == 61.0
    assert value(samples(last(simulated(5, 2), 2)), "tfscale_run_progress_ratio") is None, "no length is known"
