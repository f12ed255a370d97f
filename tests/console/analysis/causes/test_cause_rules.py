"""Every cause out of raw counters: a simulated cluster with one worker that is slow for it, beside a healthy twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from phase_simulation import Simulation
from phase_simulation import frame as made
from tfscale.console.analysis.diagnostician import Diagnostician
from tfscale.console.sources.simulation.step_phases import Slow
from tfscale.core.records.diagnosis import Diagnosis
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample, HostSample, Pressure, TaskUsage
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

Make = Callable[[int], Diagnostician]
Counters = Mapping[str, object]

SLOW = "worker:2"
COMPUTE = Slow(2, ratio=1.5, phase="compute", begin=15.0)

HEALTHY_HOST = HostSample(
    cpu=0.4,
    cores=16,
    load=6.0,
    memory_used=32 << 30,
    memory_total=64 << 30,
    swap_used=0,
    pressure=Pressure(cpu=0.01, memory=0.0, io=0.0),
    task=TaskUsage(processes=1, threads=80, cpu=6.0, memory=8 << 30),
    throttled=0.0,
)
HEALTHY_GPU = GpuSample(
    index=0,
    uuid="GPU-0",
    name="H100",
    utilisation=0.95,
    memory_used=40 << 30,
    memory_total=80 << 30,
    power=500.0,
    power_limit=700.0,
    temperature=62.0,
    clock=1_755_000_000,
    clock_max=1_980_000_000,
    clock_event_reasons=0x4,
    ecc_errors=0,
)


def watch(
    observer: Diagnostician,
    *slow: Slow,
    host: Counters | None = None,
    gpu: Counters | None = None,
    examples: int = 64,
    everybody: bool = False,
    gpus: bool = True,
) -> list[Diagnosis]:
    """Return the stragglers of a cluster in which worker 2 (or every worker) has these counters from second 15 on."""
    found: dict[tuple[str, float], Diagnosis] = {}
    for task, frame in Simulation(4, 20.0, 60.0, slow=slow).frames():
        ill = (task == SLOW or everybody) and frame.at >= 15.0
        observer.observe(task, with_counters(task, frame, host if ill else None, gpu if ill else None, examples, gpus))
        if task == "worker:3":
            for each in observer.diagnose(frame.at).diagnoses:
                if each.kind == "straggler":
                    found[each.subject, each.begin] = each
    return list(found.values())


def with_counters(
    task: str, frame: Frame, host: Counters | None, gpu: Counters | None, examples: int, gpus: bool
) -> Frame:
    changes = {name: change(frame.at) if callable(change) else change for name, change in (host or {}).items()}
    own = examples if task == SLOW else 64
    return replace(
        frame,
        host=replace(HEALTHY_HOST, **changes),
        gpus=(replace(HEALTHY_GPU, uuid=f"GPU-{task}", **(gpu or {})),) if gpus else (),
        probe=ProbeStatus(ProbeState.MEASURING, replicas=4, local_replicas=1, examples_per_step=4 * own),
    )


CASES = {
    "input": ({"slow": (Slow(2, extra=0.03, phase="input", begin=15.0),)}, "its data come late", ""),
    "host": ({"slow": (Slow(2, extra=0.03, phase="host", begin=15.0),)}, "its own Python", "input without tf.data"),
    "thermal": (
        {"gpu": {"clock_event_reasons": 0x40 | 0x08, "temperature": 91.0, "clock": 1_100_000_000}},
        "its GPU is throttled by heat (91 °C)",
        "",
    ),
    "power brake": ({"gpu": {"clock_event_reasons": 0x80}}, "its GPU is slowed down by its power supply", ""),
    "power cap": (
        {"gpu": {"clock_event_reasons": 0x4, "clock": 1_200_000_000}},
        "its GPU is at its power limit, with its clock at 68% of its peers'",
        "",
    ),
    "cpu": (
        {"host": {"pressure": Pressure(0.43, 0.0, 0.0), "cpu": 1.0}},
        "other processes compete for its CPUs (pressure 43%, its peers' 1%)",
        "",
    ),
    "cpu limit": ({"host": {"throttled": 0.31}}, "the CPU limit of its cgroup holds it back 31% of the time", ""),
    "memory": (
        {"host": {"pressure": Pressure(0.02, 0.35, 0.4), "memory_used": 63 << 30}},
        "its host is short of memory (pressure 35%)",
        "",
    ),
    "memory swap": (
        {"host": {"swap_used": lambda at: int(12e6 * (at - 14))}},
        "its host swaps (12 MB/s)",
        "",
    ),
    "uneven": ({"examples": 96}, "it has 1.5x the examples of its peers in each step", ""),
    "device": ({}, "its GPU is slow, though nothing throttles it", ""),
    "device xid": ({"gpu": {"xid": 48}}, "its GPU reports error XID 48", ""),
    "device clock": (
        {"gpu": {"clock": 900_000_000, "clock_event_reasons": 0}},
        "its GPU's clock is at 51% of its peers', nothing says why",
        "",
    ),
    "unknown": ({"gpus": False}, "", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_a_cause_is_told_from_raw_counters(diagnostician: Make, name: str) -> None:
    counters, clause, rest = CASES[name]
    arguments = dict(counters)
    slow = arguments.pop("slow", (COMPUTE,))
    (straggler,) = watch(diagnostician(4), *slow, **arguments)  # type: ignore[misc, arg-type]
    assert (straggler.subject, straggler.evidence["cause"]) == (SLOW, name.split()[0])
    if clause:
        who, _, why = straggler.sentence.partition(" Likely cause: " + clause)
        assert who.startswith("worker:2 has been slow for ")
        assert rest in why
        assert ". The cluster loses " in who
    assert "also" not in straggler.evidence


def test_python_that_waits_for_a_cpu_is_short_of_cpu(diagnostician: Make) -> None:
    slow = Slow(2, extra=0.03, phase="host", begin=15.0)
    (straggler,) = watch(diagnostician(4), slow, host={"pressure": Pressure(0.83, 0.0, 0.0)})
    assert (straggler.evidence["cause"], straggler.evidence["also"]) == ("cpu", "host")


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("input", "host")])
def test_the_healthy_twin_has_the_same_counters_and_is_not_named(diagnostician: Make, name: str) -> None:
    assert watch(diagnostician(4), **CASES[name][0]) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["thermal", "power brake", "cpu", "cpu limit", "memory", "memory swap"])
def test_what_all_show_is_no_cause_of_one_being_slower(diagnostician: Make, name: str) -> None:
    (straggler,) = watch(diagnostician(4), COMPUTE, everybody=True, **CASES[name][0])  # type: ignore[arg-type]
    assert straggler.evidence["cause"] == "device"


CPU, SWAP = {"pressure": Pressure(0.43, 0.0, 0.0)}, {"swap_used": lambda at: int(12e6 * (at - 14))}
SECOND = {
    "input": ({"host": CPU}, "cpu"),
    "host": ({"host": CPU}, "cpu"),
    "thermal": ({"host": SWAP}, "memory"),
    "power brake": ({"examples": 96}, "uneven"),
    "power cap": ({"host": CPU}, "cpu"),
    "cpu": ({"gpu": {"xid": 48}}, "device"),
    "cpu limit": ({"examples": 96}, "uneven"),
    "memory": ({"examples": 96}, "uneven"),
    "memory swap": ({"gpu": {"ecc_errors": 3}}, "device"),
    "uneven": ({"gpu": {"xid": 48}}, "device"),
    "device xid": ({"host": CPU}, "cpu"),
}
"""A second fault beside each cause, and its name."""


@pytest.mark.parametrize("name", SECOND)
def test_each_cause_is_told_with_another(diagnostician: Make, name: str) -> None:
    (counters, _, _), (beside, other) = CASES[name], SECOND[name]
    arguments = {**counters, **beside}
    slow = arguments.pop("slow", (COMPUTE,))
    (straggler,) = watch(diagnostician(4), *slow, **arguments)  # type: ignore[misc, arg-type]
    told = {straggler.evidence["cause"], straggler.evidence["also"]}
    assert (straggler.subject, told) == (SLOW, {name.split()[0], other})
    assert ", and " in straggler.sentence


def test_of_two_causes_the_first_is_named_and_the_second_is_told(diagnostician: Make) -> None:
    (straggler,) = watch(
        diagnostician(4),
        COMPUTE,
        gpu={"clock_event_reasons": 0x40, "temperature": 91.0},
        host={"pressure": Pressure(0.43, 0.0, 0.0)},
    )
    assert (straggler.evidence["cause"], straggler.evidence["also"]) == ("thermal", "cpu")
    assert "throttled by heat (91 °C), and other processes compete for its CPUs" in straggler.sentence
    assert straggler.evidence["cpu_pressure"] == pytest.approx(0.43)


def test_slow_input_under_cpu_pressure_tells_both(diagnostician: Make) -> None:
    slow = Slow(2, extra=0.03, phase="input", begin=15.0)
    (straggler,) = watch(diagnostician(4), slow, host={"pressure": Pressure(0.43, 0.0, 0.0)})
    assert (straggler.evidence["cause"], straggler.evidence["also"]) == ("input", "cpu")


def test_two_stragglers_have_each_their_own_cause(diagnostician: Make) -> None:
    slow = Slow(0, extra=0.05, phase="input", begin=15.0)
    found = watch(diagnostician(4), COMPUTE, slow, gpu={"clock_event_reasons": 0x20})
    assert {each.subject: each.evidence["cause"] for each in found} == {"worker:0": "input", "worker:2": "thermal"}


def test_memory_errors_that_come_are_told_and_old_ones_are_not(diagnostician: Make) -> None:
    (old,) = watch(diagnostician(4), COMPUTE, gpu={"ecc_errors": 0})
    assert old.sentence.count("uncorrectable") == 0
    (new,) = watch(diagnostician(4), COMPUTE, gpu={"ecc_errors": 3})
    assert "its GPU's memory has 3 new uncorrectable errors" in new.sentence


def test_a_cause_comes_late_but_does_not_change_with_every_look(diagnostician: Make) -> None:
    """The pressure figure looks 10 s back, so that it rises after the straggler was named."""
    observer, told = diagnostician(4), []
    for task, frame in Simulation(4, 20.0, 90.0, slow=(COMPUTE,)).frames():
        pressed = task == SLOW and frame.at >= 30.0 and int(frame.at) % 7 > 1
        host = {"pressure": Pressure(0.5, 0.0, 0.0)} if pressed else None
        observer.observe(task, with_counters(task, frame, host, None, 64, gpus=False))
        if task == "worker:3":
            told += [each for each in observer.diagnose(frame.at).diagnoses if each.kind == "straggler"]
    causes = [str(each.evidence["cause"]) for each in told]
    assert causes == sorted(causes, reverse=True)
    assert set(causes) == {"unknown", "cpu"}
    causes = {each.sentence.partition("Likely cause: ")[2] for each in told if each.evidence["cause"] == "cpu"}
    assert all(cause.startswith("other processes compete for its CPUs") for cause in causes)


def test_a_replica_is_not_slower_than_its_siblings_for_what_the_host_does(
    diagnostician: Make, batch: Callable[..., object], frame: Callable[..., Frame]
) -> None:
    observer = diagnostician(1)
    host = replace(HEALTHY_HOST, pressure=Pressure(0.5, 0.5, 0.0), throttled=0.5)
    for second in range(20):
        rows = {"first": 20 * second, "count": 20}
        fast = batch("worker:0/replica:0", **rows, reduce=[0.03] * 20)
        slow = batch("worker:0/replica:1", **rows, compute=[0.03] * 20)
        observer.observe("worker:0", frame(second + 1.0, fast, slow, host=host, gpus=(HEALTHY_GPU,)))
        findings = observer.diagnose(second + 1.0)
    (straggler,) = [each for each in findings.diagnoses if each.kind == "straggler"]
    assert (straggler.subject, straggler.evidence["cause"]) == ("worker:0/replica:1", "device")


def test_an_imbalance_says_in_which_phase_it_lies(diagnostician: Make) -> None:
    observer = diagnostician(4)
    end, phases = Simulation(4, 20.0, 90.0).steps()
    for step in range(len(end)):
        phases[2, step, (step // 3) % 4] += 0.03
        own = phases[:-1, step].sum(axis=0)
        phases[-1, step] = 0.005 + own.max() - own
    end = phases.sum(axis=0)[:, 0].cumsum()
    for second in range(1, 90):
        low, high = end.searchsorted([second - 1, second])
        for worker in range(4):
            observer.observe(f"worker:{worker}", made(worker, float(second), end, phases, int(low), int(high)))
        findings = observer.diagnose(float(second))
    (imbalance,) = [each for each in findings.diagnoses if each.kind == "imbalance"]
    assert (imbalance.evidence["phase"], imbalance.evidence["cause"]) == ("input", "input")
    assert imbalance.sentence.endswith("; mostly in input")
