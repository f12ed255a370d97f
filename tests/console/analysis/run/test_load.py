import pytest
from tfscale.console.analysis.findings import Findings, SubjectSummary
from tfscale.console.analysis.run.load import Load, load_of
from tfscale.core.records.probe_status import ProbeState, ProbeStatus

WORKERS = [SubjectSummary(input=0.01, compute=0.05, update=0.01), SubjectSummary(input=0.03, compute=0.05)]


def test_the_load_is_in_medians_of_what_the_workers_report() -> None:
    load = load_of(Findings(step_time=0.1, transfer=0.2), WORKERS, None)
    assert load == Load(step=0.1, transfer=0.1, input=0.02, compute=0.05 + 0.01, ranks=2)
    probe = ProbeStatus(ProbeState.MEASURING, ranks=8)
    assert load_of(Findings(step_time=0.1, transfer=0.2), WORKERS, probe) == Load(0.1, 0.1, 0.02, 0.05 + 0.01, 8)


def test_without_a_measured_step_or_an_all_reduce_there_is_no_load() -> None:
    assert load_of(Findings(transfer=0.2), WORKERS, None) is None
    assert load_of(Findings(step_time=0.1), WORKERS, None) is None
    assert load_of(Findings(step_time=0.1, transfer=0.2), [], None) is None


def test_the_bus_bandwidth_needs_bytes_a_transfer_and_a_peer() -> None:
    assert Load(1.0, 0.5, 0.0, 0.5, ranks=2, payload=1e6).bus == 8 * 2e6
    assert Load(1.0, 0.5, 0.0, 0.5, ranks=2).bus is None
    assert Load(1.0, 0.5, 0.0, 0.5, ranks=1, payload=1e6).bus is None


def test_what_is_gathered_goes_over_each_link_n_less_one_times() -> None:
    load = Load(1.0, 0.5, 0.0, 0.5, ranks=4, payload=1e6, gathered=1.0)
    assert load.bus == 8 * 3 * 2e6 and load.gathered_volume == 1.0
    half = Load(1.0, 0.5, 0.0, 0.5, ranks=4, payload=2e6, gathered=0.5)
    assert half.bus == 8 * (3 + 1.5) * 2e6 and half.gathered_volume == pytest.approx(2 / 3)


def test_a_load_has_what_the_probe_knows_of_the_program() -> None:
    probe = ProbeStatus(
        ProbeState.MEASURING,
        ranks=4,
        reduced_bytes_per_step=1000,
        gathered_bytes_per_step=250,
        dense_bytes_per_step=9000,
        wire_type="bfloat16",
        micro_batches=2,
        local_steps=8,
    )
    load = Load(1.0, 0.5, 0.0, 0.5, ranks=2).of_program(probe)
    assert load == Load(1.0, 0.5, 0.0, 0.5, 4, 1000, 0.25, 9000, "bfloat16", 2, 8)
