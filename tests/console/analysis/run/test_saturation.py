"""Limits of a cluster, found in raw counters and steps, beside a twin that is not at its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from phase_simulation import Simulation
from tfscale.console.analysis.causes.vitals import Vitals
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.network.uneven_servers import ServerExchange
from tfscale.console.analysis.open_diagnoses import OpenDiagnoses
from tfscale.console.analysis.run.load import Load
from tfscale.console.analysis.run.saturation import Limit, SaturationWatch, limits
from tfscale.console.engine.timeline.event_text import end_text
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample, HostSample, Interface
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus

BUSY_GPU = GpuSample(0, "GPU-0", "H100", utilisation=0.97, memory_used=40 << 30, memory_total=80 << 30)


def host(cpu: float = 0.4, sent: float = 1e6, received: float = 1e6, speed: float | None = None) -> HostSample:
    interfaces = (Interface("lo", 9e9, 9e9, None), Interface("eth0", received, sent, speed))
    return HostSample(cpu, 16, 4.0, 8 << 30, 64 << 30, 0, interfaces=interfaces)


def watch(**run: Any) -> list[Diagnosis]:
    """Return the diagnoses that are open at the end of a run (see `evaluations`)."""
    *_, last = evaluations(**run)
    return [each for each in last if each.end is None]


def evaluations(
    *,
    links: dict[str, str] | None = None,
    transfer: float = 0.0,
    payload: int | None = None,
    program: dict[str, Any] | None = None,
    slow: tuple[Slow, ...] = (),
    gpu: GpuSample | None = None,
    sample: HostSample | None = None,
    seconds: float = 40.0,
) -> Iterator[tuple[Diagnosis, ...]]:
    """Yield the diagnoses of each second of a run of 4 workers, each with `transfer` more in its reduce."""
    addresses = [f"10.0.0.{index}:1" for index in range(4)]
    spec = parse_cluster({"cluster": {"worker": addresses}, "links": links or {}}, name="x", where="x", base=Path())
    observer = Diagnostician(spec)
    for worker in range(4):
        observer.note_link(f"worker:{worker}", True, 0.0)
    transfers = Slow(0, extra=transfer, phase="reduce")
    probe = ProbeStatus(
        ProbeState.MEASURING,
        ranks=4,
        replicas=4,
        local_replicas=1,
        reduced_bytes_per_step=payload,
        **(program or {}),
    )
    for task, frame in Simulation(4, 20.0, seconds, slow=(*slow, transfers)).frames():
        gpus = () if gpu is None else (gpu,)
        observer.observe(task, replace(frame, probe=probe, host=sample or host(), gpus=gpus))
        if task == "worker:3":
            yield observer.diagnose(frame.at).diagnoses


def test_a_cluster_that_is_at_no_limit_is_healthy() -> None:
    assert watch(payload=4_000_000, links={"default": "10Gbit/s"}) == []


def test_a_long_all_reduce_is_communication_bound_with_what_would_help() -> None:
    (found,) = watch(transfer=0.05)
    assert (found.kind, found.subject, found.severity) == ("saturation", "cluster", "warning")
    assert found.evidence["resource"] == "communication"
    assert found.evidence["fraction"] == pytest.approx(0.57, abs=0.03)
    assert found.sentence.startswith("communication-bound: the all-reduce takes 5")
    assert "what would help: gradients cast to bfloat16 for the wire (at most +3" in found.sentence
    remedies = "; ".join(map(str, found.remedies))
    assert "accumulating 4 micro-batches of this size (+7" in remedies
    assert remedies.endswith("fewer, stronger GPUs")


def test_what_the_program_does_already_is_not_advised_but_more_of_it() -> None:
    (accumulates,) = watch(transfer=0.05, program={"micro_batches": 4})
    assert accumulates.sentence.startswith("communication-bound: the all-reduce takes 5")
    assert "% of each step of 4 micro-batches" in accumulates.sentence
    assert "accumulating 16 micro-batches of this size instead of 4 (+7" in "; ".join(map(str, accumulates.remedies))
    (narrow,) = watch(transfer=0.05, program={"wire_type": "bfloat16"})
    assert "bfloat16" not in "; ".join(map(str, narrow.remedies))
    (local,) = watch(transfer=0.05, program={"local_steps": 8})
    assert "% of each round of 8 local steps; what would help: an all-reduce in 32 local steps, not 8" in local.sentence
    assert "bfloat16" not in "; ".join(map(str, local.remedies)) and "micro" not in "; ".join(map(str, local.remedies))


def test_an_all_gather_of_sparse_gradients_is_told_as_such_with_the_bytes_that_it_moves() -> None:
    sparse = {"gathered_bytes_per_step": 4_000_000, "dense_bytes_per_step": 400_000_000}
    (found,) = watch(transfer=0.323, payload=4_000_000, program=sparse, links={"default": "1Gbit/s"}, seconds=60)
    assert "the all-gather of sparse gradients, which grows with every worker, takes 8" in found.sentence
    assert found.evidence["bus_bandwidth"] == pytest.approx(8 * 3 * 4e6 / 0.3295, rel=0.02)
    remedies = "; ".join(map(str, found.remedies))
    assert "embeddings on parameter servers" in remedies
    assert "made dense" not in remedies and "accumulating" not in remedies


def test_sparse_gradients_of_a_small_table_are_better_dense() -> None:
    sparse = {"gathered_bytes_per_step": 4_000_000, "dense_bytes_per_step": 2_000_000}
    (found,) = watch(transfer=0.05, payload=4_000_000, program=sparse)
    assert "what would help: sparse gradients made dense (tf.convert_to_tensor)" in found.sentence


def test_entries_that_the_program_gathers_are_no_sparse_gradients() -> None:
    (found,) = watch(transfer=0.05, payload=4_000_000, program={"gathered_bytes_per_step": 4_000_000})
    assert "communication-bound: the all-gather takes 5" in found.sentence
    assert "fewer entries to gather" in "; ".join(map(str, found.remedies))


def test_a_link_is_full_by_the_speed_in_the_cluster_file() -> None:
    full = 0.0065 + 0.323
    payload = int(185e6 / 8 * full / 1.5)
    (found,) = watch(transfer=0.323, payload=payload, links={"default": "1Gbit/s", "worker:2": "200Mbit/s"}, seconds=60)
    assert found.evidence["resource"] == "link"
    assert found.evidence["bus_bandwidth"] == pytest.approx(185e6, rel=0.02)
    assert (found.evidence["link"], found.evidence["link_from"]) == (200e6, "the cluster file")
    assert "and the link is full (18" in found.sentence
    assert "of 200 Mbit/s, 9" in found.sentence


def test_without_a_speed_there_is_no_verdict_on_the_link() -> None:
    (found,) = watch(transfer=0.05, payload=7_000_000)
    assert found.evidence["resource"] == "communication"
    assert "link" not in found.sentence
    assert found.evidence["bus_bandwidth"] is not None


def test_the_drivers_word_counts_until_it_is_refuted() -> None:
    (believed,) = watch(transfer=0.05, payload=10_000_000, sample=host(speed=10e9))
    assert (believed.evidence["link"], believed.evidence["link_from"]) == (10e9, "the interface's driver")
    assert "though the link is not full" in believed.sentence
    (refuted,) = watch(transfer=0.05, payload=10_000_000, sample=host(speed=100e6, sent=50e6))
    assert "link" not in refuted.evidence


def test_every_worker_that_waits_for_data_is_input_bound() -> None:
    (found,) = watch(slow=tuple(Slow(worker, extra=0.04, phase="input") for worker in range(4)))
    assert (found.evidence["resource"], found.severity) == ("input", "warning")
    assert found.sentence.startswith("input-bound: every worker waits 4")
    assert "prefetching and parallel maps (at most +" in found.sentence


def test_where_one_worker_does_not_wait_for_data_those_that_do_are_named() -> None:
    (found,) = watch(slow=tuple(Slow(worker, extra=0.04, phase="input") for worker in range(3)))
    assert found.evidence["waiting"] == ("worker:0", "worker:1", "worker:2")
    assert found.sentence.startswith("input-bound: worker:0, 1 and 2 wait 4")
    assert " of each step for their data, the others for them" in found.sentence


def test_gpus_that_compute_all_the_time_are_told_as_such() -> None:
    (found,) = watch(gpu=BUSY_GPU)
    assert (found.evidence["resource"], found.severity) == ("gpu", "info")
    assert "8 workers instead of 4 (at most +" in found.sentence
    assert watch(gpu=replace(BUSY_GPU, utilisation=0.6)) == []


def test_gpus_in_use_that_only_wait_in_the_all_reduce_are_not_the_limit() -> None:
    (found,) = watch(gpu=BUSY_GPU, transfer=0.05)
    assert found.evidence["resource"] == "communication"


def test_full_gpu_memory_and_full_cpus() -> None:
    (memory,) = watch(gpu=replace(BUSY_GPU, utilisation=0.5, memory_used=79 << 30))
    assert (memory.evidence["resource"], memory.evidence["fraction"]) == ("gpu_memory", pytest.approx(0.9875))
    (cpu,) = watch(gpu=replace(BUSY_GPU, utilisation=0.5), sample=host(cpu=0.99))
    assert (cpu.evidence["resource"], cpu.severity) == ("cpu", "warning")
    (beside,) = watch(gpu=replace(BUSY_GPU, utilisation=0.5), sample=host(cpu=0.99), transfer=0.05)
    assert (beside.evidence["resource"], beside.evidence["also"]) == ("communication", ("cpu",))


def test_nothing_is_said_of_limits_while_somebody_straggles() -> None:
    assert [each.kind for each in watch(transfer=0.05, slow=(Slow(1, extra=0.08),))] == ["straggler"]


HALF_BUSY = replace(BUSY_GPU, utilisation=0.5)
LONG = {"transfer": 0.323, "links": {"default": "200Mbit/s"}, "seconds": 60.0}
LIMITS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "communication": ({"transfer": 0.05}, {"transfer": 0.005}),
    "link": ({**LONG, "payload": 5_000_000}, {"links": {"default": "200Mbit/s"}, "payload": 50_000}),
    "input": (
        {"slow": tuple(Slow(worker, extra=0.04, phase="input") for worker in range(4))},
        {"slow": tuple(Slow(worker, extra=0.004, phase="input") for worker in range(4))},
    ),
    "gpu": ({"gpu": BUSY_GPU}, {"gpu": HALF_BUSY}),
    "gpu_memory": (
        {"gpu": replace(HALF_BUSY, memory_used=79 << 30)},
        {"gpu": replace(HALF_BUSY, memory_used=70 << 30)},
    ),
    "cpu": ({"sample": host(cpu=0.99)}, {"sample": host(cpu=0.9)}),
}
"""Raw counters and steps of each limit of the cluster, and those of a twin that is not at it."""


@pytest.mark.parametrize("resource", LIMITS)
def test_each_limit_is_told_and_its_healthy_twin_is_not(resource: str) -> None:
    at_limit, healthy = LIMITS[resource]
    (found,) = watch(**at_limit)
    assert (found.kind, found.subject, found.evidence["resource"]) == ("saturation", "cluster", resource)
    assert "also" not in found.evidence or found.evidence["also"] is None
    assert watch(**healthy) == []


@pytest.mark.parametrize("resource", LIMITS)
def test_each_limit_is_told_with_another(resource: str) -> None:
    beside: dict[str, Any] = (
        {"gpu": replace(HALF_BUSY, memory_used=79 << 30)} if resource == "cpu" else {"sample": host(cpu=0.99)}
    )
    (found,) = watch(**{**LIMITS[resource][0], **beside})
    told = {found.evidence["resource"], *(found.evidence["also"] or ())}
    assert told == {resource, "gpu_memory" if resource == "cpu" else "cpu"}


def test_a_full_link_of_a_server_or_a_worker_is_told_from_its_interfaces(cluster: Callable[..., ClusterSpec]) -> None:
    spec = cluster(2, ps=["10.0.1.1:1"])
    spec = replace(spec, link_speeds={"default": 200e6})
    busy = {"ps:0": host(sent=24e6), "worker:1": host(received=22e6), "worker:0": host(sent=15e6)}
    observer, blind = Diagnostician(spec), ProbeStatus(ProbeState.DISABLED)
    for task in busy:
        observer.note_link(task, True, 0.0)
    for second in range(1, 31):
        for task, sample in busy.items():
            status = TaskStatus(TaskState.RUNNING, 1, 1, started=0.0)
            observer.observe(task, Frame(second, float(second), status, blind, host=sample))
        findings = observer.diagnose(float(second))
    full = {each.subject: each.evidence["resource"] for each in findings.diagnoses if each.kind == "saturation"}
    assert full == {"ps:0": "server_link", "worker:1": "task_link"}


LOAD = Load(step=1.0, transfer=0.1, input=0.01, compute=0.8, ranks=2)


def test_a_parameter_servers_link_is_its_own_subject() -> None:
    vitals = {"worker:0": Vitals(sent=5e6, received=5e6), "ps:0": Vitals(sent=24e6, received=12e6)}
    (found,) = limits(LOAD, vitals, {"worker:0": 200e6, "ps:0": 200e6})
    assert (found.resource, found.subject, found.fraction) == ("server_link", "ps:0", pytest.approx(0.96))
    assert found.sentence == "the link of ps:0 is full: it sends 192 Mbit/s of 200 Mbit/s (96%)"
    assert str(found.remedies[0]).startswith("twice as many parameter servers (at most +")
    assert limits(LOAD, vitals, {"worker:0": None, "ps:0": None}) == []


def test_a_full_link_of_the_busiest_server_tells_what_even_servers_would_gain() -> None:
    vitals, speeds = {"ps:0": Vitals(sent=24e6, received=12e6)}, {"ps:0": 200e6}
    (found,) = limits(LOAD, vitals, speeds, servers=ServerExchange({"ps:0": 90, "ps:1": 10}, 100))
    assert found.sentence.endswith("(96%), and moves 90.0% of what workers exchange with 2 servers")
    spread = "variables spread evenly over the parameter servers (at most +80% throughput)"
    assert str(found.remedies[0]) == spread
    (even,) = limits(LOAD, vitals, speeds, servers=ServerExchange({"ps:0": 60, "ps:1": 40}, 100))
    assert str(even.remedies[0]).startswith("twice as many parameter servers (at most +")


def test_what_is_told_has_lasted_and_stays_through_trembling() -> None:
    saturation, told = SaturationWatch(), []
    for second in range(100):
        share = 0.32 if second < 5 else 0.2 if second < 20 else 0.32 - 0.04 * (second % 2) if second < 60 else 0.2
        found = saturation.diagnose(replace(LOAD, transfer=share), {}, {}, float(second))
        told.append(len(found))
    assert sum(told[:30]) == 0
    assert all(told[31:69])
    assert sum(told[70:]) == 0


def test_one_worker_has_no_network_to_be_bound_by() -> None:
    alone = replace(LOAD, ranks=1, transfer=0.5)
    found: list[Limit] = limits(alone, {}, {})
    assert found == []


@pytest.mark.parametrize(
    ("shares", "resource", "severity"),
    [
        ({"compile": 0.61, "python": 0.3, "productive": 0.09}, "compile", "serious"),
        ({"checkpoint": 0.25, "productive": 0.75}, "checkpoint", "info"),
        ({"evaluation": 0.6, "productive": 0.4}, "evaluation", "info"),
        ({"python": 0.95, "productive": 0.05}, "python", "info"),
    ],
)
def test_what_takes_the_time_beside_the_steps_is_told(shares: dict[str, float], resource: str, severity: str) -> None:
    found = limits(replace(LOAD, ranks=1), {}, {}, shares=shares)[0]
    assert (found.resource, found.severity, found.remedies != ()) == (resource, severity, True)
    assert f"{shares[resource]:.0%} of the time" in found.sentence


def test_the_line_of_what_else_to_do_stands_by_itself() -> None:
    saturation = SaturationWatch()
    for second in range(30):
        (found,) = saturation.diagnose(None, {}, {}, float(second), {"python": 0.95, "productive": 0.05}) or (None,)
    assert found is not None and "what would help: larger batches" in found.sentence
    assert first_step(found) == "b on a task's page shows where its Python is"


def test_a_limit_that_is_no_longer_judged_beside_a_straggler_is_not_said_to_have_gone() -> None:
    """The CPUs are full to the end."""
    found = [*evaluations(sample=host(cpu=1.0), slow=(Slow(1, 3.0, begin=40.0),), seconds=70.0)]
    (over,) = (each for found_now in found for each in found_now if each.kind == "saturation" and each.end is not None)
    assert [each.kind for each in found[-1]] == ["straggler"]
    assert end_text(over).startswith("not judged beside a straggler; until then it was ")


def test_a_limit_that_has_gone_is_said_to_have_gone() -> None:
    saturation, memory, over = SaturationWatch(), OpenDiagnoses(), []
    for second in range(60):
        busy = {"python": 0.95 if second < 30 else 0.1}
        over += [each for each in memory.update(saturation.diagnose(None, {}, {}, second, busy), second) if each.end]
    assert [end_text(each).partition(",")[0] for each in over] == ["no longer at this limit"]


def test_where_a_worker_is_not_heard_nothing_is_said_of_the_all_reduce() -> None:
    slow = replace(LOAD, transfer=0.7 * LOAD.step)
    assert limits(slow, {}, {})[0].resource == "communication"
    assert limits(replace(slow, is_whole=False), {}, {}) == []


def test_what_is_told_of_the_time_is_not_hidden_by_a_larger_limit_that_is_not() -> None:
    """A checkpoint after each step took 16 % of the time beside an all-reduce of 28 % of the step."""
    saturation = SaturationWatch()
    for second in range(30):
        load = replace(LOAD, transfer=(0.28 if second else 0.31) * LOAD.step)
        found = saturation.diagnose(load, {}, {}, float(second), {"checkpoint": 0.16, "productive": 0.84})
    (told,) = found
    assert (told.evidence["resource"], told.evidence["also"]) == ("checkpoint", ("communication",))


def test_a_run_whose_time_goes_into_steps_has_no_such_limit() -> None:
    shares = {"compile": 0.05, "checkpoint": 0.05, "evaluation": 0.2, "python": 0.2, "input": 0.0, "productive": 0.5}
    assert limits(replace(LOAD, ranks=1), {}, {}, shares=shares) == []
